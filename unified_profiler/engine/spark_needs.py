"""What Spark needs: it is looked for before anything starts, so that its absence is told and nothing hangs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from unified_profiler.errors import EngineError

_ADDRESS = re.compile(r"spark://[^\s:,/]+:\d{1,5}(,[^\s:,/]+:\d{1,5})*")
_REACHED_WITHIN_SECONDS = 5.0


def check_master(master: str) -> None:
    """Find out whether Spark can be started here and, if it is a cluster's, whether its master answers.

    Raises:
        EngineError: pyspark or Java is not there, or nobody answers at the address.
    """
    _check_installed()
    if master.startswith("spark://"):
        _check_address(master)


def python_of_workers() -> str:
    """Return the Python that works beside Spark on this machine."""
    return os.environ.get("PYSPARK_PYTHON", sys.executable)


def _check_installed() -> None:
    if any(find_spec(name) is None for name in ("pyspark", "pandas")):
        msg = 'The engine Spark needs pyspark and pandas. Install them with: pip install "unified-profiler[spark]"'
        raise EngineError(msg)
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else str(Path(home) / "bin" / "java")) is None:
        found = f"JAVA_HOME is {home}, which holds no bin/java" if home else "there is no java on the PATH"
        msg = (
            f"The engine Spark needs Java 17 or newer, but {found}. Install it, on Debian and Ubuntu with "
            "`apt-get install default-jre-headless`, or let JAVA_HOME name the directory where it is."
        )
        raise EngineError(msg)


def _check_address(master: str) -> None:
    if not _ADDRESS.fullmatch(master):
        msg = f"The address of a Spark master must be spark://host:port, such as spark://10.0.0.5:7077; found {master}."
        raise EngineError(msg)
    failures = [_failure(address) for address in master.removeprefix("spark://").split(",")]
    if all(failures):
        msg = (
            f"No Spark master answers at {master}: {'; '.join(filter(None, failures))}. "
            "Is it started, and may this machine reach it?"
        )
        raise EngineError(msg)


def _failure(address: str) -> str | None:
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_REACHED_WITHIN_SECONDS):
            return None
    except (OSError, OverflowError) as error:
        return f"{address}: {error}"
