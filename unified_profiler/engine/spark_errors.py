"""Converts Spark's errors to QueryError, for an invalid query, and EngineError, for a failure of Spark itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from unified_profiler.engine.contract import describe_columns, not_single_select
from unified_profiler.engine.protocol import EngineTable
from unified_profiler.errors import EngineError, QueryError


@contextmanager
def engine_errors() -> Iterator[None]:
    """Convert any Spark error to an EngineError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        msg = f"Spark failed: {_explain(error)}"
        raise EngineError(msg) from error


@contextmanager
def query_errors(tables: Mapping[str, EngineTable]) -> Iterator[None]:
    """Convert errors of the query to a QueryError, and any other Spark error to an EngineError."""
    from pyspark import errors

    invalid = (errors.AnalysisException, errors.ArithmeticException, errors.NumberFormatException)
    with engine_errors():
        try:
            yield
        except errors.ParseException as error:
            if str(error.getCondition()) == "PARSE_EMPTY_STATEMENT":
                raise not_single_select(statements="nothing") from error
            raise QueryError(_explain(error)) from error
        except (*invalid, errors.DateTimeException, errors.IllegalArgumentException) as error:
            if error.getCondition() == "PATH_NOT_FOUND":  # the file of a trace
                raise
            raise QueryError(_explain(error) + _available_names(error, tables)) from error


def _available_names(error: Any, tables: Mapping[str, EngineTable]) -> str:
    condition = str(error.getCondition())
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return f"\nThe tables are: {', '.join(tables)}."
    if condition.startswith("UNRESOLVED_COLUMN"):
        return f"\n{describe_columns(tables)}"
    return ""


def _explain(error: Exception) -> str:
    """Return the message without the plan and stack traces; for an error in a worker, only its last line."""
    text = str(error).partition(";\n")[0].partition("\n\tat ")[0].partition("JVM stacktrace")[0].strip()
    return text.splitlines()[-1] if "Traceback (most recent call last)" in text else text
