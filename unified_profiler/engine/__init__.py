"""Engines that execute SQL over event tables, and the result table. Independent of the meaning of columns."""

from __future__ import annotations

from unified_profiler.engine.embedded import DuckDBEngine
from unified_profiler.engine.protocol import Engine, EngineTable
from unified_profiler.engine.result import Result
from unified_profiler.engine.source import Events, Source, tables_of, traces_of
from unified_profiler.engine.spark import SparkEngine

__all__ = [
    "DuckDBEngine",
    "Engine",
    "EngineTable",
    "Events",
    "Result",
    "Source",
    "SparkEngine",
    "tables_of",
    "traces_of",
]
