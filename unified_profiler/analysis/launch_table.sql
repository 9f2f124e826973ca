-- Launches in groups: time in the calls, time of the work, and the delay between the two.
select
    {keys},
    cast(count(*) as bigint) as work_count,
    cast(sum(launch_ns) as bigint) as launch_ns,
    cast(sum(duration_ns) as bigint) as work_ns,
    avg(delay_ns) as delay_ns,
    median(delay_ns) as delay_median_ns,
    max(delay_ns) as delay_max_ns,
    cast(sum(case when duration_ns < launch_ns then 1 else 0 end) as bigint) as short_count
from {view}
where delay_ns is not null
group by {keys}
order by launch_ns desc, {order}
