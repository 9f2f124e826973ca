"""Formats a gate as text: the verdict, its reasons, a table of the metrics, and the causes of a regression."""

from __future__ import annotations

import pyarrow as pa

from unified_profiler.engine import Result
from unified_profiler.gating.judgment import format_change, format_measured
from unified_profiler.gating.records import GateRecord, GateSide, Judgment
from unified_profiler.model.statements import Value
from unified_profiler.presentation.texts import format_value, render_statement, render_text, texts

_MISSING = "\u2013"


def as_text(gate: GateRecord, *, language: str = "en") -> str:
    """Return the whole gate as aligned text."""
    parts = ["\n".join(headlines(gate, language=language)), str(table_of(gate, language=language))]
    for judgment in gate.judgments:
        if judgment.contributions:
            title = contributions_title(judgment, language=language)
            parts.append(f"{title}\n{contributions_of(judgment, language=language)}")
    return "\n\n".join(parts)


def headlines(gate: GateRecord, *, language: str = "en") -> list[str]:
    """Return the lines above the table: the verdict, both sides, the reasons and the notices."""
    return [headline(gate, language=language), *sides(gate, language=language), *remarks(gate, language=language)]


def headline(gate: GateRecord, *, language: str = "en") -> str:
    """Return the verdict in one line."""
    verdict = texts(language)[f"gate.verdict.{gate.verdict.value}"]
    values: dict[str, Value] = {"verdict": verdict, "count": len(gate.judgments), "limit_share": gate.max_regression}
    return render_text("gate.headline", values, language=language)


def sides(gate: GateRecord, *, language: str = "en") -> list[str]:
    """Return one line per side."""
    return [_side(name, getattr(gate, name), language) for name in ("baseline", "candidate")]


def remarks(gate: GateRecord, *, language: str = "en") -> list[str]:
    """Return the reason of each verdict, and the notices."""
    note = texts(language)["summary.warning"] + texts(language)["ui.sentence_separator"]
    reasons = [render_statement("gate", judgment.reason, language=language) for judgment in gate.judgments]
    return [*reasons, *(f"{note}{render_statement('gate', notice, language=language)}" for notice in gate.notices)]


def table_of(gate: GateRecord, *, language: str = "en") -> Result:
    """Return a table with a row for each metric."""
    rows = [_row(judgment, language) for judgment in gate.judgments]
    headings = {name: texts(language)[f"gate.column.{name}"] for name in rows[0]}
    return Result(
        table=pa.Table.from_pylist(rows), headings=headings, footer=(texts(language)["gate.legend"],), sorted_by=None
    )


def contributions_title(judgment: Judgment, *, language: str = "en") -> str:
    """Return the title of the table of contributions."""
    return render_text("gate.contributions", {"metric": judgment.metric}, language=language)


def contributions_of(judgment: Judgment, *, language: str = "en") -> Result:
    """Return the contributions to a regression as a table, largest first."""
    language_texts = texts(language)
    rows = [
        {
            "name": each.name,
            "kind": language_texts[f"gate.kind.{each.kind}"],
            "difference_ns": each.difference_ns,
            "share": format_value("_share", each.share),
            "baseline": format_measured(each.baseline_ns, "ns"),
            "candidate": format_measured(each.candidate_ns, "ns"),
        }
        for each in judgment.contributions
    ]
    headings = {name: language_texts[f"gate.column.{name}"] for name in rows[0]}
    return Result(table=pa.Table.from_pylist(rows), headings=headings, sorted_by="difference_ns")


def steps_line(judgment: Judgment, *, language: str = "en") -> str:
    """Return how many steps were measured, and whether they were recorded."""
    counts = {"baseline_count": judgment.baseline.step_count, "candidate_count": judgment.candidate.step_count}
    return render_text(f"gate.steps.{judgment.steps}", counts, language=language)


def _row(judgment: Judgment, language: str) -> dict[str, str]:
    bounds = (judgment.ratio_low, judgment.ratio_high)
    return {
        "metric": format_value("metric", judgment.metric, language=language),
        "verdict": texts(language)[f"gate.verdict.{judgment.verdict.value}"],
        "change_share": format_change(judgment.ratio),
        "interval": _MISSING if judgment.ratio is None else " \u2026 ".join(map(format_change, bounds)),
        "baseline": format_measured(judgment.baseline.value, judgment.unit),
        "candidate": format_measured(judgment.candidate.value, judgment.unit),
        "step_count": steps_line(judgment, language=language),
        "run_count": f"{judgment.baseline.run_count} + {judgment.candidate.run_count}",
    }


def _side(name: str, side: GateSide, language: str) -> str:
    frameworks = ", ".join(f"{framework} {version}".strip() for framework, version in side.frameworks.items())
    values = {"label": texts(language)[f"diff.{name}"], "names": ", ".join(side.names), "frameworks": frameworks}
    return render_text("gate.side", values, language=language)
