"""Finds or starts a Spark session, without the log output of its start."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from unified_profiler.engine.spark_needs import python_of_workers
from unified_profiler.errors import EngineError

LOCAL = "local[*]"
_OPTIONS = {
    "spark.app.name": "unified_profiler",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def running_session() -> Any | None:
    """Return the session of this process, if there is one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with quiet():
        return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context else None


def start_session(master: str) -> Any:
    """Start Spark and return its session.

    Raises:
        EngineError: Spark does not start, or finds no master at the address, which takes it a minute.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    with tempfile.TemporaryFile() as log, quiet():
        try:
            return _session(master, log)
        except (Py4JError, PySparkException, OSError) as error:
            if SparkContext._active_spark_context:
                SparkContext._active_spark_context.stop()
            msg = f"Spark does not start at {master}: {_first_line(error)}{_last_lines(log)}"
            raise EngineError(msg) from error


def _session(master: str, log: IO[bytes]) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings, is_local = SparkConf().setMaster(master).setAll([*_OPTIONS.items()]), master.startswith("local")
    if is_local:  # workers must import the same packages as this process
        settings.setExecutorEnv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    gateway = SparkContext._gateway or launch_gateway(settings, {"stderr": log})
    context = SparkContext(conf=settings, gateway=gateway)
    context.setLogLevel("ERROR")
    if is_local:
        context.pythonExec = python_of_workers()
    return SparkSession(context)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress pyspark messages that our own errors repeat or that do not concern our users."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # prints each query error with its stack trace
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            yield
    finally:
        logger.disabled = before


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")


def _last_lines(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    errors = [line for line in lines if not re.search(r"\bWARN|^\s+at |log4j|log level", line)]
    return "".join(f"\n{line}" for line in errors[-5:])
