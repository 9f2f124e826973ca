-- Each step of each rank: the parts of its time, and how long it waited in collectives for ranks that had not entered yet.
-- `facts` has the parts of each step and its exposed intervals, in which the rank was in a synchronizing collective and
-- did nothing else; `collectives` has the synchronizing collectives; `clocks` has how far each rank's clock is ahead.
with
intervals as (
    select rank, cycle, step, fact, name, nth, start_ns, end_ns
    from facts
    where fact = 'exposed'
    union all
    select rank, cycle, step, 'collective' as fact, name, nth, start_ns, end_ns
    from collectives
),
corrected as (
    select
        intervals.rank,
        cycle,
        step,
        fact,
        name,
        nth,
        start_ns - cast(round(coalesce(ahead_ns + drift * (start_ns - at_ns), 0)) as bigint) as start_ns,
        end_ns - cast(round(coalesce(ahead_ns + drift * (end_ns - at_ns), 0)) as bigint) as end_ns
    from intervals
    left join clocks on clocks.rank = intervals.rank
),
exposed as (
    select rank, cycle, step, start_ns, end_ns
    from corrected
    where fact = 'exposed'
),
entered as (
    select rank, cycle, step, name, nth, start_ns, end_ns
    from corrected
    where fact = 'collective'
),
complete as (
    select step, name, nth, max(start_ns) as complete_ns
    from entered
    group by step, name, nth
),
waits as (
    select rank, cycle, entered.step, start_ns, least(end_ns, complete_ns) as end_ns
    from entered
    join complete on complete.step = entered.step and complete.name = entered.name and complete.nth = entered.nth
    where complete_ns > start_ns
),
reached as (
    select
        rank, cycle, step, start_ns, end_ns,
        coalesce(
            max(end_ns) over (
                partition by rank, cycle
                order by start_ns, end_ns
                rows between unbounded preceding and 1 preceding
            ),
            start_ns
        ) as reach_ns
    from waits
),
-- A wait may last into the next step.
pieces as (
    select rank, cycle, step, greatest(start_ns, reach_ns) as start_ns, end_ns
    from reached
    where end_ns > reach_ns
    union all
    select rank, cycle, step + 1 as step, greatest(start_ns, reach_ns) as start_ns, end_ns
    from reached
    where end_ns > reach_ns
),
waiting as (
    select
        exposed.rank, exposed.cycle, exposed.step,
        sum(least(exposed.end_ns, pieces.end_ns) - greatest(exposed.start_ns, pieces.start_ns)) as waiting_ns
    from exposed
    join pieces
        on pieces.rank = exposed.rank
        and pieces.cycle = exposed.cycle
        and pieces.step = exposed.step
        and pieces.start_ns < exposed.end_ns
        and pieces.end_ns > exposed.start_ns
    group by exposed.rank, exposed.cycle, exposed.step
),
parts as (
    select
        rank,
        cycle,
        step,
        min(case when fact = 'wall' then start_ns end) as start_ns,
        sum(case when fact = 'wall' then spent_ns else 0 end) as wall_ns,
        sum(case when fact = 'compute' then spent_ns else 0 end) as compute_ns,
        sum(case when fact = 'collective' then spent_ns else 0 end) as collective_ns,
        sum(case when fact = 'copy' then spent_ns else 0 end) as copy_ns,
        sum(case when fact = 'data' then spent_ns else 0 end) as data_ns,
        sum(case when fact = 'uncovered' then spent_ns else 0 end) as uncovered_ns
    from facts
    where fact in ('wall', 'compute', 'collective', 'copy', 'data', 'uncovered')
    group by rank, cycle, step
)
select
    parts.rank,
    parts.cycle,
    parts.step,
    cast(wall_ns as bigint) as wall_ns,
    cast(wall_ns - coalesce(waiting_ns, 0) as bigint) as own_ns,
    cast(compute_ns as bigint) as compute_ns,
    cast(collective_ns as bigint) as collective_ns,
    cast(coalesce(waiting_ns, 0) as bigint) as waiting_ns,
    cast(copy_ns as bigint) as copy_ns,
    cast(data_ns as bigint) as data_ns,
    cast(uncovered_ns as bigint) as uncovered_ns
from parts
left join waiting on waiting.rank = parts.rank and waiting.cycle = parts.cycle and waiting.step = parts.step
order by parts.rank, parts.step, parts.cycle
