-- The measured times of devices: per step of each cycle, and for the whole recording over all cycles of a rank. `facts`
-- has one row per device and step, and one per device for the whole trace.
with
sums as (
    select whole, rank, case when not whole then cycle end as cycle, step, device, stream, {sums}
    from facts
    group by whole, rank, case when not whole then cycle end, step, device, stream
)
select *, idle_ns / nullif(span_ns, 0) as idle_share
from sums
order by rank nulls last, cycle nulls last, step nulls last, device, stream nulls last
