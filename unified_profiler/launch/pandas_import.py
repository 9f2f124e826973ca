"""Leaves the import of pandas, which takes long, to the script; Arrow would import it when it is first used."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa

from unified_profiler.launch.post_import import ImportWatch

_PANDAS = "pandas"


def leave_pandas_to_script(imports: ImportWatch) -> None:
    """Make Arrow look for pandas now, while it is hidden, and once more when the script has imported it."""
    if _PANDAS in sys.modules:
        return
    hidden = _NoPandas()
    sys.meta_path.insert(0, hidden)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(hidden)
    imports.when_imported(_PANDAS, lambda _module: pa.table({}).to_pandas())


class _NoPandas(importlib.abc.MetaPathFinder):
    """Makes the import of pandas fail."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del path, target
        if fullname == _PANDAS:
            raise ModuleNotFoundError(name=fullname)
