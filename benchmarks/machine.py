"""What a run was measured on and with: without these its figures mean little."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

import unified_profiler as up

LIBRARIES = {
    "torch": ("torch",),
    "TensorFlow": ("tensorflow", "tensorflow-cpu"),
    "MindSpore": ("mindspore",),
    "numpy": ("numpy",),
    "pyarrow": ("pyarrow",),
    "DuckDB": ("duckdb",),
    "viztracer": ("viztracer",),
    "apitimewrapper": ("apitimewrapper",),
}
"""What to call each library, and the names of the packages that it comes in."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine at the beginning of a run; what it does not tell is None."""

    date: str
    python: str
    platform: str
    cpu: str | None
    cores: int | None
    memory_gb: float
    load: float
    versions: dict[str, str | None]


def this_machine() -> Machine:
    """Describe the machine as it is now."""
    return Machine(
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=_cpu(),
        cores=os.cpu_count(),
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        load=round(os.getloadavg()[0], 2),
        versions={"unified_profiler": up.__version__, **{name: _version(LIBRARIES[name]) for name in LIBRARIES}},
    )


def _cpu() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _version(packages: tuple[str, ...]) -> str | None:
    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None
