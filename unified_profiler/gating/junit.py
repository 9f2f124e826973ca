"""A gate as JUnit's XML, which CI systems show as tests: each metric is one."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from unified_profiler.gating.records import GateRecord, Judgment, Verdict
from unified_profiler.gating.text import contributions_of, steps_line
from unified_profiler.model.text import storable
from unified_profiler.presentation.text import one_line
from unified_profiler.presentation.texts import render_statement

_SUITE = "unified-profiler gate"
_OUTCOMES = {Verdict.REGRESSION: "failure", Verdict.CANNOT_TELL: "error"}


def junit(gate: GateRecord, *, language: str = "en") -> str:
    """Return a gate as XML: a regression is a failed test, one that cannot be judged is an error of the test."""
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
        found = ET.SubElement(case, outcome, {"type": judgment.verdict.value, "message": reason})
        found.text = _details(judgment, language)
    said = [reason, steps_line(judgment, language=language)]
    said += [render_statement("gate", notice, language=language) for notice in gate.notices]
    ET.SubElement(case, "system-out").text = "\n".join(map(_legal, said))


def _details(judgment: Judgment, language: str) -> str:
    if not judgment.contributions:
        return _legal(render_statement("gate", judgment.reason, language=language))
    return "\n".join(map(_legal, str(contributions_of(judgment, language=language)).splitlines()))


def _legal(text: str) -> str:
    """Return a text without what XML cannot hold: control characters are spelled out."""
    return storable(one_line(text))
