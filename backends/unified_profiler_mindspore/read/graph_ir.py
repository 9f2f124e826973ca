"""Reads graphs in MindSpore's `anf_ir` protobuf format: operators, their inputs and their shapes.

    file:     4 graph
    graph:    1 operators   3 parameters
    operator: 1 inputs (1 key)   2 key   3 type   6 value   8 full name
    parameter: 1 key   2 value
    value:    2 tensor (2 shape: 1 dimensions: 1 size)

Other fields are skipped. MindSpore does not write the shapes of tensors in tuples, nor the subgraphs of branches and
loops.
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

_PASS_THROUGH = frozenset(
    {"Load", "Depend", "UpdateState", "TupleGetItem", "MakeTuple", "Reshape", "Cast", "Contiguous"}
)
"""Operators whose result is their first input or a part of it."""


@dataclass(frozen=True)
class Operator:
    """An operator of a graph."""

    key: str
    """Identifies its result in the inputs of other operators."""
    type: str
    name: str
    """Full name, in the form of kernel names."""
    inputs: tuple[str, ...]
    _value: bytes = field(default=b"", repr=False)

    @cached_property
    def node(self) -> Node:
        """The parsed name."""
        return parse(self.name)

    @cached_property
    def shape(self) -> Shape | None:
        """Shape of its result; None unless that is a single tensor."""
        return _parse_shape(self._value)


class Graph:
    """One graph, in the order in which MindSpore built it."""

    def __init__(self, operators: list[Operator], parameters: dict[str, Shape | None]) -> None:
        """Create a graph from its operators and the shapes of its parameters."""
        self.operators = operators
        self.by_key = {operator.key: operator for operator in operators}
        self._parameters = parameters
        self._sources: dict[str, str] = {}

    def sources(self, operator: Operator) -> set[str]:
        """Return the keys of the parameters and results that an operator takes, beneath pass-through operators."""
        return {source for key in operator.inputs if (source := self._source(key)) is not None}

    def users(self, key: str) -> set[str]:
        """Return the keys of the operators that take a result."""
        return self._users.get(key, set())

    @cached_property
    def _users(self) -> dict[str, set[str]]:
        users: dict[str, set[str]] = defaultdict(set)
        for operator in self.operators:
            if operator.type not in _PASS_THROUGH:
                for key in self.sources(operator):
                    users[key].add(operator.key)
        return users

    def input_shapes(self, operator: Operator) -> list[Shape]:
        """Return the known shapes of an operator's input tensors; those of constants are not known."""
        keys = [item for key in operator.inputs for item in self._tuple_items(key)]
        return [shape for key in keys if (shape := self._shape_of(key)) is not None]

    def _tuple_items(self, key: str) -> tuple[str, ...]:
        operator = self.by_key.get(key)
        return operator.inputs if operator and operator.type == "MakeTuple" else (key,)

    def _shape_of(self, key: str) -> Shape | None:
        return self.by_key[key].shape if key in self.by_key else self._parameters.get(key)

    def _source(self, key: str) -> str | None:
        passed_through = []
        while key not in self._sources:
            operator = self.by_key.get(key)
            self._sources[key] = key  # preliminary; stays where the operators of a damaged file form a cycle
            if operator is None or operator.type not in _PASS_THROUGH or not operator.inputs:
                break
            passed_through.append(key)
            key = operator.inputs[0]
        source = self._sources[key]
        self._sources |= dict.fromkeys(passed_through, source)
        return source if source in self.by_key or source in self._parameters else None


def read_graph(path: Path) -> Graph:
    """Read a graph from a file.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    with reading(path, expected="a graph of MindSpore"):
        graph = b"".join(_bytes(read_bytes(path), 4))
        parameters = {_text(value, 1): _parse_shape(next(_bytes(value, 2), b"")) for value in _bytes(graph, 3)}
        return Graph([_parse_operator(value) for value in _bytes(graph, 1)], parameters)


def _parse_operator(data: bytes) -> Operator:
    return Operator(
        key=_text(data, 2),
        type=_text(data, 3),
        name=_text(data, 8),
        inputs=tuple(_text(value, 1) for value in _bytes(data, 1)),
        _value=next(_bytes(data, 6), b""),
    )


def _parse_shape(value: bytes) -> Shape | None:
    tensor = next(_bytes(value, 2), None)
    if tensor is None:
        return None
    return tuple(_size(dimension) for shape in _bytes(tensor, 2) for dimension in _bytes(shape, 1))


def _size(dimension: bytes) -> int:
    """Return a size; -1 for one that is not known before the graph runs, which is written as a negative number."""
    size = next((value for number, value in _fields(dimension) if number == 1 and isinstance(value, int)), 0)
    return size if size < 1 << 63 else -1


def _bytes(data: bytes, field_number: int) -> Iterator[bytes]:
    return (value for number, value in _fields(data) if number == field_number and isinstance(value, bytes))


def _text(data: bytes, field_number: int) -> str:
    return next(_bytes(data, field_number), b"").decode()


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: an integer, or the bytes of a string or of a nested message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag & 7 == 0:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        size, position = _varint(data, position) if tag & 7 == 2 else (_FIXED[tag & 7], position)
        if position + size > len(data):
            msg = "a field extends beyond the end"
            raise ValueError(msg)
        yield tag >> 3, data[position : position + size]
        position += size


_FIXED = {1: 8, 5: 4}
"""Length in bytes of fixed-length wire types."""
_LONGEST_VARINT = 10
"""Length in bytes of an encoded 64-bit integer."""


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, _LONGEST_VARINT * 7, 7):
        byte = data[position]
        number |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return number, position
    msg = "an integer has more than 64 bits"
    raise ValueError(msg)
