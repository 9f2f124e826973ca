-- The gaps between pieces of device work, longest first.
select *
from {view}
order by duration_ns desc, rank nulls last, cycle nulls last, start_ns
