"""The documentation is true: its tables are those of the code, and its options exist."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
import typer.main

from unified_profiler import errors
from unified_profiler.analysis.categories import categories
from unified_profiler.cli.app import app
from unified_profiler.config import ApiOptions, Settings
from unified_profiler.model.schema import COLUMNS, EVENT_SCHEMA, TEXT
from unified_profiler.presentation.texts import texts
from unified_profiler.recording.hardware.counters import COUNTERS
from unified_profiler.registry import backends
from unified_profiler.report import Summary

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), ROOT / "backends" / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)]+)\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\((?:\.\./|docs/)*images/([^)]+)\)")
IMAGES = ROOT / "docs" / "images"
LARGEST_IMAGE = 250_000
VARIABLE = re.compile(r"[A-Z]{2,}[A-Za-z]*(_[A-Za-z]+)*")
COMMAND = re.compile(r"^(?:.*-m unified_profiler|unified-profiler) ([a-z][a-z-]*)\b(.*)$", re.MULTILINE)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def options_of_commands(*, negated: bool = False) -> dict[str, set[str]]:
    commands = typer.main.get_group(app).commands
    return {
        name: {
            option
            for p in command.params
            for option in (*p.opts, *(p.secondary_opts if negated else ()))
            if option.startswith("-")
        }
        for name, command in commands.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_options_on_a_page_exist(name: str) -> None:
    known = options_of_commands(negated=True)
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


def test_the_page_on_reports_has_the_sections_and_questions_of_their_guide() -> None:
    words = texts("en")
    names = [key.split(".")[2] for key in words if re.fullmatch(r"ui\.reading\.\w+\.question", key)]
    text = (ROOT / "docs" / "how-to" / "read-a-report.md").read_text()
    headings = re.findall(r"^## (.+)\n\n\*\*(.+)\*\*$", text, re.MULTILINE)
    assert headings == [(words[f"ui.sections.{name}"], words[f"ui.reading.{name}.question"]) for name in names]


# --- images ---------------------------------------------------------------------------------------------------------


def test_the_script_makes_every_image_and_each_is_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)  # the examples are not installed
    gallery = importlib.import_module("examples.pictures.gallery")
    shown = {name for page in PAGES for _, name in IMAGE.findall(page.read_text(encoding="utf-8"))}
    assert shown == set(gallery.PICTURES) == {path.name for path in gallery.IMAGES.iterdir()}


def test_every_image_has_a_description() -> None:
    described = [
        bool(description) for page in PAGES for description, _ in IMAGE.findall(page.read_text(encoding="utf-8"))
    ]
    assert described
    assert all(described)


def test_images_are_small_and_load_nothing() -> None:
    assert not [path.name for path in IMAGES.iterdir() if path.stat().st_size > LARGEST_IMAGE]
    drawings = [path.read_text(encoding="utf-8") for path in IMAGES.glob("*.svg")]
    assert not [text for text in drawings if re.search(r"url\(.?http|href=.?http|@import", text)]


# --- the environment ------------------------------------------------------------------------------------------------


def variables_in_code() -> set[str]:
    """Return what looks like the name of a variable in the modules that look into the environment."""
    modules = [path for room in ("unified_profiler", "backends") for path in (ROOT / room).rglob("*.py")]
    sources = [path.read_text(encoding="utf-8") for path in modules]
    trees = [ast.parse(text) for text in sources if re.search(r"\benviron\b", text)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    metavars = {id(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg == "metavar"}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in metavars}
    return {text for text in texts if isinstance(text, str) and VARIABLE.fullmatch(text)}


def test_the_environment_page_has_exactly_the_variables_that_are_read() -> None:
    text = (ROOT / "docs" / "reference" / "environment.md").read_text().partition("## Read by others")[0]
    ours, _, options = text.partition("## Options")
    rows = "".join(re.findall(r"^\| (?!variable|launcher).*$", ours, re.MULTILINE))
    named = {name for name in re.findall(r"`([^`]+)`", rows) if VARIABLE.fullmatch(name)}
    assert named == variables_in_code()
    assert "UNIFIED_PROFILER_OPTIONS" in options


def test_the_environment_page_has_exactly_the_options_of_the_code() -> None:
    options = (ROOT / "docs" / "reference" / "environment.md").read_text().split("## Options")[1].split("\n## ")[0]
    first = "".join(re.findall(r"^\| (`.*?) \|", options, re.MULTILINE))
    assert re.findall(r"`(\w+)`", first) == list(Settings.model_fields)
    theirs = [backend.abilities.environment_options for backend in backends().values()]
    words = {*ApiOptions.model_fields, *(name for names in theirs for name in (*names.native, *names.aliases))}
    assert not {word for word in words if f"`{word}`" not in options}


# --- outside of the site ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["README.md", "README.zh.md", "backends/README.md"])
def test_links_outside_of_the_site_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert not [link for link in links if not (page.parent / link).exists()]
