"""Reads the `args` of Kineto events and separates columns, attributes and arguments that are left out.

Most events of a category have the same keys and are decoded as structs in one call, by the layouts in `args_layouts`.
All others are decoded as dictionaries. Attributes remain the JSON text of the file: a value is neither decoded nor
encoded again, and every distinct text is kept once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from unified_profiler.model.columns import Index, encode
from unified_profiler_torch.read.args_layouts import (
    ABSENT,
    INPUTS,
    LEFT_OUT,
    MISSING,
    NUMBERS,
    ArgsLayout,
    CpuArgs,
    InputArgs,
    raw_integer,
)

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]
"""Small integers."""
Columns = dict[str, npt.NDArray[Any]]

COLUMN_INPUTS = {"Input Dims": "input_shapes", "Input type": "input_types"}
"""The `INPUTS` that have a column; the others are attributes."""

# no JSON contains it
_DELIMITER = b"\0"
_MAYBE_LARGE = re.compile(rb"[eE]\+?\d{3}|\d{300}")


@dataclass
class ArgsReader:
    """Converts args to integer codes; every distinct JSON value is kept once for the whole file."""

    inputs: Index = field(default_factory=Index)
    """The raw JSON of the `INPUTS`, joined."""
    forward: Index = field(default_factory=Index)
    """Values of "Fwd thread id"."""
    rest: Index = field(default_factory=Index)
    """JSON objects of all other arguments; empty if there are none."""
    _layouts: dict[tuple[str, ...], _LayoutIndex] = field(default_factory=dict)
    """By the keys of a layout."""
    _input_texts: dict[bytes, int | None] = field(default_factory=dict)

    def read(self, args: Sequence[Any], layout: ArgsLayout) -> Columns:
        """Read args that all fit one layout."""
        columns: Columns = {
            name: np.fromiter(map(attrgetter(name), args), np.int64, len(args)) for name in layout.numbers
        }
        if issubclass(layout.struct, CpuArgs):
            codes, threads = encode(np.fromiter(map(attrgetter("forward_thread"), args), np.int64, len(args)))
            distinct = [None if thread == MISSING else thread for thread in threads.tolist()]
            columns["forward"] = self.forward.codes(distinct, np.int32)[codes]
            inputs = list(map(_DELIMITER.join, map(_INPUT_VALUES, args)))
            if inputs.count(_NO_INPUTS) < len(inputs):
                columns["inputs"] = self.inputs.codes(inputs, np.int32)
        if layout.keys:
            joined, integers = layout.attributes(args, _DELIMITER)
            columns["rest"] = self._layout_index(layout).codes(joined, np.int32)
            columns |= {name: np.array(values, np.int64) for name, values in integers.items()}
        return columns

    def inputs_code(self, members: bytes) -> int | None:
        """Return the code of inputs given as members of a JSON object; None if there are other members."""
        if members not in self._input_texts:
            try:
                code = self.inputs[_DELIMITER.join(_INPUT_VALUES(_INPUT_ARGS.decode(b"{%b}" % members)))]
            except (msgspec.DecodeError, UnicodeDecodeError):
                code = None
            self._input_texts[members] = code
        return self._input_texts[members]

    def forward_codes(self, threads: Ints) -> Codes:
        """Return the codes of forward threads, -1 for none."""
        codes, distinct = encode(threads)
        return self.forward.codes([None if thread < 0 else thread for thread in distinct.tolist()], np.int32)[codes]

    def read_any(self, args: Sequence[Mapping[str, msgspec.Raw]]) -> Columns:
        """Read args with arbitrary keys, one by one."""
        numbers = {name: [MISSING] * len(args) for name in set(NUMBERS.values())}
        inputs, rests = [], []
        for row, event_args in enumerate(args):
            rest = []
            for key, value in event_args.items():
                if key in NUMBERS and (number := raw_integer(value)) is not None:
                    numbers[NUMBERS[key]][row] = number
                elif key not in LEFT_OUT and key not in INPUTS:
                    rest.append(b"%b:%b" % (_key_text(key), value))
            rests.append(_object(rest))
            inputs.append(_DELIMITER.join([event_args.get(key, ABSENT) for key in INPUTS]))
        columns: Columns = {name: np.array(values, np.int64) for name, values in numbers.items()}
        return columns | {"inputs": self.inputs.codes(inputs, np.int32), "rest": self.rest.codes(rests, np.int32)}

    def _layout_index(self, layout: ArgsLayout) -> _LayoutIndex:
        if layout.keys not in self._layouts:
            self._layouts[layout.keys] = _LayoutIndex(layout, self.rest)
        return self._layouts[layout.keys]

    def input_texts(self, key: str) -> list[str | None]:
        """Return one of the `INPUTS` for each code of `inputs`, as compact JSON."""
        part = INPUTS.index(key)
        return [_compact(joined.split(_DELIMITER)[part]) for joined in self.inputs]

    def attributes(self, inputs: Ints, forward: Ints, rest: Ints) -> tuple[Ints, list[str | None]]:
        """Return the attributes of each event, as codes and their texts; the codes given are -1 for no value."""
        threads = [b"" if thread is None else b'"Fwd thread id":%d' % thread for thread in self.forward]
        members = (self._input_members(), threads, self._rest_members())
        shape = tuple(len(texts) + 1 for texts in members)
        codes, distinct = encode(((inputs + 1) * shape[1] + forward + 1) * shape[2] + rest + 1)
        inputs_of, forward_of, rest_of = ([b"", *texts] for texts in members)
        combinations = zip(*(part.tolist() for part in np.unravel_index(distinct, shape)), strict=True)
        return codes, [_object((forward_of[f], inputs_of[i], rest_of[r])).decode() or None for i, f, r in combinations]

    def _input_members(self) -> list[bytes]:
        """Return the `INPUTS` without a column, as members of a JSON object, for each code of `inputs`."""
        keys = [key for key in INPUTS if key not in COLUMN_INPUTS]
        columns = [
            [text and b"%b:%b" % (_key_text(key), text.encode()) for text in self.input_texts(key)] for key in keys
        ]
        return [b",".join(filter(None, texts)) for texts in zip(*columns, strict=True)]

    def _rest_members(self) -> list[bytes]:
        """Return the members of each object of `rest`.

        Raises:
            msgspec.DecodeError: A number is too large for a double, so that nobody could decode the attributes.
        """
        for text in filter(_MAYBE_LARGE.search, self.rest):
            msgspec.json.decode(text)
        return [text[1:-1] for text in self.rest]


_SCRIPT_SUBMODULE = re.compile(r"(?:^|\.)(?!TOP\(|SELF\()([^.():]+)\([^()]*\)::")


def script_path(rest: bytes) -> str | None:
    """Return the path of the module in which TorchScript ran an operator, from the JSON of its other arguments.

    torch writes `TOP(Net)::forward.layers(Sequential)::forward.0(Linear)::forward.` for `layers.0`.
    """
    if b"Module Hierarchy" not in rest:
        return None
    return ".".join(_SCRIPT_SUBMODULE.findall(str(msgspec.json.decode(rest)["Module Hierarchy"]))) or None


class _LayoutIndex(Index):
    """The codes in `ArgsReader.rest` of the joined attributes of one layout."""

    def __init__(self, layout: ArgsLayout, rest: Index) -> None:
        super().__init__()
        self._keys = [_key_text(key) for key in layout.keys]
        self._rest = rest

    def __missing__(self, joined: bytes) -> int:
        """Build the JSON object of attributes that have not occurred before."""
        values = zip(self._keys, joined.split(_DELIMITER), strict=True)
        self[joined] = code = self._rest[_object([b"%b:%b" % pair for pair in values if pair[1]])]
        return code


_NO_INPUTS = _DELIMITER.join([ABSENT] * len(INPUTS))
_INPUT_ARGS = msgspec.json.Decoder(InputArgs)
_INPUT_VALUES = attrgetter("shapes", "types", "strides", "concrete")


@cache
def _key_text(key: str) -> bytes:
    return msgspec.json.encode(key)


def _object(members: Iterable[bytes]) -> bytes:
    """Return a JSON object; empty if it has no members."""
    text = b",".join(filter(None, members))
    return b"{%b}" % text if text else b""


def _compact(text: bytes) -> str | None:
    return msgspec.json.encode(msgspec.json.decode(text)).decode() if text else None
