"""Hints are stored in English and shown in each language; every sentence that the code writes has a translation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from unified_profiler.model.statements import Statement
from unified_profiler.presentation.texts import render_hint, render_statement, render_text, render_whole, texts

ROOT = Path(__file__).parents[3]
WRITERS = {
    "unified_profiler/launch/children.py": {"hints"},
    "unified_profiler/launch/launcher.py": {"_GAVE_WAY", "_detection_hints"},
    "unified_profiler/launch/step_contents.py": {"_ADVICE", "uneven_steps", "_compare_signals"},
    "unified_profiler/launch/windows.py": {"_reasons", "_why_unscheduled", "_ended_early", "_advice"},
    "unified_profiler/model/option_effects.py": {"_NO_EFFECT", "_ASYNCHRONOUS", "_MEMORY_TOTALS", "_QUEUED_CALLS"},
    "unified_profiler/readers/pending.py": {"_STILL_RUNS"},
    "unified_profiler/recording/event_limit.py": {"limit_events"},
    "unified_profiler/recording/execution.py": {"_NOTHING_IMPORTED"},
    "unified_profiler/recording/sequencer.py": {"_NO_STEP", "_advise"},
}
"""Functions and constants with the sentences of hints; the arguments of `hint` and `add_hints` are added to them."""
PASS_ON = {
    "unified_profiler/cli/run.py",
    "unified_profiler/delivery/delivery.py",
    "unified_profiler/delivery/finishing.py",
    "unified_profiler/launch/launched_profiler.py",
    "unified_profiler/report/notices.py",
}
"""Modules that have no sentence of their own."""
KEYS = sorted(key for key in texts("en") if key.startswith("advice."))
SENTENCE = re.compile(r"\w \w")


def sources() -> dict[str, str]:
    folders = (ROOT / "unified_profiler", ROOT / "backends")
    files = (path for folder in folders for path in folder.rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


def written_literals() -> Iterator[tuple[str, str]]:
    """Yield the literal parts of all sentences of hints in the code, with the file."""
    for path, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            if is_hint(node) or name_of(node) in WRITERS.get(path, ()):
                yield from ((path, part) for part in literals(node))


def is_hint(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"hint", "add_hints"}
    )


def name_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.name if isinstance(node, ast.FunctionDef) else None


def literals(node: ast.AST) -> Iterator[str]:
    docstring = ast.get_docstring(node, clean=False) if isinstance(node, ast.FunctionDef) else None
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value != docstring:
            pieces = re.split(r"(?<!\{)\{\w+\}(?!\})|(?<=\.) ", part.value)
            yield from (piece.strip() for piece in pieces if SENTENCE.search(piece))


def rendered(key: str, values: dict[str, str], *, several: bool = True, language: str = "en") -> str:
    """Return a sentence with values; words that depend on a number are those for several, or for one."""
    parts = []
    for literal, name, words, _ in Formatter().parse(texts(language)[key]):
        parts += [literal, words.split("|")[several] if words else values[name] if name else ""]
    return "".join(parts)


def without_doubled_braces(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")


def values_of(key: str) -> dict[str, str]:
    return {name: f"<{name}>" for _, name, _, _ in Formatter().parse(texts("en")[key]) if name}


# --- every sentence is known ------------------------------------------------------------------------------------------


def test_every_sentence_of_a_hint_in_the_code_is_among_the_texts() -> None:
    known = " ".join(
        rendered(key, dict.fromkeys(values_of(key), "1"), several=several) for key in KEYS for several in (False, True)
    )
    written = [(path, without_doubled_braces(literal)) for path, literal in written_literals()]
    assert {path for path, _ in written} == set(WRITERS)
    assert len(written) > 50
    assert [(path, literal) for path, literal in written if literal not in known] == []


def test_no_other_module_writes_hints() -> None:
    hints = re.compile(r"\.hint\(|add_hints\(|\"hints\":|\bhints?=")
    users = {path for path, source in sources().items() if hints.search(source)}
    assert users - set(WRITERS) == PASS_ON


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_a_sentence_is_shown_in_chinese_with_its_values(key: str, several: bool) -> None:
    values = values_of(key)
    english = rendered(key, values, several=several)
    assert render_hint(english, language="zh") == rendered(key, values, language="zh")


@pytest.mark.parametrize("key", KEYS)
def test_a_sentence_in_chinese_is_chinese(key: str) -> None:
    assert re.search(r"[\u4e00-\u9fff]", texts("zh")[key])
    assert texts("zh")[key].endswith(("\u3002", "\uff1a{error}"))


# --- hints ------------------------------------------------------------------------------------------------------------

LATE = (
    "The script ended after 20 steps, before one was to be recorded; so this is the recording from the import of the "
    "framework to the end of the first step. Give a smaller --wait, --warmup or --skip-first."
)


def test_the_sentences_of_a_hint_are_translated_one_by_one() -> None:
    sentences = texts("zh")
    begin = sentences["advice.ended_in_first"].format(count=20)
    assert render_hint(LATE, language="zh") == begin + sentences["advice.smaller_wait"]


def test_a_value_ends_with_its_sentence() -> None:
    late = LATE.partition(";")[0] + "; so this is the recording from the import of the framework to the end of step 3. "
    held_back = "4 of them passed before it was clear what ends a step: give --step-signal jit to begin the schedule "
    sentences = texts("zh")
    begin = sentences["advice.ended_in_step"].format(count=20, last=3)
    end = sentences["advice.passed_before"].format(count=4, signal="jit")
    assert render_hint(f"{late}{held_back}with the first one.", language="zh") == begin + end


def test_hints_in_english_stay_as_they_are() -> None:
    assert render_hint(LATE) == LATE


@pytest.mark.parametrize("unknown", ["", "A hint of a newer version.", f"{LATE} Something else.", f"Else. {LATE}"])
def test_a_hint_with_an_unknown_part_stays_in_english(unknown: str) -> None:
    assert render_hint(unknown, language="zh") == unknown


def test_values_may_contain_anything() -> None:
    folder = "/a. b/{0}/{folder}\n"
    hint = f"Cycle 3 in {folder} waits for its backend: No backend. Install it. {{x}}"
    shown = render_hint(hint, language="zh")
    assert shown.startswith(f"{folder} 中的周期 3 ")
    assert shown.endswith("No backend. Install it. {x}")


def test_a_long_text_is_not_compared() -> None:
    hint = "Give a larger --opening-limit." + " Give a larger --opening-limit." * 10_000
    assert render_hint(hint, language="zh") is hint


def test_of_many_ways_to_divide_a_text_each_part_is_compared_once() -> None:
    hint = "There is no operator in recorded step 1. " * 23 + "Unknown"
    assert render_hint(hint, language="zh") == hint


def test_hints_are_translated_in_summaries_and_after_a_run() -> None:
    hint = "Give a larger --opening-limit."
    shown = "请增大 --opening-limit。"
    assert render_text("notice.hint", {"hint": hint}, language="zh") == shown
    assert render_statement("notice", Statement(code="hint", values={"hint": hint}), language="zh") == shown
    assert render_whole("run.hint", {"hint": hint}, language="zh").endswith(shown)
