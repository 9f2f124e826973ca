"""Checks the prerequisites of Spark before it starts: pyspark, Java and a reachable master."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from unified_profiler.errors import EngineError
from unified_profiler.installation import install_command

_ADDRESS = re.compile(r"spark://[^\s:,/]+:\d{1,5}(,[^\s:,/]+:\d{1,5})*")
_CONNECT_SECONDS = 5.0


def check_master(master: str) -> None:
    """Check that Spark can be started here and, for a cluster, that its master answers.

    Raises:
        EngineError: pyspark or Java is not installed, or no master answers at the address.
    """
    _check_installed()
    if master.startswith("spark://"):
        _check_address(master)


def python_of_workers() -> str:
    """Return the Python interpreter of Spark's workers on this machine."""
    return os.environ.get("PYSPARK_PYTHON", sys.executable)


def _check_installed() -> None:
    if any(find_spec(name) is None for name in ("pyspark", "pandas")):
        msg = f"The Spark engine needs pyspark and pandas. Install them with: {install_command('spark')}"
        raise EngineError(msg)
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else str(Path(home) / "bin" / "java")) is None:
        problem = f"JAVA_HOME is {home}, which contains no bin/java" if home else "there is no java on the PATH"
        msg = (
            f"The Spark engine needs Java 17 or newer, but {problem}. Install it, on Debian and Ubuntu with "
            "`apt-get install default-jre-headless`, or set JAVA_HOME to its directory."
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
            "Check that it is started and that this machine can reach it."
        )
        raise EngineError(msg)


def _failure(address: str) -> str | None:
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS):
            return None
    except (OSError, OverflowError) as error:
        return f"{address}: {error}"
