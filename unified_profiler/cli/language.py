"""Defines the option for the language of texts, and inserts values into the texts of a command."""

from __future__ import annotations

import os
from enum import Enum
from typing import Annotated

import typer


class Language(str, Enum):
    """The available languages."""

    ENGLISH = "en"
    CHINESE = "zh"


LANGUAGE_HELP = "Language: English or Chinese (中文)."
LanguageOption = Annotated[
    Language | None, typer.Option("--language", help=LANGUAGE_HELP, show_default="that of LANG, else en")
]


class Words:
    """The texts of a command in one language. Values are inserted whole: paths and messages are not shortened."""

    def __init__(self, command: str, language: str) -> None:
        self.language = language
        self._command = command

    def __call__(self, key: str, **values: object) -> str:
        """Return the text `<command>.<key>` with its values."""
        from unified_profiler.presentation.texts import render_whole

        return render_whole(f"{self._command}.{key}", values, language=self.language)


def language_of(given: Language | None) -> str:
    """Return the language that was given, or that of the terminal: Chinese or, for any other, English."""
    if given is not None:
        return given.value
    names = (os.environ.get(variable) for variable in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return Language.CHINESE.value if next(filter(None, names), "").startswith("zh") else Language.ENGLISH.value
