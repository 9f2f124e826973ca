-- How long each part of a step was busy. Parts: 1 in collectives, 2 in collectives or copies, 3 in any operator; and
-- each region of the application by its name. Spans of one part are cut to what they add to the earlier ones, so that no moment counts
-- twice, and to the borders of the step.
with
steps as (
    select rank, cycle, step, min(start_ns) as start_ns, max(start_ns + duration_ns) as end_ns
    from events
    where kind = 'step' and step is not null
    group by rank, cycle, step
),
parts as (
    select rank, cycle, 1 as part, cast(null as string) as region, start_ns, start_ns + duration_ns as end_ns
    from events
    where kind = 'collective'
    union all
    select rank, cycle, 2 as part, cast(null as string) as region, start_ns, start_ns + duration_ns as end_ns
    from events
    where kind in ('collective', 'copy')
    union all
    select rank, cycle, 3 as part, cast(null as string) as region, start_ns, start_ns + duration_ns as end_ns
    from events
    where kind in ('collective', 'copy', 'op', 'kernel')
    union all
    select rank, cycle, 4 as part, name as region, start_ns, start_ns + duration_ns as end_ns
    from events
    where kind = 'region' and layer = 'application'
),
reached as (
    select
        rank, cycle, part, region, start_ns, end_ns,
        coalesce(
            max(end_ns) over (
                partition by rank, cycle, part, region
                order by start_ns, end_ns
                rows between unbounded preceding and 1 preceding
            ),
            start_ns
        ) as reach_ns
    from parts
),
pieces as (
    select rank, cycle, part, region, greatest(start_ns, reach_ns) as start_ns, end_ns
    from reached
    where end_ns > greatest(start_ns, reach_ns)
)
select
    steps.rank, steps.cycle, steps.step, steps.start_ns,
    steps.end_ns - steps.start_ns as wall_ns,
    pieces.part,
    pieces.region,
    cast(
        sum(least(pieces.end_ns, steps.end_ns) - greatest(pieces.start_ns, steps.start_ns)) as bigint
    ) as busy_ns
from steps
left join pieces
    on pieces.rank = steps.rank
    and pieces.cycle = steps.cycle
    and pieces.start_ns < steps.end_ns
    and pieces.end_ns > steps.start_ns
group by steps.rank, steps.cycle, steps.step, steps.start_ns, steps.end_ns, pieces.part, pieces.region
order by steps.rank, steps.cycle, steps.step, pieces.part, pieces.region
