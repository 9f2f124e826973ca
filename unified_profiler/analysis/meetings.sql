-- The meetings of which it is known that they are the same ones: collectives that end for all ranks together, numbered
-- within their step. Where ranks do not agree how often they met, nobody knows which meeting is which.
with
met as (
    select rank, cycle, step, name, nth, start_ns, end_ns
    from facts
    where what = 'meeting'
),
counted as (
    select step, name, rank, count(*) as meetings
    from met
    group by step, name, rank
),
known as (
    select step, name
    from counted
    group by step, name
    having count(*) > 1 and min(meetings) = max(meetings)
)
select met.rank, met.cycle, met.step, met.name, met.nth, met.start_ns, met.end_ns
from met
join known on known.step = met.step and known.name = met.name
order by met.step, met.name, met.nth, met.rank
