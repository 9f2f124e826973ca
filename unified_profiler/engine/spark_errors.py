"""Errors of Spark in our own: what is wrong with a query apart from what is wrong with Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from unified_profiler.engine.contract import columns_named, no_single_select
from unified_profiler.engine.protocol import EngineTable
from unified_profiler.errors import EngineError, QueryError


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn any error of Spark into an EngineError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        msg = f"Spark failed: {_explain(error)}"
        raise EngineError(msg) from error


@contextmanager
def query_errors(tables: Mapping[str, EngineTable]) -> Iterator[None]:
    """Turn what is wrong with a query into a QueryError, and any other error of Spark into an EngineError."""
    from pyspark import errors

    wrong = (errors.AnalysisException, errors.ArithmeticException, errors.NumberFormatException)
    with engine_errors():
        try:
            yield
        except errors.ParseException as error:
            if str(error.getCondition()) == "PARSE_EMPTY_STATEMENT":
                raise no_single_select(found="nothing") from error
            raise QueryError(_explain(error)) from error
        except (*wrong, errors.DateTimeException, errors.IllegalArgumentException) as error:
            if error.getCondition() == "PATH_NOT_FOUND":  # the file of a trace
                raise
            raise QueryError(_explain(error) + _choice(error, tables)) from error


def _choice(error: Any, tables: Mapping[str, EngineTable]) -> str:
    """Give the names there are to choose from."""
    condition = str(error.getCondition())
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return f"\nThe tables are: {', '.join(tables)}."
    if condition.startswith("UNRESOLVED_COLUMN"):
        return f"\n{columns_named(tables)}"
    return ""


def _explain(error: Exception) -> str:
    """Leave out the plan and the stacks; of an error in a worker its last line says what it was."""
    text = str(error).partition(";\n")[0].partition("\n\tat ")[0].partition("JVM stacktrace")[0].strip()
    return text.splitlines()[-1] if "Traceback (most recent call last)" in text else text
