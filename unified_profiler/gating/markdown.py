"""Formats a gate as Markdown, such as for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from unified_profiler.engine import Result
from unified_profiler.gating.records import GateRecord, Verdict
from unified_profiler.gating.text import contributions_of, contributions_title, headline, remarks, sides, table_of
from unified_profiler.presentation.markdown import escaped, table
from unified_profiler.presentation.tables import columns_of
from unified_profiler.presentation.texts import texts

_SIGNS = {Verdict.WITHIN: "\u2705", Verdict.REGRESSION: "\u274c", Verdict.INCONCLUSIVE: "\u2754"}


def markdown(gate: GateRecord, *, language: str = "en") -> str:
    """Return a gate as GitHub-flavored Markdown."""
    return "\n\n".join(_blocks(gate, language)) + "\n"


def _blocks(gate: GateRecord, language: str) -> Iterator[str]:
    yield f"# {escaped(texts(language)['gate.title'])}"
    yield f"{_SIGNS[gate.verdict]} **{escaped(headline(gate, language=language))}**"
    yield "\n".join(f"- {escaped(line)}" for line in sides(gate, language=language))
    yield from (f"> {escaped(line)}" for line in remarks(gate, language=language))
    result = table_of(gate, language=language)
    yield _table(result)
    for judgment in gate.judgments:
        if judgment.contributions:
            yield f"## {escaped(contributions_title(judgment, language=language))}"
            yield _table(contributions_of(judgment, language=language))
    yield from map(escaped, result.footer)


def _table(result: Result) -> str:
    columns = columns_of(result.table, headings=result.headings, most_rows=None)
    rows = list(zip(*(column.cells for column in columns), strict=True))
    return table([column.heading for column in columns], rows, right_aligned=[not c.is_text for c in columns])
