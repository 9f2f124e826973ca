-- The end of each step on each rank, in the same columns as synchronizing_collectives.sql.
select rank, cycle, step, 'step' as name, 0 as nth, start_ns, end_ns
from facts
where fact = 'wall'
order by step, rank
