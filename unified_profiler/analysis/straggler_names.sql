-- What a slow rank spends more time in than the others since it became slow: operators by their self time, regions
-- and what loads data by their whole time, each as the mean over steps. `slow` has one row for each slow rank.
with
own as (
    select slow.rank as slow_rank, facts.what, facts.name, facts.rank, sum(facts.spent_ns) as spent_ns
    from facts
    cross join slow
    where facts.what in ('operator', 'region', 'loading') and facts.step >= slow.since
    group by slow.rank, facts.what, facts.name, facts.rank
),
counted as (
    select slow.rank as slow_rank, facts.rank, count(*) as steps
    from facts
    cross join slow
    where facts.what = 'wall' and facts.step >= slow.since
    group by slow.rank, facts.rank
),
-- A rank without the name in question has spent nothing in it.
means as (
    select
        names.slow_rank,
        names.what,
        names.name,
        counted.rank,
        coalesce(own.spent_ns, 0) / counted.steps as spent_ns
    from (select distinct slow_rank, what, name from own where slow_rank = rank) as names
    join counted on counted.slow_rank = names.slow_rank
    left join own
        on own.slow_rank = names.slow_rank
        and own.what = names.what
        and own.name = names.name
        and own.rank = counted.rank
)
select
    slow_rank as rank,
    what,
    name,
    cast(
        round(
            max(case when rank = slow_rank then spent_ns end) - median(case when rank <> slow_rank then spent_ns end)
        ) as bigint
    ) as extra_ns
from means
group by slow_rank, what, name
order by slow_rank, extra_ns desc, name
