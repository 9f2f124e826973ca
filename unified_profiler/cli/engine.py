"""The option by which commands are told what computes."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.errors import EngineError

if TYPE_CHECKING:
    from unified_profiler.engine import Engine

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="What computes: duckdb (default), spark for Spark on this machine, or a cluster: spark://10.0.0.5:7077.",
    ),
]


def engine_of(text: str | None) -> Engine:
    """Return the engine that is asked for; what it starts ends with the process.

    Raises:
        EngineError: There is none of that name, or it cannot be had.
    """
    from unified_profiler.engine import DuckDBEngine, SparkEngine

    if text is None or text == "duckdb":
        return DuckDBEngine()
    if text != "spark" and not text.startswith(("spark://", "local[")):
        msg = f"`--engine` must be duckdb, spark, local[4] or spark://host:port; found {text!r}."
        raise EngineError(msg)
    engine = SparkEngine(None if text == "spark" else text)
    atexit.register(engine.close)
    return engine
