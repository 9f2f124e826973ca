"""Whether runs can be set against each other at all, and what to know where they can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from unified_profiler.errors import ConfigurationError
from unified_profiler.model.run import Run
from unified_profiler.model.statements import Statement, statement
from unified_profiler.report.step_times import step_times
from unified_profiler.report.summary import name_of, span, world_size

Facts: TypeAlias = Callable[[Run], Iterator["str | None"]]
"""Gives what is known of each rank of a run."""


def frameworks_of(runs: Sequence[Run]) -> dict[str, str]:
    """Return what was recorded, with versions."""
    return {name: version for run in runs for trace in run.traces for name, version in trace.info.frameworks.items()}


def check(baseline: Sequence[Run], candidate: Sequence[Run], *, all_ranks: bool) -> None:
    """Refuse what cannot be judged.

    Raises:
        ConfigurationError: A side is empty, a run has no steps or lacks ranks, or the numbers of ranks differ.
    """
    for label, runs in (("baseline", baseline), ("candidate", candidate)):
        if not runs:
            msg = f"The {label} must be a run or several; found none."
            raise ConfigurationError(msg)
        for run in runs:
            _check_run(label, run, all_ranks=all_ranks)
    found = sorted({world_size(run) for run in (*baseline, *candidate)})
    if len(found) > 1:
        msg = (
            f"The runs are of different numbers of ranks: {', '.join(map(str, found))}. The steps of a job of another "
            "size do other work; record both sides alike."
        )
        raise ConfigurationError(msg)


def _check_run(label: str, run: Run, *, all_ranks: bool) -> None:
    if not any(len(times.step) for times in step_times(run)):
        msg = (
            f"The {label} {name_of(run)!r} has no steps, so there is nothing to judge. "
            "Call Profiler.step() at the end of each iteration."
        )
        raise ConfigurationError(msg)
    missing = sorted(set(range(world_size(run))) - set(run.ranks))
    if missing and all_ranks:
        msg = (
            f"The {label} {name_of(run)!r} lacks {_ranks(missing)} of {world_size(run)}: the step of a job is that of "
            "its slowest rank. Record again, or choose one rank of all runs with --rank."
        )
        raise ConfigurationError(msg)


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"


def in_turn(baseline: Sequence[Run], candidate: Sequence[Run]) -> bool:
    """Say whether the runs were taken in turn: the first of each side before the second of each, and so on."""
    if len(baseline) != len(candidate):
        return False
    starts = [tuple(span(run)[0] or 0 for run in pair) for pair in zip(baseline, candidate, strict=True)]
    return all(max(pair) < min(following) for pair, following in pairwise(starts))


def notices_of(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[Statement, ...]:
    """Return what to know before trusting the verdict."""
    found = [*_between(baseline, candidate), *_deaths(baseline, candidate)]
    return tuple(each.with_text("gate") for each in found)


def _between(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Statement]:
    before, after = frameworks_of(baseline), frameworks_of(candidate)
    if before.keys() != after.keys():
        yield statement(
            "other_frameworks", "warning", baseline=", ".join(sorted(before)), candidate=", ".join(sorted(after))
        )
    else:
        yield from _difference("other_versions", _versions, baseline, candidate)
    for code, facts_of in _SURROUNDINGS.items():
        yield from _difference(code, facts_of, baseline, candidate)
    if len({str(_settings(run)) for run in (*baseline, *candidate)}) > 1:
        yield statement("other_settings", "warning")
    if len(baseline) + len(candidate) > 2 and not in_turn(baseline, candidate):
        yield statement("not_in_turn", "warning")


def _difference(code: str, facts_of: Facts, baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Statement]:
    """Say what the sides ran with if that differs; what is not known of one side is not compared."""
    before, after = (sorted({fact for run in runs for fact in facts_of(run) if fact}) for runs in (baseline, candidate))
    if before and after and before != after:
        yield statement(code, "warning", baseline=", ".join(before), candidate=", ".join(after))


def _deaths(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Statement]:
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        for run in runs:
            for rank in (rank for rank, manifest in sorted(run.manifests.items()) if manifest.ended_ns is None):
                yield statement("not_ended", "warning", side=side, name=name_of(run), rank=rank)


def _settings(run: Run) -> list[Any]:
    """Return what was to be recorded, and when, but for where it was written."""
    settings = (manifest.settings for manifest in run.manifests.values())
    return [{name: value for name, value in each.items() if name != "output_dir"} for each in settings]


def _versions(run: Run) -> Iterator[str]:
    for trace in run.traces:
        yield from (f"{name} {version}".strip() for name, version in trace.info.frameworks.items())


def _hosts(run: Run) -> Iterator[str]:
    yield from (trace.info.host for trace in run.traces)
    yield from (manifest.host for manifest in run.manifests.values())


def _of_manifests(field: str) -> Facts:
    return lambda run: (getattr(manifest, field) for manifest in run.manifests.values())


_SURROUNDINGS: dict[str, Facts] = {
    "other_pythons": _of_manifests("python"),
    "other_processors": _of_manifests("processor"),
    "other_platforms": _of_manifests("platform"),
    "other_hosts": _hosts,
}
"""What changes times besides the program, by the code of the notice."""
