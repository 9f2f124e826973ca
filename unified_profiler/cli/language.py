"""Defines the option for the language of texts."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Language(str, Enum):
    """The available languages."""

    ENGLISH = "en"
    CHINESE = "zh"


LanguageOption = Annotated[Language | None, typer.Option("--language", help="Language: English or Chinese (中文).")]
