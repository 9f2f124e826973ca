-- The lengths of each launch queue over all its changes, and how long it was empty and full.
select
    rank,
    device,
    stream,
    cast(count(*) as bigint) as change_count,
    avg(length) as length_mean,
    stddev_samp(length) as length_deviation,
    min(length) as length_min,
    percentile_cont(0.25) within group (order by length) as length_p25,
    median(length) as length_median,
    percentile_cont(0.75) within group (order by length) as length_p75,
    max(length) as length_max,
    sum(case when length = 0 then duration_ns else 0 end) / nullif(sum(duration_ns), 0) as empty_share,
    cast(sum(case when length >= {full} then duration_ns else 0 end) as bigint) as full_ns
from {view}
group by rank, device, stream
order by rank nulls last, device nulls last, stream nulls last
