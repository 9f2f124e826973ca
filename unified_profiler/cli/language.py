"""The option by which commands are told in which language to write for people."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Language(str, Enum):
    """The languages that there are."""

    ENGLISH = "en"
    CHINESE = "zh"


LanguageOption = Annotated[Language | None, typer.Option("--language", help="English or Chinese (中文).")]
