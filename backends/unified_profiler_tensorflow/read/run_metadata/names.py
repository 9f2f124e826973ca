"""Parses the texts of step statistics: node labels, device names and type numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unified_profiler.spi.xplane.lanes import device_name

_LABEL = re.compile(r"^(?:\[[^\]]*\] )*(?P<node>.*?) = (?P<op_type>[\w>.]+)\((?P<inputs>.*?)\)?$", re.DOTALL)
"""`[cpu 1.3MB 1.3MB] conv = Conv2D(x, kernel)`; some versions write no closing bracket after `_Send` and `_Recv`."""

_KERNEL = re.compile(r"^(?P<details>.*?)@@(?P<annotation>.*?)(?:#.*)?$", re.DOTALL)
_DEVICE = re.compile(r"/(?:device:)?(?P<type>[A-Za-z_]+):(?P<number>\d+)(?:/(?P<part>(?:stream|memcpy|sync).*))?$")
_STREAM = re.compile(r"stream:(\d+)")

_DTYPES = (
    *("invalid", "float32", "float64", "int32", "uint8", "int16", "int8", "string", "complex64", "int64", "bool"),
    *("qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "float16", "resource"),
    *("variant", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    *("float8_e5m2fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"),
)
"""Indexed by their number in `DataType`."""

_FIRST_REFERENCE = 100
_ENUM_NAMES = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
"""Types with a different name in `DataType`."""


def dtype_name(number: int) -> str:
    """Return TensorFlow's name of a type: `float32`, `int32_ref`; the number of an unknown, newer type."""
    reference = number > _FIRST_REFERENCE
    plain = number - _FIRST_REFERENCE if reference else number
    name = _DTYPES[plain] if 0 <= plain < len(_DTYPES) else str(plain)
    return f"{name}_ref" if reference else name


def dtype_enum() -> dict[str, int]:
    """Return the numbers of the enum `DataType` by their names there: `DT_FLOAT`, `DT_INT32_REF`."""
    names = [f"DT_{_ENUM_NAMES.get(name, name.upper())}" for name in _DTYPES]
    references = {f"{name}_REF": number + _FIRST_REFERENCE for number, name in enumerate(names) if number}
    return {name: number for number, name in enumerate(names)} | references


Label = tuple[str, str, str, str]
"""Node, type, inputs (separated by a comma and a space), and the text of a label that does not have the form of a node.

A plain tuple, since there is one for each node.
"""


def read_label(node_name: str, label: str) -> Label:
    """Parse the label of a node; a label in another form contributes only its text."""
    # the most common form, `name = Type(input, input)`, in half the time of the pattern
    name, _, rest = label.partition(" = ")
    if name == node_name and rest[-1:] == ")" and name[:1] != "[" and name:
        op_type, _, inputs = rest.partition("(")
        if op_type.isidentifier() and op_type.isascii():
            return name, op_type, inputs[:-1], ""
    if match := _LABEL.match(label):
        return node_name or match["node"], match["op_type"], match["inputs"], ""
    return node_name, node_name.rpartition("/")[2] or label, "", label


def read_kernel_label(node_name: str, label: str) -> Label:
    """Parse the label of work on an accelerator: `kernel regs:32 grid:1,1,1@@node:Type`, or `MEMCPYHtoD bytes:64`.

    Node and type are those of the operator that launched it, if the label contains them.
    """
    match = _KERNEL.match(label)
    annotation = match["annotation"].rpartition("::")[2] if match else node_name
    node, _, op_type = annotation.partition(":")
    return node, op_type, "", match["details"] if match else label


@dataclass(frozen=True)
class Device:
    """A device, or a part of one that has its own nodes: a stream, the copies."""

    name: str
    """The name in the event schema: `cpu:0`, `cuda:0`."""
    part: str | None
    """The part of an accelerator, None for operators placed on the device."""

    @property
    def stream(self) -> int | None:
        """The number of the stream, if the part is one."""
        match = _STREAM.match(self.part or "")
        return int(match[1]) if match else None


def read_device(name: str) -> Device:
    """Parse the name of a device: `/job:localhost/replica:0/task:0/device:GPU:0/stream:14`."""
    match = _DEVICE.search(name)
    if not match:
        return Device(name, None)
    return Device(device_name(match["type"].upper(), int(match["number"])), match["part"])
