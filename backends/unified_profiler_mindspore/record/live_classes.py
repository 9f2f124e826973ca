"""What the classes in the paths of kernels are: those that the program defines are in no table of ours.

Asked are the classes themselves, which know those derived from them; no Cell and no optimizer is looked for or held.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from unified_profiler_mindspore.record.optimizer_search import OPTIMIZER_MODULES


def bases() -> dict[str, list[str]]:
    """Return the names of the bases, nearest first, of optimizers and of the program's own Cells.

    A Cell that has a `construct` of its own may do anything and is left out, and so are two different classes of the
    same name.
    """
    found: dict[str, list[str]] = {}
    doubtful = set()
    for kind in _known():
        names = [base.__name__ for base in kind.__mro__[1:] if base is not object]
        if found.setdefault(kind.__name__, names) != names:
            doubtful.add(kind.__name__)
    return {name: names for name, names in found.items() if name not in doubtful}


def _known() -> Iterator[type]:
    optimizers = [sys.modules[name].Optimizer for name in OPTIMIZER_MODULES if name in sys.modules]
    for base in optimizers:
        yield from _derived(base)
    cell = sys.modules["mindspore.nn.cell"].Cell
    for kind in _derived(cell):
        of_program = not kind.__module__.startswith("mindspore.")
        if of_program and "construct" not in vars(kind) and not issubclass(kind, tuple(optimizers)):
            yield kind


def _derived(kind: type) -> Iterator[type]:
    below: list[type] = type.__subclasses__(kind)
    for one in below:
        yield one
        yield from _derived(one)
