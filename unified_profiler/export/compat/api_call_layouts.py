"""What files of API calls look like: the tree and the table of TorchWrapper, with its names of fields.

Both go API by API, in each the calls by their start. Everything that a file holds besides calls is told here, so that
its size is known before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from unified_profiler.export.fragments import (
    Fragment,
    chosen,
    constant,
    each_distinct,
    joined,
    milliseconds,
    quoted,
    whole,
)
from unified_profiler.export.spreadsheets import inert
from unified_profiler.model.nesting import Ints


@dataclass(frozen=True)
class ApiCalls:
    """The calls of all APIs: those of the API called first come first, and those of one API by their start."""

    names: Sequence[str]
    """The APIs."""
    total_ns: Ints
    """The time of all calls of each API."""
    api: Ints
    """The index of each call's API."""
    number: Ints
    """Which call of its API each is, from 1."""
    start_ns: Ints
    duration_ns: Ints
    attributes: Any
    """What is known of the arguments of each call: a dictionary array of JSON objects."""


@dataclass(frozen=True)
class Layout:
    """The text of a file: opening, then for each API its heading and its calls, with `between` before the next."""

    suffix: str
    call: Fragment
    headings: Sequence[str]
    """Of each API; repeated in every file that holds calls of it."""
    opening: str
    between: str = ""
    closing: str = ""


def json_tree(calls: ApiCalls) -> Layout:
    """Lay out a JSON object with an object for each API, which holds its calls by their numbers."""
    call = joined(
        [
            *(constant(',\n"'), whole(calls.number)),
            *(constant('":{"detailedAPIName":'), _of_api([quoted(name) for name in calls.names], calls)),
            *(constant(',"StartTimestamp":'), whole(calls.start_ns)),
            *(constant(',"CostTime(ms)":'), milliseconds(calls.duration_ns)),
            *(constant(',"Arguments":'), each_distinct(calls.attributes, _arguments_and_end), constant("}")),
        ]
    )
    headings = [
        f'{quoted(name)}:{{"TotalTime(ms)":{total}' for name, total in zip(calls.names, _totals(calls), strict=True)
    ]
    return Layout(".json", call, headings, opening="{\n", between="},\n", closing="}\n}\n")


def csv_table(calls: ApiCalls) -> Layout:
    """Lay out a table with a row for each call and a header line; text is in quotes, the arguments are JSON."""
    of_api = [f"{_cell(name)},{total}," for name, total in zip(calls.names, _totals(calls), strict=True)]
    call = joined(
        [
            *(_of_api(of_api, calls), whole(calls.number)),
            *(constant(","), whole(calls.start_ns)),
            *(constant(","), milliseconds(calls.duration_ns)),
            *(constant(","), each_distinct(calls.attributes, lambda text: _cell(_arguments(_said(text))))),
            constant("\n"),
        ]
    )
    header = "API Name,Total Time (ms),Call Number,Start Timestamp,Cost Time (ms),Arguments\n"
    return Layout(".csv", call, [""] * len(calls.names), opening=header)


class _Said(msgspec.Struct):
    """What an event keeps of a call."""

    args: list[str] = []
    kwargs: dict[str, str] = {}
    finished: bool = True


def _said(attributes: str | None) -> _Said:
    try:
        return msgspec.json.decode(attributes or "{}", type=_Said)
    except msgspec.DecodeError:  # a table of somebody else's: give what it says as it is
        return _Said(args=[attributes or ""])


def _arguments(said: _Said) -> str:
    return msgspec.json.encode((said.args, said.kwargs)).decode()


def _arguments_and_end(attributes: str | None) -> str:
    said = _said(attributes)
    return _arguments(said) + ("" if said.finished else ',"Finished":false')


def _of_api(texts: Sequence[str], calls: ApiCalls) -> Fragment:
    return chosen(texts, pa.array(calls.api))


def _totals(calls: ApiCalls) -> Any:
    return milliseconds(calls.total_ns)(pa.array(range(len(calls.names)), pa.int64())).to_pylist()


def _cell(text: str) -> str:
    doubled = inert(text).replace('"', '""')
    return f'"{doubled}"'
