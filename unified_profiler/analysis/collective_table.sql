-- Collectives by operation, process group and size. Bytes per nanosecond are GB/s.
with
collectives as (
    select
        rank,
        coalesce(collective, name) as collective,
        process_group,
        group_size,
        cast(power(2, ceil(log2(case when bytes > 0 then bytes end))) as bigint) as size_class_bytes,
        bytes,
        duration_ns,
        case
            when lower(collective) like '%allreduce%' or lower(collective) like '%all_reduce%' then 2.0
            when lower(collective) like '%gather%' or lower(collective) like '%scatter%' then 1.0
            when lower(collective) like '%alltoall%' or lower(collective) like '%all_to_all%' then 1.0
        end as crossings
    from {view}
    where class = 'communication'
)
select
    rank,
    collective,
    process_group,
    group_size,
    size_class_bytes,
    cast(count(*) as bigint) as collective_count,
    cast(sum(bytes) as bigint) as total_bytes,
    cast(sum(duration_ns) as bigint) as duration_ns,
    median(duration_ns) as duration_median_ns,
    sum(bytes) / nullif(sum(duration_ns), 0) as algorithm_bandwidth,
    sum(bytes) / nullif(sum(duration_ns), 0)
        * coalesce(max(crossings) * (group_size - 1) / nullif(group_size, 0), 1.0) as bus_bandwidth
from collectives
group by rank, collective, process_group, group_size, size_class_bytes
order by duration_ns desc, rank nulls last, collective nulls last, process_group nulls last, group_size nulls last, size_class_bytes nulls last
