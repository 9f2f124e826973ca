"""Layouts of files of API calls: the JSON tree and the CSV table of TorchWrapper, with its field names.

Both list the APIs one after the other, each with its calls by start. A layout has all text besides the calls, so that
the size of a file is known before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from unified_profiler.export.fragments import constant, each_distinct, lookup, milliseconds, quoted, whole
from unified_profiler.export.row_text import RowText, joined
from unified_profiler.export.spreadsheets import inert
from unified_profiler.model.nesting import Ints


@dataclass(frozen=True)
class ApiCalls:
    """The calls of all APIs, sorted by the first call of their API and by start."""

    names: Sequence[str]
    """The APIs."""
    total_ns: Ints
    """Total time of the calls of each API."""
    api: Ints
    """Index of the API of each call."""
    number: Ints
    """Number of each call among those of its API, from 1."""
    start_ns: Ints
    duration_ns: Ints
    attributes: Any
    """Attributes of each call, with its arguments: a dictionary array of JSON objects."""


@dataclass(frozen=True)
class Layout:
    """Text of a file: `opening`, the heading and calls of each API, separated by `between`, and `closing`."""

    suffix: str
    call: RowText
    headings: Sequence[str]
    """Heading of each API, repeated in every file with calls of it."""
    opening: str
    between: str = ""
    closing: str = ""


def json_tree(calls: ApiCalls) -> Layout:
    """Return the layout of a JSON object with an object for each API, which contains its calls by number."""
    call = joined(
        [
            *(constant(',\n"'), whole(calls.number)),
            *(constant('":{"detailedAPIName":'), _api_text([quoted(name) for name in calls.names], calls)),
            *(constant(',"StartTimestamp":'), whole(calls.start_ns)),
            *(constant(',"CostTime(ms)":'), milliseconds(calls.duration_ns)),
            *(constant(',"Arguments":'), each_distinct(calls.attributes, _arguments_and_state), constant("}")),
        ]
    )
    headings = [
        f'{quoted(name)}:{{"TotalTime(ms)":{total}' for name, total in zip(calls.names, _totals(calls), strict=True)
    ]
    return Layout(".json", call, headings, opening="{\n", between="},\n", closing="}\n}\n")


def csv_table(calls: ApiCalls) -> Layout:
    """Return the layout of a CSV table with a row for each call; text is quoted, the arguments are JSON."""
    prefixes = [f"{_cell(name)},{total}," for name, total in zip(calls.names, _totals(calls), strict=True)]
    call = joined(
        [
            *(_api_text(prefixes, calls), whole(calls.number)),
            *(constant(","), whole(calls.start_ns)),
            *(constant(","), milliseconds(calls.duration_ns)),
            *(constant(","), each_distinct(calls.attributes, lambda text: _cell(_arguments(_decode(text))))),
            constant("\n"),
        ]
    )
    header = "API Name,Total Time (ms),Call Number,Start Timestamp,Cost Time (ms),Arguments\n"
    return Layout(".csv", call, [""] * len(calls.names), opening=header)


class _CallAttributes(msgspec.Struct):
    """The attributes of an API call event."""

    args: list[str] = []
    kwargs: dict[str, str] = {}
    finished: bool = True


def _decode(text: str | None) -> _CallAttributes:
    try:
        return msgspec.json.decode(text or "{}", type=_CallAttributes)
    except msgspec.DecodeError:  # attributes of another program are kept as text
        return _CallAttributes(args=[text or ""])


def _arguments(attributes: _CallAttributes) -> str:
    return msgspec.json.encode((attributes.args, attributes.kwargs)).decode()


def _arguments_and_state(text: str | None) -> str:
    attributes = _decode(text)
    return _arguments(attributes) + ("" if attributes.finished else ',"Finished":false')


def _api_text(texts: Sequence[str], calls: ApiCalls) -> RowText:
    return lookup(texts, calls.api)


def _totals(calls: ApiCalls) -> Any:
    return milliseconds(calls.total_ns).texts(np.arange(len(calls.names))).to_pylist()


def _cell(text: str) -> str:
    doubled = inert(text).replace('"', '""')
    return f'"{doubled}"'
