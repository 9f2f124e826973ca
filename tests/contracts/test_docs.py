"""The documentation is true: its examples run, its tables are those of the code, its options exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from unified_profiler import errors
from unified_profiler.analysis.categories import categories
from unified_profiler.capture.hardware_counters import COUNTERS
from unified_profiler.cli.app import app
from unified_profiler.model.schema import COLUMNS, EVENT_SCHEMA, TEXT
from unified_profiler.report import Summary

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "backends" / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:.*-m unified_profiler|unified-profiler) ([a-z]+)\b(.*)$", re.MULTILINE)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def options_of_commands() -> dict[str, set[str]]:
    commands = typer.main.get_group(app).commands
    return {
        name: {option for p in command.params for option in p.opts if option.startswith("-")}
        for name, command in commands.items()
    }


@pytest.mark.parametrize("name", [name for name in NAMES if BLOCK.search((ROOT / name).read_text())])
def test_the_examples_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()  # so that no settings file above is taken
    namespace: dict[str, object] = {"__name__": "example"}
    for block in BLOCK.findall((ROOT / name).read_text()):
        exec(compile(block, name, "exec", dont_inherit=True), namespace)  # noqa: S102  our own documentation


@pytest.mark.parametrize("name", NAMES)
def test_the_options_on_a_page_exist(name: str) -> None:
    known = options_of_commands()
    for command, rest in COMMAND.findall((ROOT / name).read_text()):
        used = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest.partition(" -- ")[0]))
        assert used <= known[command], f"{name}: {command} has no {used - known[command]}"


def test_the_command_reference_names_every_option() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for command, options in options_of_commands().items():
        section = text.split(f"## {command}\n")[1].split("\n## ")[0]
        assert not {option for option in options if f"`{option}`" not in section}, command


def test_the_schema_page_has_exactly_the_columns_of_the_schema() -> None:
    text = (ROOT / "docs" / "reference" / "event-schema.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    assert rows == [(column.name, type_name(column.name), column.meaning) for column in COLUMNS]


def test_the_page_of_hardware_counters_has_exactly_those_of_the_code() -> None:
    text = (ROOT / "docs" / "reference" / "hardware-counters.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \|(.*?)\| (.*?) \|$", text, re.MULTILINE)
    found = [(name, devices.strip(), meaning) for name, devices, meaning in rows]
    assert found == [(counter.name, counter.devices, counter.meaning) for counter in COUNTERS]


def type_name(column: str) -> str:
    field = EVENT_SCHEMA.field(column)
    name = "text" if field.type == TEXT else str(field.type)
    return f"{name}, may be null" if field.nullable else name


def test_the_summary_page_names_every_field_and_every_category() -> None:
    text = (ROOT / "docs" / "reference" / "summary.md").read_text()
    fields, groups = text.split("## Categories")
    assert re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", fields, re.MULTILINE))) == list(
        Summary.model_fields
    )
    assert tuple(re.findall(r"^\| `(\w+)` \|", groups, re.MULTILINE)) == categories()


def test_the_error_page_names_every_error() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    names = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert not {name for name in names if f"`{name}`" not in text}


def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "index.html").is_file()
