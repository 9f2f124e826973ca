"""Converts errors of DuckDB, and of fetching its results, to QueryError with advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from unified_profiler.engine.contract import describe_columns, too_deeply_nested
from unified_profiler.engine.protocol import EngineTable
from unified_profiler.errors import QueryError
from unified_profiler.presentation.units import format_bytes

if TYPE_CHECKING:
    import duckdb

_MORE_MEMORY = (
    'To allow more: `engine=DuckDBEngine(memory_limit="16GB")` in Python, `--memory-limit 16GB` on the command line.'
)


@contextmanager
def query_errors(tables: Mapping[str, EngineTable]) -> Iterator[None]:
    """Convert every error of a query to a QueryError; while rows are fetched, Arrow wraps DuckDB's errors."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise _out_of_memory() from error
    except duckdb.Error as error:
        raise QueryError(_explain(error, tables)) from error
    except RecursionError as error:
        raise too_deeply_nested() from error
    except (pa.ArrowException, OSError) as error:
        if "Out of Memory" in str(error):
            raise _out_of_memory() from error
        msg = f"The query failed: {error}"
        raise QueryError(msg) from error


def result_too_large(memory: int) -> QueryError:
    """Return the error for a query whose result exceeds the memory limit."""
    return QueryError(
        f"The result of the query exceeds {format_bytes(memory)}, its memory limit. Select fewer rows or columns, "
        f"aggregate, or add LIMIT. {_MORE_MEMORY}"
    )


def _out_of_memory() -> QueryError:
    return QueryError(
        "The query needs more memory than its limit, and more than it may write to the temporary directory. Select "
        f"fewer rows or columns, or aggregate before sorting. {_MORE_MEMORY}"
    )


def _explain(error: duckdb.Error, tables: Mapping[str, EngineTable]) -> str:
    """Return DuckDB's message, with the available names."""
    import duckdb

    text = str(error).strip()
    if isinstance(error, duckdb.PermissionException):
        return f"{text}\nQueries see the tables {', '.join(tables)} and nothing outside them."
    if isinstance(error, duckdb.CatalogException):
        return f"{text}\nThe tables are: {', '.join(tables)}."
    if isinstance(error, duckdb.BinderException):
        return f"{text}\n{describe_columns(tables)}"
    return text
