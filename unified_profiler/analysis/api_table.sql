-- Calls of the public API in groups. `calls` has one row per call; its `self_ns` leaves out the calls directly inside it.
with
groups as (
    select
        name,
        framework,
        count(*) as call_count,
        sum(duration_ns) as total_ns,
        min(duration_ns) as min_ns,
        max(duration_ns) as max_ns,
        sum(self_ns) as self_ns
    from calls
    group by name, framework
)
select
    name,
    framework,
    self_ns / nullif(sum(self_ns) over (), 0) as self_share,
    cast(self_ns as bigint) as self_ns,
    cast(total_ns as bigint) as total_ns,
    total_ns / call_count as mean_ns,
    min_ns,
    max_ns,
    cast(call_count as bigint) as call_count
from groups
order by {order}
