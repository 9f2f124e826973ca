-- The measured times of devices, summed over the cycles of a rank where `keys` leaves them out. `facts` has one row per
-- device and step, and one per device for the whole trace.
with
sums as (
    select {keys}, {sums}
    from facts
    where {condition}
    group by {keys}
)
select *, idle_ns / nullif(span_ns, 0) as idle_share
from sums
order by {order}
