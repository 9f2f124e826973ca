"""The language of the command line: that of the option, else that of the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("variables", "options", "is_chinese"),
    [
        ({}, [], False),
        ({"LANG": "zh_CN.UTF-8"}, [], True),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, [], False),
        ({"LANG": "C", "LC_MESSAGES": "zh_TW"}, [], True),
        ({"LANG": "", "LC_ALL": ""}, [], False),
        ({"LANG": "zh_CN.UTF-8"}, ["--language", "en"], False),
        ({}, ["--language", "zh"], True),
    ],
)
@pytest.mark.parametrize(
    ("command", "chinese"), [("steps", "墙钟时间"), ("table", "CPU 自身耗时"), ("summary", "事件数")]
)
def test_the_language_is_that_of_the_option_or_of_the_terminal(
    invoke: Invoke,
    run_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    chinese: str,
    variables: dict[str, str],
    options: list[str],
    is_chinese: bool,
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    output = invoke(command, run_dir, *options)
    assert output.exit_code == 0, output.stderr
    assert (chinese in output.stdout) == is_chinese
