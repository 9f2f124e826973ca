"""Formats a gate as JUnit XML, in which CI systems show each metric as a test."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from unified_profiler.gating.records import GateRecord, Judgment, Verdict
from unified_profiler.gating.text import contributions_of, steps_line
from unified_profiler.model.text import storable
from unified_profiler.presentation.text import one_line
from unified_profiler.presentation.texts import render_statement

_SUITE = "unified-profiler gate"
_OUTCOMES = {Verdict.REGRESSION: "failure", Verdict.INCONCLUSIVE: "error"}


def junit(gate: GateRecord, *, language: str = "en") -> str:
    """Return a gate as JUnit XML: a regression is a failure of its test, an inconclusive verdict an error."""
    counts = {"tests": len(gate.judgments), "skipped": 0}
    for verdict, outcome in _OUTCOMES.items():
        counts[f"{outcome}s"] = sum(judgment.verdict is verdict for judgment in gate.judgments)
    numbers = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", numbers)
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE, **numbers})
    for judgment in gate.judgments:
        _add(suite, gate, judgment, language)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add(suite: ET.Element, gate: GateRecord, judgment: Judgment, language: str) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": _SUITE, "name": _legal(judgment.metric), "time": "0"})
    reason = _legal(render_statement("gate", judgment.reason, language=language))
    outcome = _OUTCOMES.get(judgment.verdict)
    if outcome is not None:
        table = str(contributions_of(judgment, language=language)) if judgment.contributions else reason
        details = ET.SubElement(case, outcome, {"type": judgment.verdict.value, "message": reason})
        details.text = "\n".join(map(_legal, table.splitlines()))
    lines = [reason, steps_line(judgment, language=language)]
    lines += [render_statement("gate", notice, language=language) for notice in gate.notices]
    ET.SubElement(case, "system-out").text = "\n".join(map(_legal, lines))


def _legal(text: str) -> str:
    """Escape control characters, which XML cannot contain."""
    return storable(one_line(text))
