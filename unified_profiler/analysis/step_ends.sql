-- When each step ended on each rank, in the columns of meetings.
select rank, cycle, step, 'step' as name, 0 as nth, start_ns, end_ns
from facts
where what = 'wall'
order by step, rank
