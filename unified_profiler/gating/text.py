"""A gate as people read it: the verdict, its reasons, a table of the metrics, and what makes up a regression."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unified_profiler.engine import Result
from unified_profiler.gating.judgment import shown
from unified_profiler.gating.records import GateRecord, Judgment, SideOfGate
from unified_profiler.model.statements import Value
from unified_profiler.presentation.texts import format_value, render_statement, render_text, texts

_NOTHING = "\u2013"
_CONTRIBUTIONS = {
    "name": pa.string(),
    "kind": pa.string(),
    "difference_ns": pa.float64(),
    "share": pa.string(),
    "baseline": pa.string(),
    "candidate": pa.string(),
}


def as_text(gate: GateRecord, *, language: str = "en") -> str:
    """Return all of it as aligned text."""
    parts = ["\n".join(headlines(gate, language=language)), str(table_of(gate, language=language))]
    for judgment in gate.judgments:
        if judgment.contributions:
            title = contributions_title(judgment, language=language)
            parts.append(f"{title}\n{contributions_of(judgment, language=language)}")
    return "\n\n".join(parts)


def headlines(gate: GateRecord, *, language: str = "en") -> list[str]:
    """Return the verdict, who was compared, the reasons, and what to know."""
    return [headline(gate, language=language), *sides(gate, language=language), *remarks(gate, language=language)]


def headline(gate: GateRecord, *, language: str = "en") -> str:
    """Return the verdict in a line."""
    verdict = texts(language)[f"gate.verdict.{gate.verdict.value}"]
    words: dict[str, Value] = {"verdict": verdict, "count": len(gate.judgments), "limit_share": gate.max_regression}
    return render_text("gate.headline", words, language=language)


def sides(gate: GateRecord, *, language: str = "en") -> list[str]:
    """Return a line about each side."""
    return [_side(name, getattr(gate, name), language) for name in ("baseline", "candidate")]


def remarks(gate: GateRecord, *, language: str = "en") -> list[str]:
    """Return the reason of each verdict, and what to know before trusting it."""
    note = texts(language)["summary.warning"]
    reasons = [render_statement("gate", judgment.reason, language=language) for judgment in gate.judgments]
    return [*reasons, *(f"{note} {render_statement('gate', notice, language=language)}" for notice in gate.notices)]


def table_of(gate: GateRecord, *, language: str = "en") -> Result:
    """Return a row for each metric."""
    rows = [_row(judgment, language) for judgment in gate.judgments]
    headings = {name: texts(language)[f"gate.column.{name}"] for name in rows[0]}
    return Result(
        table=pa.Table.from_pylist(rows), headings=headings, footer=(texts(language)["gate.legend"],), sorted_by=None
    )


def contributions_title(judgment: Judgment, *, language: str = "en") -> str:
    """Return what stands above the table of what makes up a regression."""
    return render_text("gate.contributions", {"metric": judgment.metric}, language=language)


def contributions_of(judgment: Judgment, *, language: str = "en") -> Result:
    """Return what makes up a regression as a table, in the order in which it was found."""
    known = texts(language)
    rows = [
        {
            "name": each.name,
            "kind": known[f"gate.kind.{each.kind}"],
            "difference_ns": each.difference_ns,
            "share": format_value("_share", each.share),
            "baseline": shown(each.baseline_ns, "ns"),
            "candidate": shown(each.candidate_ns, "ns"),
        }
        for each in judgment.contributions
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(_CONTRIBUTIONS))
    headings = {name: known[f"gate.column.{name}"] for name in _CONTRIBUTIONS}
    return Result(table=table, headings=headings, sorted_by="difference_ns")


def steps_line(judgment: Judgment, *, language: str = "en") -> str:
    """Return which steps counted."""
    counts = {"baseline_count": judgment.baseline.step_count, "candidate_count": judgment.candidate.step_count}
    return render_text(f"gate.steps.{judgment.steps}", counts, language=language)


def _row(judgment: Judgment, language: str) -> dict[str, str]:
    return {
        "metric": judgment.metric,
        "verdict": texts(language)[f"gate.verdict.{judgment.verdict.value}"],
        "change_share": _change(judgment.ratio),
        "interval": _interval([judgment.ratio_low, judgment.ratio_high]),
        "baseline": shown(judgment.baseline.value, judgment.unit),
        "candidate": shown(judgment.candidate.value, judgment.unit),
        "step_count": steps_line(judgment, language=language),
        "run_count": f"{judgment.baseline.run_count} + {judgment.candidate.run_count}",
    }


def _interval(ratios: Sequence[float | None]) -> str:
    return " \u2026 ".join(map(_change, ratios))


def _change(ratio: float | None) -> str:
    return _NOTHING if ratio is None else f"{ratio - 1:+.1%}"


def _side(name: str, side: SideOfGate, language: str) -> str:
    frameworks = ", ".join(f"{framework} {version}".strip() for framework, version in side.frameworks.items())
    words = {"label": texts(language)[f"diff.{name}"], "names": ", ".join(side.names), "frameworks": frameworks}
    return render_text("gate.side", words, language=language)
