-- How long each region ran in each step.
select rank, cycle, step, name, cast(sum(spent_ns) as bigint) as spent_ns
from facts
where fact = 'region'
group by rank, cycle, step, name
order by rank nulls last, cycle nulls last, step, name
