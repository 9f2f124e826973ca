-- How much of the critical paths each rank, kind and name takes.
select
    rank,
    kind,
    name,
    op,
    cast(sum(duration_ns) as bigint) as path_ns,
    sum(duration_ns) / sum(sum(duration_ns)) over () as path_share,
    count(*) as segment_count
from segments
group by rank, kind, name, op
order by path_ns desc, rank nulls last, kind, name, op nulls last
