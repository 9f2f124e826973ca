-- Copies by kind. Bytes per nanosecond are GB/s.
select
    rank,
    device,
    name,
    memory,
    cast(count(*) as bigint) as copy_count,
    cast(sum(bytes) as bigint) as total_bytes,
    cast(sum(duration_ns) as bigint) as duration_ns,
    sum(bytes) / nullif(sum(case when bytes is not null then duration_ns end), 0) as bandwidth,
    min(bytes / nullif(duration_ns, 0)) as bandwidth_min,
    median(bytes / nullif(duration_ns, 0)) as bandwidth_median,
    max(bytes / nullif(duration_ns, 0)) as bandwidth_max
from {view}
where class = 'copy'
group by rank, device, name, memory
order by duration_ns desc, rank nulls last, device nulls last, name nulls last, memory nulls last
