-- The synchronizing collectives that can be matched across ranks, numbered within their step. Where ranks recorded
-- different numbers of the same collective in a step, it is unknown which of them belong together.
with
collectives as (
    select rank, cycle, step, name, nth, start_ns, end_ns
    from facts
    where fact = 'synchronizing_collective'
),
counts as (
    select step, name, rank, count(*) as collective_count
    from collectives
    group by step, name, rank
),
matched as (
    select step, name
    from counts
    group by step, name
    having count(*) > 1 and min(collective_count) = max(collective_count)
)
select collectives.rank, cycle, collectives.step, collectives.name, nth, start_ns, end_ns
from collectives
join matched on matched.step = collectives.step and matched.name = collectives.name
order by collectives.step, collectives.name, nth, collectives.rank
