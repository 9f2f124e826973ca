"""Words the errors of the command-line parser: unknown options with the nearest one, wrong values in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer

from unified_profiler.keywords import did_you_mean

# the class of click, or of the copy of click in newer versions of typer
UsageError: Any = typer.BadParameter.__mro__[1]

_FOREIGN = {
    **dict.fromkeys(("--group-by", "--groupby", "--group"), "--by"),
    **dict.fromkeys(("--top", "--limit", "--rows", "--head", "-n"), "--row-limit"),
    **dict.fromkeys(("--order-by", "--sort"), "--sort-by"),
    **dict.fromkeys(("--out", "--output-dir", "--output-file"), "--output"),
    **dict.fromkeys(("--steps", "--num-steps"), "--active"),
    "--lang": "--language",
}
"""Options of other profilers and of shells, and ours with the same meaning."""
_PLAIN = (
    (re.compile(r"Input should be a valid integer.*", re.DOTALL), "must be a whole number."),
    (re.compile(r"Input should be a valid number.*", re.DOTALL), "must be a number."),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"must be at least \1."),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"must be at most \1."),
    (re.compile(r"Value error, "), ""),
)
"""Messages of the library that newer versions of typer validate with, and what is printed instead."""


def options_of(command: Any) -> list[str]:
    """Return the names of all options of a command."""
    return [name for parameter in command.params if parameter.param_type_name == "option" for name in parameter.opts]


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown option, with the option that was probably meant."""
    names = list(known)
    foreign = _FOREIGN.get(name)
    hint = did_you_mean(name, names) if foreign is None else f" Did you mean {foreign!r}?" if foreign in names else ""
    return f"There is no option {name!r}.{hint}"


def reword(error: Any) -> None:
    """Replace the message of a usage error by a plain one, if it is one of those that need it."""
    name = getattr(error, "option_name", None)
    if name is not None and hasattr(error, "possibilities") and error.ctx is not None:
        error.message, error.possibilities = unknown_option(name, options_of(error.ctx.command)), None
        return
    for pattern, plain in _PLAIN:
        error.message = pattern.sub(plain, error.message)
