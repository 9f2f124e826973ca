-- Kernels by name and shapes, and how much single calls differ.
with
kernels as (
    select
        name,
        shapes,
        cast(count(*) as bigint) as call_count,
        cast(sum(duration_ns) as bigint) as duration_ns,
        avg(duration_ns) as mean_ns,
        min(duration_ns) as min_ns,
        median(duration_ns) as median_ns,
        percentile_cont(0.95) within group (order by duration_ns) as p95_ns,
        max(duration_ns) as max_ns,
        round(stddev_pop(duration_ns) / nullif(avg(duration_ns), 0), 6) as variation
    from {view}
    where class = 'compute'
    group by name, shapes
)
select name, shapes, call_count, duration_ns, duration_ns / nullif(sum(duration_ns) over (), 0) as work_share,
    mean_ns, min_ns, median_ns, p95_ns, max_ns, variation
from kernels
order by duration_ns desc, name nulls last, shapes nulls last
