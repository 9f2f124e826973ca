"""Builds protobuf message classes from field tables, so that files can be read without the framework that wrote them.

Declare only the fields that are read: the parser skips all others. Each call has its own descriptor pool, so nothing
collides with the classes of a framework in the same process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

Fields = Mapping[str, tuple[int, str]]
"""Field name -> number and type: `int64`, `string`, `repeated bytes`, or the name of another message or enum."""


DAMAGED = (DecodeError, UnicodeDecodeError)
"""Exceptions of `FromString`. The second is raised by protobuf's Python implementation, used beside MindSpore."""


def message_classes(
    package: str, messages: Mapping[str, Fields], enums: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, Any]:
    """Build a class for each message. Declare a map by its wire format: repeated entries of `key` and `value`.

    Args:
        package: The protobuf package of the messages.
        messages: The fields of each message.
        enums: The values of each enum by name, 0 first.
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
            if kind in messages or kind in enums:
                field.type = field.TYPE_MESSAGE if kind in messages else field.TYPE_ENUM
                field.type_name = f".{package}.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}
