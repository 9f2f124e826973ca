"""Lists the base classes of optimizers and user-defined Cells, so that the classes in kernel paths can be recognized.

Only classes are inspected, through `__subclasses__`; no Cell and no optimizer is searched for or kept alive.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from unified_profiler_mindspore.record.optimizer_search import optimizer_classes


def base_names() -> dict[str, list[str]]:
    """Return the names of the bases, nearest first, of optimizers and of user-defined Cells.

    Left out are Cells with a `construct` of their own, which may do anything, and different classes of the same name.
    """
    bases: dict[str, list[str]] = {}
    ambiguous = set()
    for cls in _described_classes():
        names = [base.__name__ for base in cls.__mro__[1:] if base is not object]
        if bases.setdefault(cls.__name__, names) != names:
            ambiguous.add(cls.__name__)
    return {name: names for name, names in bases.items() if name not in ambiguous}


def _described_classes() -> Iterator[type]:
    optimizers = optimizer_classes()
    for optimizer in optimizers:
        yield from subclasses(optimizer)
    for cls in subclasses(sys.modules["mindspore.nn.cell"].Cell):
        is_user_defined = not cls.__module__.startswith("mindspore.")
        if is_user_defined and "construct" not in vars(cls) and not issubclass(cls, optimizers):
            yield cls


def subclasses(cls: type) -> Iterator[type]:
    """Yield all direct and indirect subclasses; one with several bases may come more than once."""
    direct: list[type] = type.__subclasses__(cls)
    for subclass in direct:
        yield subclass
        yield from subclasses(subclass)
