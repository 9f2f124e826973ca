-- The parts of each step's time. `facts` has one row per step and part, and one per step and region, which has a name;
-- steps that were recorded in several pieces are summed.
select
    rank,
    cycle,
    step,
    cast(sum(case when fact = 'wall' then spent_ns else 0 end) as bigint) as wall_ns,
    cast(sum(case when fact = 'data' then spent_ns else 0 end) as bigint) as data_ns,
    cast(sum(case when fact = 'op' then spent_ns else 0 end) as bigint) as op_ns,
    cast(sum(case when fact = 'collective' then spent_ns else 0 end) as bigint) as collective_ns,
    cast(sum(case when fact = 'copy' then spent_ns else 0 end) as bigint) as copy_ns,
    cast(sum(case when fact = 'compile' then spent_ns else 0 end) as bigint) as compile_ns,
    cast(sum(case when fact = 'uncovered' then spent_ns else 0 end) as bigint) as uncovered_ns
from facts
group by rank, cycle, step
order by rank nulls last, cycle nulls last, step
