"""Coming by a Spark session: what must be there is looked for first, so that its absence is told and nothing hangs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from unified_profiler.errors import EngineError

LOCAL = "local[*]"
_ADDRESS = re.compile(r"spark://[^\s:,/]+:\d{1,5}(,[^\s:,/]+:\d{1,5})*")
_REACHED_WITHIN_SECONDS = 5.0
_OPTIONS = {
    "spark.app.name": "unified_profiler",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def check_master(master: str) -> None:
    """Find out whether Spark can be started here and, if it is a cluster's, whether its master answers.

    Raises:
        EngineError: pyspark or Java is not there, or nobody answers at the address.
    """
    _check_installed()
    if master.startswith("spark://"):
        _check_address(master)


def running() -> Any | None:
    """Return the session that this process has already, if any."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with quiet():
        return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context else None


def started(master: str) -> Any:
    """Start Spark and return its session.

    Raises:
        EngineError: Spark does not start.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings = SparkConf().setMaster(master).setAll([*_OPTIONS.items()])
    with tempfile.TemporaryFile() as said, quiet():
        try:
            gateway = SparkContext._gateway or launch_gateway(settings, {"stderr": said})
            context = SparkContext(conf=settings, gateway=gateway)
        except (Py4JError, PySparkException, OSError) as error:
            msg = f"Spark does not start at {master}: {_first_line(error)}{_last_lines(said)}"
            raise EngineError(msg) from error
        if context._jsc.sc().isStopped():  # Spark gives up after a minute, and says so only in its log
            msg = f"{master} answers, but not as a Spark master.{_last_lines(said)}"
            raise EngineError(msg)
        context.setLogLevel("ERROR")
        if master.startswith("local"):
            _work_as_here(context)
        return SparkSession(context)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep pyspark from writing what we tell in our own words, or what does not concern a user of ours."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # prints each error of a query, with its stack
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            yield
    finally:
        logger.disabled = before


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


def _work_as_here(context: Any) -> None:
    """Let the workers on this machine be the same Python and import what this process can."""
    context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    context.environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")


def _last_lines(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    errors = [line for line in lines if not re.search(r"\bWARN|^\s+at |log4j|log level", line)]
    return "".join(f"\n{line}" for line in errors[-5:])
