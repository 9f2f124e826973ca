-- Sequences of kernels that follow one another on a stream, with nothing else of the stream between them.
with
sequences as (
    select
        {names} as sequence,
        (min(case when class = 'compute' then 1 else 0 end) over inside) = 1 as is_compute,
        {durations} as duration_ns,
        (lead(start_ns + duration_ns, {last}) over ahead) - start_ns as span_ns,
        {launches} as launch_ns
    from {view}
    window
        ahead as (partition by rank, cycle, device, stream order by start_ns, id),
        inside as (
            partition by rank, cycle, device, stream order by start_ns, id rows between current row and {last} following
        )
)
select
    sequence,
    cast(count(*) as bigint) as call_count,
    cast(sum(duration_ns) as bigint) as duration_ns,
    cast(sum(span_ns - duration_ns) as bigint) as gap_ns,
    cast(sum(launch_ns) as bigint) as launch_ns
from sequences
where is_compute and span_ns is not null
group by sequence
having count(*) > 1
order by call_count desc, duration_ns desc, sequence
