"""Prints the help of commands: compact, without frames, and never cut, at any width of the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from typer.core import TyperCommand, TyperGroup

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
"""Settings of all commands."""

_EXAMPLES = "\nExamples:\n"
_VALUES = {"int": "N", "integer": "N", "float": "N", "str": "TEXT", "text": "TEXT", "path": "PATH", "directory": "PATH"}
"""Words for values by the names of types, which differ between versions of the parser."""
_TYPE = re.compile(
    r"[<\[](?:list\[)?(\w+)(?:\])?(?: range)?(?:\])?>|\b(INTEGER|FLOAT|TEXT|PATH|DIRECTORY)(?: RANGE)?\b"
)
_CHOICES = re.compile(r"[<\[]([\w-]+(?:\|[\w-]+)+)[>\]]")
_SWITCH = re.compile(r"--([\w-]+) / --no-\1")
_RANGE = re.compile(r"; (?:\d+<=)?x[<>]=\d+\]|\[(?:\d+<=)?x[<>]=\d+\]")
_REQUIRED, _SEVERAL = re.compile(r"^\{(.*)\}$"), re.compile(r"^(\[.* .*\])\.\.\.$")
_DEFAULT = re.compile(r"\[default: \((.*)\)\]")


class CompactCommand(TyperCommand):
    """A command whose help is compact."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments as users write them: without braces, and without dots after several names."""
        return [_SEVERAL.sub(r"\1", _REQUIRED.sub(r"\1", piece)) for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description and the examples."""
        del ctx
        _write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options in their groups."""
        _write_options(self, ctx, formatter)


class CompactGroup(TyperGroup):
    """A group of commands whose help is compact."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description and the examples."""
        del ctx
        _write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(command)) for name, command in self.commands.items()])
        _write_options(self, ctx, formatter)


def _summary(command: Any) -> str:
    first: str = (command.help or "").partition("\n\n")[0]
    return " ".join(first.split())


def _write_text(text: str, formatter: Any) -> None:
    description, _, examples = text.partition(_EXAMPLES)
    for paragraph in description.strip().split("\n\n"):
        formatter.write_paragraph()
        formatter.write_text(" ".join(paragraph.split()))
    if examples:
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(f"  {line.strip()}\n")


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    for title, rows in groupby(_rows(command, ctx), key=lambda row: row[0]):
        with formatter.section(title):
            formatter.write_dl([row[1:] for row in rows])


def _rows(command: Any, ctx: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the group, the names and the help of each parameter; groups are in the order of their first member."""
    rows = []
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is not None:
            title = "Arguments" if parameter.param_type_name == "argument" else "Options"
            rows.append((getattr(parameter, "rich_help_panel", None) or title, _names(record[0]), _help(record[1])))
    order = list(dict.fromkeys(row[0] for row in rows))
    yield from sorted(rows, key=lambda row: order.index(row[0]))


def _names(text: str) -> str:
    text = _SWITCH.sub(r"--[no-]\1", _CHOICES.sub(r"\1", text))
    if text.startswith("-"):
        return _TYPE.sub(lambda match: _VALUES.get((match[1] or match[2]).lower(), "TEXT"), text)
    return _TYPE.sub("", text).strip()


def _help(text: str) -> str:
    text = text.replace("  [required]", "")
    return _DEFAULT.sub(r"[default: \1]", _RANGE.sub(lambda match: "]" if match[0][0] == ";" else "", text)).strip()
