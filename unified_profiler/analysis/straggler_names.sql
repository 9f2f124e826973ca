-- The operators, regions and data loading in which a slow rank spends more time than the others since it became slow:
-- operators by self time, the others by total time, each as the mean over steps. `slow` has one row per slow rank.
with
own as (
    select slow.rank as slow_rank, facts.fact, facts.name, facts.rank, sum(facts.spent_ns) as spent_ns
    from facts
    cross join slow
    where facts.fact in ('operator', 'region', 'loading') and facts.step >= slow.since
    group by slow.rank, facts.fact, facts.name, facts.rank
),
counted as (
    select slow.rank as slow_rank, facts.rank, count(*) as steps
    from facts
    cross join slow
    where facts.fact = 'wall' and facts.step >= slow.since
    group by slow.rank, facts.rank
),
-- A rank that lacks the name has spent no time in it.
means as (
    select
        names.slow_rank,
        names.fact,
        names.name,
        counted.rank,
        coalesce(own.spent_ns, 0) / counted.steps as spent_ns
    from (select distinct slow_rank, fact, name from own where slow_rank = rank) as names
    join counted on counted.slow_rank = names.slow_rank
    left join own
        on own.slow_rank = names.slow_rank
        and own.fact = names.fact
        and own.name = names.name
        and own.rank = counted.rank
)
select
    slow_rank as rank,
    fact,
    name,
    cast(
        round(
            max(case when rank = slow_rank then spent_ns end) - median(case when rank <> slow_rank then spent_ns end)
        ) as bigint
    ) as extra_ns
from means
group by slow_rank, fact, name
order by slow_rank, extra_ns desc, name
