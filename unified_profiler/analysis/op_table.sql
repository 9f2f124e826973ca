-- Calls of operators in groups. `calls` has one row per group and trace; a call that lies within another one of its
-- group adds nothing to `counted`, nor to whole times and bytes. `work_ns` is device work, each piece once, and `busy_ns`
-- host time, each moment of a thread once, which also contains what runs inside calls but has no row. `self_ns` is self
-- time on devices if there is any.
with
groups as (
    select
        {keys},
        sum(self_cpu_ns) as self_cpu_ns,
        sum(cpu_ns) as cpu_ns,
        sum(self_device_ns) as self_device_ns,
        sum(device_ns) as device_ns,
        sum(work_ns) as work_ns,
        sum(busy_ns) as busy_ns,
        sum(cpu_bytes) as cpu_bytes,
        sum(self_cpu_bytes) as self_cpu_bytes,
        sum(device_bytes) as device_bytes,
        sum(self_device_bytes) as self_device_bytes,
        sum(counted) as call_count,
        sum(flops) as flops
    from calls
    group by {keys}
)
select
    {keys},
    self_cpu_ns / nullif(sum(self_cpu_ns) over (), 0) as self_cpu_share,
    cast(self_cpu_ns as bigint) as self_cpu_ns,
    cpu_ns / nullif(sum(busy_ns) over (), 0) as cpu_share,
    cast(cpu_ns as bigint) as cpu_ns,
    cpu_ns / nullif(call_count, 0) as cpu_average_ns,
    cast(self_device_ns as bigint) as self_device_ns,
    self_device_ns / nullif(sum(work_ns) over (), 0) as self_device_share,
    cast(device_ns as bigint) as device_ns,
    device_ns / nullif(call_count, 0) as device_average_ns,
    cast(cpu_bytes as bigint) as cpu_bytes,
    cast(self_cpu_bytes as bigint) as self_cpu_bytes,
    cast(device_bytes as bigint) as device_bytes,
    cast(self_device_bytes as bigint) as self_device_bytes,
    cast(call_count as bigint) as call_count,
    cast(flops as bigint) as flops,
    cast(work_ns as bigint) as work_ns,
    cast(busy_ns as bigint) as busy_ns,
    cast(case when sum(self_device_ns) over () > 0 then self_device_ns else self_cpu_ns end as bigint) as self_ns
from groups
order by {order}
