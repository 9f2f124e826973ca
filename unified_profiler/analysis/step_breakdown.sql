-- Where the time of each step went. `facts` has one row per step and part, and one per step and region, which has its
-- name; parts of a step that were recorded in several pieces add up.
select
    rank,
    cycle,
    step,
    cast(sum(case when what = 'wall' then spent_ns else 0 end) as bigint) as wall_ns,
    cast(sum(case when what = 'op' then spent_ns else 0 end) as bigint) as op_ns,
    cast(sum(case when what = 'collective' then spent_ns else 0 end) as bigint) as collective_ns,
    cast(sum(case when what = 'copy' then spent_ns else 0 end) as bigint) as copy_ns,
    cast(sum(case when what = 'compile' then spent_ns else 0 end) as bigint) as compile_ns,
    cast(sum(case when what = 'uncovered' then spent_ns else 0 end) as bigint) as uncovered_ns
from facts
group by rank, cycle, step
order by rank nulls last, cycle nulls last, step
