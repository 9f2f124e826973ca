"""Defines the option for the language of texts."""

from __future__ import annotations

import os
from enum import Enum
from typing import Annotated

import typer


class Language(str, Enum):
    """The available languages."""

    ENGLISH = "en"
    CHINESE = "zh"


LanguageOption = Annotated[
    Language | None,
    typer.Option("--language", help="Language: English or Chinese (中文).", show_default="that of LANG, else en"),
]


def language_of(given: Language | None) -> str:
    """Return the language that was given, or that of the terminal: Chinese or, for any other, English."""
    if given is not None:
        return given.value
    names = (os.environ.get(variable) for variable in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return Language.CHINESE.value if next(filter(None, names), "").startswith("zh") else Language.ENGLISH.value
