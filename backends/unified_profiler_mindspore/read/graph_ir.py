"""A graph as MindSpore writes it (`anf_ir`, in protobuf's wire format): operators, what each takes, and their shapes.

    file:     4 graph
    graph:    1 operators   3 parameters
    operator: 1 inputs (1 key)   2 key   3 type   6 value   8 full name
    parameter: 1 key   2 value
    value:    2 tensor (2 shape: 1 dimensions: 1 size)

Read are these fields. Not written by MindSpore are shapes of tensors in tuples, and graphs that are called within a
graph, for branches and loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler_mindspore.canonical.kernel_names import Node, parse

Shape = tuple[int, ...]

_PASSING = frozenset({"Load", "Depend", "UpdateState", "TupleGetItem", "MakeTuple", "Reshape", "Cast", "Contiguous"})
"""Operators whose result is the value that they were given, or a part of it: only their first input is looked at."""


@dataclass(frozen=True)
class Operator:
    """One operator of a graph."""

    key: str
    """By which others take its result."""
    type: str
    name: str
    """As kernels are called."""
    inputs: tuple[str, ...]
    _value: bytes = field(default=b"", repr=False)

    @cached_property
    def node(self) -> Node:
        """What its name says."""
        return parse(self.name)

    @cached_property
    def shape(self) -> Shape | None:
        """Shape of its result; None for a tuple of several, and for what is no tensor."""
        return _shape(self._value)


class Graph:
    """One graph, in the order in which MindSpore built it."""

    def __init__(self, operators: list[Operator], parameters: dict[str, Shape | None]) -> None:
        """Take operators and the shapes of parameters."""
        self.operators = operators
        self.by_key = {one.key: one for one in operators}
        self._parameters = parameters
        self._sources: dict[str, str] = {}

    def sources(self, operator: Operator) -> set[str]:
        """Return what an operator works on, parameters or results, seen through what only passes them on."""
        return {found for key in operator.inputs if (found := self._source(key)) is not None}

    def users(self, key: str) -> set[str]:
        """Return the operators that work on a result."""
        return self._users.get(key, set())

    @cached_property
    def _users(self) -> dict[str, set[str]]:
        users: dict[str, set[str]] = defaultdict(set)
        for operator in self.operators:
            if operator.type not in _PASSING:
                for key in self.sources(operator):
                    users[key].add(operator.key)
        return users

    def input_shapes(self, operator: Operator) -> list[Shape]:
        """Return the shapes of the tensors that an operator takes, as far as they are known; constants are not."""
        keys = [part for key in operator.inputs for part in self._parts(key)]
        return [shape for key in keys if (shape := self._shape_of(key)) is not None]

    def _parts(self, key: str) -> tuple[str, ...]:
        operator = self.by_key.get(key)
        return operator.inputs if operator and operator.type == "MakeTuple" else (key,)

    def _shape_of(self, key: str) -> Shape | None:
        return self.by_key[key].shape if key in self.by_key else self._parameters.get(key)

    def _source(self, key: str) -> str | None:
        passed = []
        while key not in self._sources:
            operator = self.by_key.get(key)
            self._sources[key] = key  # until it is known; for good where operators of a damaged file form a ring
            if operator is None or operator.type not in _PASSING or not operator.inputs:
                break
            passed.append(key)
            key = operator.inputs[0]
        source = self._sources[key]
        self._sources |= dict.fromkeys(passed, source)
        return source if source in self.by_key or source in self._parameters else None


def read_graph(path: Path) -> Graph:
    """Read a graph.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    with reading(path, expected="a graph of MindSpore"):
        content = [(number, value) for top in _bytes(read_bytes(path), 4) for number, value in _fields(top)]
        operators = [_operator(value) for number, value in content if number == 1 and isinstance(value, bytes)]
        parameters = [value for number, value in content if number == 3 and isinstance(value, bytes)]
        return Graph(operators, {_text(value, 1): _shape(next(_bytes(value, 2), b"")) for value in parameters})


def _operator(text: bytes) -> Operator:
    return Operator(
        key=_text(text, 2),
        type=_text(text, 3),
        name=_text(text, 8),
        inputs=tuple(_text(one, 1) for one in _bytes(text, 1)),
        _value=next(_bytes(text, 6), b""),
    )


def _shape(value: bytes) -> Shape | None:
    tensor = next(_bytes(value, 2), None)
    if tensor is None:
        return None
    return tuple(_size(dimension) for shape in _bytes(tensor, 2) for dimension in _bytes(shape, 1))


def _size(dimension: bytes) -> int:
    """Return a size; one that is not known before the graph runs is written as a negative number."""
    size = next((value for number, value in _fields(dimension) if number == 1 and isinstance(value, int)), 0)
    return size if size < 1 << 63 else -1


def _bytes(text: bytes, wanted: int) -> Iterator[bytes]:
    return (value for number, value in _fields(text) if number == wanted and isinstance(value, bytes))


def _text(text: bytes, wanted: int) -> str:
    return next(_bytes(text, wanted), b"").decode()


def _fields(text: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: a whole number, or the bytes of a text or of further fields."""
    place = 0
    while place < len(text):
        tag, place = _number(text, place)
        if tag & 7 == 0:
            value, place = _number(text, place)
            yield tag >> 3, value
            continue
        size, place = _number(text, place) if tag & 7 == 2 else (_FIXED[tag & 7], place)
        if place + size > len(text):
            msg = "a field ends after the text"
            raise ValueError(msg)
        yield tag >> 3, text[place : place + size]
        place += size


_FIXED = {1: 8, 5: 4}
"""Bytes of values of fixed length."""
_LONGEST_NUMBER = 10
"""Bytes of a number of 64 bits."""


def _number(text: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, _LONGEST_NUMBER * 7, 7):
        byte = text[place]
        number |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return number, place
    msg = "a number is longer than 64 bits"
    raise ValueError(msg)
