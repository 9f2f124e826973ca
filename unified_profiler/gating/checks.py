"""Checks whether runs can be compared, and notices about differences other than the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from unified_profiler.errors import ConfigurationError
from unified_profiler.model.run import Run
from unified_profiler.model.statements import Statement, statement
from unified_profiler.report.step_times import step_times
from unified_profiler.report.summary import name_of, span, world_size

Facts: TypeAlias = Callable[[Run], Iterable["str | None"]]
"""Returns one property of each rank of a run, such as its host; None where unknown."""


def frameworks_of(runs: Sequence[Run]) -> dict[str, str]:
    """Return the recorded frameworks and their versions."""
    return {name: version for run in runs for trace in run.traces for name, version in trace.info.frameworks.items()}


def check(baseline: Sequence[Run], candidate: Sequence[Run], *, all_ranks: bool) -> None:
    """Check that the runs can be compared.

    Raises:
        ConfigurationError: A side is empty, a run has no steps or lacks ranks, or the numbers of ranks differ.
    """
    for label, runs in (("baseline", baseline), ("candidate", candidate)):
        if not runs:
            msg = f"The {label} must be a run or several; found none."
            raise ConfigurationError(msg)
        for run in runs:
            _check_run(label, run, all_ranks=all_ranks)
    sizes = sorted({world_size(run) for run in (*baseline, *candidate)})
    if len(sizes) > 1:
        msg = (
            f"The runs have different numbers of ranks: {', '.join(map(str, sizes))}. The steps of a job of another "
            "size do other work; record both sides with the same number."
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
        ranks = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        msg = (
            f"The {label} {name_of(run)!r} lacks {ranks} of {world_size(run)}, and a step of a job takes as long as "
            "its slowest rank. Record again, or choose one rank of all runs with --rank."
        )
        raise ConfigurationError(msg)


def in_turn(baseline: Sequence[Run], candidate: Sequence[Run]) -> bool:
    """Return whether the runs alternate in time: the first run of each side before the second of each, and so on."""
    if len(baseline) != len(candidate):
        return False
    starts = [tuple(span(run)[0] or 0 for run in pair) for pair in zip(baseline, candidate, strict=True)]
    return all(max(pair) < min(following) for pair, following in pairwise(starts))


def notices_of(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[Statement, ...]:
    """Return warnings about differences between the sides, and about ranks that did not end."""
    notices = [*_differences(baseline, candidate), *_unfinished_ranks(baseline, candidate)]
    return tuple(notice.with_text("gate") for notice in notices)


def _differences(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Statement]:
    before, after = (", ".join(sorted(frameworks_of(runs))) for runs in (baseline, candidate))
    if before != after:
        yield statement("other_frameworks", "warning", baseline=before, candidate=after)
    else:
        yield from _difference("other_versions", _versions, baseline, candidate)
    for code, facts_of in _ENVIRONMENT.items():
        yield from _difference(code, facts_of, baseline, candidate)
    if len({str(_settings(run)) for run in (*baseline, *candidate)}) > 1:
        yield statement("other_settings", "warning")
    if len(baseline) + len(candidate) > 2 and not in_turn(baseline, candidate):
        yield statement("not_in_turn", "warning")


def _difference(code: str, facts_of: Facts, baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Statement]:
    """Report a property that differs between the sides; one that is unknown for a side is not compared."""
    before, after = (sorted({fact for run in runs for fact in facts_of(run) if fact}) for runs in (baseline, candidate))
    if before and after and before != after:
        yield statement(code, "warning", baseline=", ".join(before), candidate=", ".join(after))


def _unfinished_ranks(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Statement]:
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        for run in runs:
            for rank in (rank for rank, manifest in sorted(run.manifests.items()) if manifest.ended_ns is None):
                yield statement("not_ended", "warning", side=side, name=name_of(run), rank=rank)


def _settings(run: Run) -> list[Any]:
    """Return the profiler settings of each rank without the output directory."""
    settings = (manifest.settings for manifest in run.manifests.values())
    return [{name: value for name, value in each.items() if name != "output_dir"} for each in settings]


def _versions(run: Run) -> Iterator[str]:
    for trace in run.traces:
        yield from (f"{name} {version}".strip() for name, version in trace.info.frameworks.items())


_ENVIRONMENT: dict[str, Facts] = {
    "other_pythons": lambda run: [manifest.python for manifest in run.manifests.values()],
    "other_processors": lambda run: [manifest.processor for manifest in run.manifests.values()],
    "other_platforms": lambda run: [manifest.platform for manifest in run.manifests.values()],
    "other_hosts": lambda run: [*(m.host for m in run.manifests.values()), *(t.info.host for t in run.traces)],
}
"""Properties of the environment that affect times, by the code of their notice."""
