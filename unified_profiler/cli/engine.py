"""Options that select the query engine and limit its memory."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.errors import ConfigurationError, EngineError

if TYPE_CHECKING:
    from unified_profiler.engine import Engine

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Query engine: duckdb (default), spark for Spark on this machine, or a cluster: spark://10.0.0.5:7077.",
    ),
]

MemoryLimitOption = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Maximum memory of DuckDB, such as 4GB.",
        show_default="40 % of the machine's",
    ),
]


def engine_of(text: str | None, *, memory_limit: str | None = None) -> Engine:
    """Return the selected engine, which is closed when the process ends.

    Raises:
        EngineError: There is no engine of this name, or it is not available.
        ConfigurationError: The memory limit is not a size, or the engine is Spark, which has its own limit.
    """
    from unified_profiler.engine import DuckDBEngine, SparkEngine

    if text is None or text == "duckdb":
        return DuckDBEngine(memory_limit=memory_limit)
    if text != "spark" and not text.startswith(("spark://", "local[")):
        msg = f"`--engine` must be duckdb, spark, local[4] or spark://host:port; found {text!r}."
        raise EngineError(msg)
    if memory_limit is not None:
        msg = "`--memory-limit` is for DuckDB. Set the memory of Spark where it is started: spark.driver.memory."
        raise ConfigurationError(msg)
    engine = SparkEngine(None if text == "spark" else text)
    atexit.register(engine.close)
    return engine
