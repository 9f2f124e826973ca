"""The lines that `run` prints after the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from unified_profiler.cli.language import Words
from unified_profiler.cli.run import _lines
from unified_profiler.launch.launcher import Outcome
from unified_profiler.model.records import Failure
from unified_profiler.model.run import Run
from unified_profiler.presentation.texts import LANGUAGES, texts


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_option_that_a_backend_does_not_support_is_one_line_and_no_failure(language: str) -> None:
    failures = tuple(
        Failure(source="made_up", action="record", error="UnsupportedCapabilityError", cycle=cycle, option="with_stack")
        for cycle in range(3)
    )
    outcome = Outcome(exit_code=0, run=Run(traces=()), failures=failures)
    lines = [line for line in _lines(outcome, Words("run", language), Path(), verbose=False) if "with_stack" in line]
    assert lines == [texts(language)["notice.unsupported"].format(source="made_up", option="with_stack")]


def test_hints_are_in_the_language_of_the_output() -> None:
    outcome = Outcome(exit_code=0, run=Run(traces=()), hints=("Give a larger --opening-limit.", "Unknown."))
    lines = list(_lines(outcome, Words("run", "zh"), Path(), verbose=False))
    shown = [texts("zh")["run.hint"].format(hint=hint) for hint in (texts("zh")["advice.larger_limit"], "Unknown.")]
    assert [line for line in lines if line in shown] == shown
