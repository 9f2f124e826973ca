"""Renders a summary as sentences and tables of text in one language, for Markdown, the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from unified_profiler.model.records import Record
from unified_profiler.presentation.texts import format_amount, format_value, render_statement, render_text, texts
from unified_profiler.report.records import CounterSummary, SummaryRecord

MOST_ROWS = 20
"""Largest number of rows per table."""
MOST_SLOW = 3
"""Slow ranks that are described; the ranks page lists all."""

_RANKS = ("rank", "host", "step_count", "recorded_step_count", "recorded_step_ns", "overhead_ratio", "failure_count")
_DEVICES = (
    *("rank", "device", "span_ns", "busy_ns", "idle_share", "compute_ns", "exposed_communication_ns"),
    *("exposed_copy_ns", "host_late_ns", "synchronization_ns", "queue_empty_ns", "other_stream_ns"),
    *("device_overhead_ns", "unknown_ns"),
)
_ALWAYS = ("rank", "device", "span_ns", "busy_ns", "idle_share")
_PARTS = ("data_ns", "op_ns", "collective_ns", "copy_ns", "compile_ns", "uncovered_ns")
_CATEGORIES = ("category", "self_cpu_share", "self_cpu_ns", "call_count")
_OPERATORS = ("name", "self_cpu_share", "self_cpu_ns", "cpu_ns", "call_count")
_ON_DEVICE = ("self_device_share", "self_device_ns")
_API_CALLS = ("name", "self_share", "self_ns", "total_ns", "mean_ns", "call_count")
_COUNTERS = ("rank", "name", "device", "mean", "minimum", "maximum")
_TEXT_COLUMNS = frozenset({"name", "category", "host", "device", "part"})


@dataclass(frozen=True)
class Section:
    """A table of text cells with a title."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]
    more: str | None
    """Note on the rows left out."""


@dataclass(frozen=True)
class Remark:
    """A notice with its severity and the label of that severity."""

    level: str
    label: str
    text: str


class Sections:
    """The texts and tables of a summary in one language."""

    def __init__(self, summary: SummaryRecord, *, language: str = "en") -> None:
        self._summary = summary
        self._language = language
        self._texts = texts(language)

    @property
    def title(self) -> str:
        """The program and its frameworks; if the program is unknown, the name of the run or else the frameworks."""
        program = Path(self._summary.command[0]).name if self._summary.command else ""
        names = ", ".join(filter(None, [program, *self._summary.frameworks]))
        return names if program else self._summary.run or names or "unified_profiler"

    def facts(self) -> dict[str, str]:
        """Return the facts of the run (command, time, frameworks, hosts, steps) by heading."""
        summary = self._summary
        hosts = dict.fromkeys(rank.host for rank in summary.ranks if rank.host)
        facts = {
            "run": summary.run,
            "command": " ".join(summary.command),
            "began": _date(summary.started_ns),
            "duration": format_value("_ns", summary.duration_ns) if summary.duration_ns else "",
            "start_up": format_value("_ns", summary.steps.start_up_ns) if summary.steps.start_up_ns else "",
            "frameworks": ", ".join(f"{name} {version}".strip() for name, version in summary.frameworks.items()),
            "hosts": ", ".join(hosts),
            "ranks": f"{len(summary.ranks)}" if len(summary.ranks) > 1 else "",
            "steps": self._text("steps_of").format(recorded=summary.steps.recorded_count, all=summary.steps.count),
            "events": f"{summary.event_count:,}",
        }
        return {self._text(name): fact for name, fact in facts.items() if fact}

    def notices(self) -> list[Remark]:
        """Return the warnings and hints."""
        return [
            Remark(notice.level, self._text(notice.level), render_statement("notice", notice, language=self._language))
            for notice in self._summary.notices
        ]

    def findings(self) -> list[str]:
        """Return the sentences on idle devices, on where the time went, and on slow ranks."""
        summary, language = self._summary, self._language
        devices = [render_statement("devices", each, language=language) for each in summary.devices_verdict]
        findings = [render_statement("finding", each, language=language) for each in summary.findings]
        return [*devices, *findings, *self._verdict()]

    def tables(self) -> Iterator[Section]:
        """Yield the tables that have rows."""
        summary = self._summary
        on_device = _ON_DEVICE if any(row["self_device_ns"] for row in summary.categories) else ()
        typical = () if summary.dominating_step is None else ("step_self_cpu_ns",)
        several = len(summary.ranks) > 1
        yield from self._section("devices", self._device_columns()[not several :], summary.devices)
        parts = "parts_host" if summary.devices else "parts"
        yield from self._section(parts, ("part", "total_ns", "wall_share"), self._parts())
        yield from self._section("regions", ("name", "total_ns", "wall_share"), _rows(summary.regions))
        yield from self._section(
            "categories", (_CATEGORIES[0], *on_device, *_CATEGORIES[1:], *typical), summary.categories
        )
        yield from self._section("operators", (_OPERATORS[0], *on_device, *_OPERATORS[1:], *typical), summary.operators)
        yield from self._section("api_calls", _API_CALLS, summary.api_calls)
        yield from self._section("hardware", _COUNTERS[not several :], [self._counter(c) for c in summary.hardware])
        yield from self._section("ranks", _RANKS, _rows(summary.ranks) if several else ())

    def _verdict(self) -> Iterator[str]:
        """Yield the sentences on the slowest ranks; each warning starts another rank."""
        slow = 0
        for statement in self._summary.ranks_verdict:
            slow += statement.level == "warning"
            if slow <= MOST_SLOW:
                yield render_statement("ranks", statement, language=self._language)
        if slow > MOST_SLOW:
            yield render_text("summary.more_slow", {"more_count": slow - MOST_SLOW}, language=self._language)

    def _device_columns(self) -> list[str]:
        return [name for name in _DEVICES if name in _ALWAYS or any(row[name] for row in self._summary.devices)]

    def _parts(self) -> list[dict[str, Any]]:
        parts = self._summary.step_parts
        return [
            {"part": self._text(f"part.{name}"), "total_ns": value, "wall_share": value / parts.wall_ns}
            for name in _PARTS
            if (value := getattr(parts, name))
        ]

    def _counter(self, counter: CounterSummary) -> dict[str, Any]:
        amounts = {name: format_amount(getattr(counter, name), counter.unit) for name in ("mean", "minimum", "maximum")}
        name = counter.name.removesuffix(f" {counter.unit}")
        return {
            "rank": counter.rank,
            "name": self._texts.get(f"curve.{name}", name),
            "device": counter.device,
            **amounts,
        }

    def _section(self, name: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
        if not rows:
            return
        shown = rows[:MOST_ROWS]
        more = len(rows) - len(shown)
        yield Section(
            title=self._text(f"section.{name}"),
            headings=tuple(self._text(f"column.{column}") for column in columns),
            rows=tuple(tuple(format_value(c, row[c], language=self._language) for c in columns) for row in shown),
            right_aligned=tuple(column not in _TEXT_COLUMNS for column in columns),
            more=render_text("summary.more_rows", {"more_count": more}, language=self._language) if more else None,
        )

    def _text(self, key: str) -> str:
        return self._texts[f"summary.{key}"]


def _rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [record.model_dump() for record in records]


def _date(moment_ns: int | None) -> str:
    if moment_ns is None:
        return ""
    return f"{datetime.fromtimestamp(moment_ns // 10**9, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
