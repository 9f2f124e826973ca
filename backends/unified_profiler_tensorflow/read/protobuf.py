"""Protobuf message classes made from a few lines of Python: reading TensorFlow's files needs no TensorFlow.

Only the fields that are read are declared, in a pool of their own; whatever else a file holds is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

Fields = Mapping[str, tuple[int, str]]
"""Field name -> its number and type: `int64`, `string`, `repeated bytes`, or the name of another message or enum."""


DAMAGED = (DecodeError, UnicodeDecodeError)
"""What reading raises: the second by protobuf's implementation in Python, which takes over beside MindSpore."""


def message_classes(
    package: str, messages: Mapping[str, Fields], enums: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, Any]:
    """Make a class for each message. A map is declared as what it is on the wire: repeated entries of key and value.

    Args:
        package: Where the messages are.
        messages: The fields of each.
        enums: The numbers of each enum by their names, 0 first.
    """
    enums = enums or {}
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for enum, numbers in enums.items():
        declaration = file.enum_type.add(name=enum)
        for value, number in numbers.items():
            declaration.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field_name, (number, declared) in fields.items():
            *repeated, kind = declared.split()
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in messages:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{package}.{kind}"
            elif kind in enums:
                field.type, field.type_name = field.TYPE_ENUM, f".{package}.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}
