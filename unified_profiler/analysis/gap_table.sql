-- The gaps between pieces of device work, longest first.
select *
from {view}
order by duration_ns desc, rank, cycle, start_ns
