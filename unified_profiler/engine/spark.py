"""The Apache Spark engine, for runs that are stored on a cluster or too large for one machine.

The first query imports pyspark and starts Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from unified_profiler.engine.contract import checked_query, map_in_process, plain_types, time_limit
from unified_profiler.engine.protocol import EngineTable, TraceFunction
from unified_profiler.engine.source import Events, TraceFiles, files_of
from unified_profiler.engine.spark_errors import engine_errors, query_errors
from unified_profiler.engine.spark_guard import check_query
from unified_profiler.engine.spark_needs import check_master
from unified_profiler.engine.spark_session import LOCAL, quiet, running_session, start_session
from unified_profiler.errors import EngineError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.schema import EVENT_SCHEMA, schema_of
from unified_profiler.model.trace import Trace

if TYPE_CHECKING:
    from typing_extensions import Self

_FILE = "_trace_file"
_WILDCARDS = re.compile(r"([\\*?\[\]{}])")


@checked_keywords
class SparkEngine:
    """Executes queries with Spark, with the same SQL and results as the embedded DuckDB.

    A process has one Spark; if it runs already, it is used. `close()` or the end of the `with` block stops a Spark
    that this engine started. A session that was given or running keeps running, and its views and settings do not
    affect queries.

    Args:
        session_or_master: A `SparkSession`; the address of a master, `spark://host:port`; or `local[4]` for four
            cores of this machine. All cores of this machine by default.

    Raises:
        EngineError: pyspark or Java is not installed, or no master answers at the address.

    Example:
        >>> with SparkEngine("spark://10.0.0.5:7077") as engine:
        ...     run = read("hdfs://name-node/profile/run", engine=engine)
        ...     print(op_table(run, engine=engine))
    """

    def __init__(self, session_or_master: Any = None) -> None:
        self._given = session_or_master
        self._started: Any | None = None
        self._query_lock = Lock()
        if session_or_master is None or isinstance(session_or_master, str):
            check_master(session_or_master or LOCAL)
        elif not hasattr(session_or_master, "_jsparkSession"):
            msg = (
                f"Expected a SparkSession, spark://host:port or local[4]; found {type(session_or_master).__name__}. "
                "A session of Spark Connect is not supported: pass the address of the master instead."
            )
            raise EngineError(msg)

    def each_trace(
        self, traces: Sequence[Trace], function: TraceFunction, *, columns: Sequence[str], schema: pa.Schema
    ) -> EngineTable:
        """Apply a function to each trace: in a Spark worker, or in this process if it is in memory."""
        in_memory = [trace for trace in traces if trace.file is None]
        work = _worker_function(function, columns, schema)
        with quiet(), engine_errors():
            frames = [self._map_files(batch, work, columns, schema) for batch in _batches(files_of(traces))]
            if in_memory or not frames:
                frames.append(self._frame(map_in_process(in_memory, function, columns=columns, schema=schema)))
            return reduce(_union, frames)

    def run(self, sql: str, *, tables: Mapping[str, EngineTable], timeout: float | None = None) -> pa.Table:
        """Return the rows that the query selects from the tables.

        Raises:
            QueryError: The query is invalid, is not a SELECT, accesses anything but the tables, or takes too long.
            EngineError: Spark failed.
        """
        text = checked_query(sql)
        with (
            self._query_lock,
            quiet(),
            query_errors(tables),
            self._views(tables) as session,
            _job_time_limit(timeout, session.sparkContext),
        ):
            check_query(session, text, tables)
            return plain_types(session.sql(text).toArrow())

    def files(self, pattern: str) -> dict[str, bytes]:
        """Return the content of the small files that match a URL with wildcards, by URL.

        Raises:
            EngineError: Spark cannot read from there.
        """
        from pyspark.errors import AnalysisException

        with quiet(), engine_errors():
            try:
                read = self._session.read.format("binaryFile").load(pattern)
            except AnalysisException as error:
                if error.getCondition() == "PATH_NOT_FOUND":
                    return {}
                raise
            columns = read.select("path", "content").toArrow().to_pydict()
            return dict(zip(columns["path"], columns["content"], strict=True))

    def close(self) -> None:
        """Stop Spark, if this engine started it."""
        if self._started is not None:
            self._started.stop()
            self._started = None
            del self._session

    def __enter__(self) -> Self:
        """Return the engine itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop Spark, if this engine started it."""
        self.close()

    @cached_property
    def _session(self) -> Any:
        """A session with its own views and settings, derived from the given or running one."""
        session = self._running_or_started() if self._given is None or isinstance(self._given, str) else self._given
        own = session.newSession()
        own.conf.set("spark.sql.runSQLOnFiles", "false")
        own.conf.set("spark.sql.ansi.enabled", "true")
        return own

    def _running_or_started(self) -> Any:
        session = running_session()
        if session is None:
            session = self._started = start_session(self._given or LOCAL)
        elif self._given not in {None, session.sparkContext.master}:
            msg = (
                f"This process already runs Spark at {session.sparkContext.master} and can have only one; "
                f"{self._given} was requested. Stop the first, or use it: SparkEngine()."
            )
            raise EngineError(msg)
        return session

    def _map_files(self, files: TraceFiles, work: TraceFunction, columns: Sequence[str], schema: pa.Schema) -> Any:
        """Apply a function to the rows of each file in Spark's workers."""
        from pyspark.sql.functions import col

        read = self._read(files).select(*dict.fromkeys(["id", *columns]), col("_metadata.file_path").alias(_FILE))
        return read.groupBy(_FILE).applyInArrow(work, _spark_schema(schema))

    def _read(self, files: TraceFiles) -> Any:
        from pyspark.sql.functions import expr

        read = self._session.read.schema(_spark_schema(EVENT_SCHEMA)).parquet(*map(_escaped_url, files.paths))
        return read.withColumn("start_ns", expr(files.start_ns))

    @contextmanager
    def _views(self, tables: Mapping[str, EngineTable]) -> Iterator[Any]:
        """Register the tables as views for one query."""
        try:
            for name, table in tables.items():
                self._frame(table).createOrReplaceTempView(name)
            yield self._session
        finally:
            for name in tables:
                self._session.catalog.dropTempView(name)

    def _frame(self, table: EngineTable) -> Any:
        """Return a table as a Spark data frame."""
        if isinstance(table, pa.Table):
            plain = table.cast(_without_dictionaries(table.schema))
            return self._session.createDataFrame(plain.combine_chunks())  # it may ignore all chunks but the first
        if not isinstance(table, Events):
            return table
        parts = [self._read(batch) for batch in _batches(table.files())]
        in_memory = table.in_memory()
        if len(in_memory) or not parts:
            parts.append(self._frame(in_memory))
        return reduce(_union, parts)


@contextmanager
def _job_time_limit(timeout: float | None, context: Any) -> Iterator[None]:
    """Cancel the jobs that this thread starts in a block, and no others, when they take too long."""
    tag = f"unified_profiler-{uuid4()}"
    context.addJobTag(tag)
    try:
        with time_limit(timeout, lambda: context.cancelJobsWithTag(tag)):
            yield
    finally:
        context.removeJobTag(tag)


def _worker_function(function: TraceFunction, columns: Sequence[str], schema: pa.Schema) -> TraceFunction:
    """Wrap a function for a worker, where the rows of a trace arrive in any order and without dictionaries."""
    input_schema, output_schema = schema_of(columns), _without_dictionaries(schema)

    def apply(rows: pa.Table) -> pa.Table:
        return function(rows.sort_by("id").select(input_schema.names).cast(input_schema)).cast(output_schema)

    return apply


def _union(first: Any, second: Any) -> Any:
    return first.unionAll(second)


def _escaped_url(file: Path | str) -> str:
    url = file if isinstance(file, str) else f"file://{file.absolute()}"
    return _WILDCARDS.sub(r"\\\1", url)


def _batches(groups: Iterable[TraceFiles]) -> Iterator[TraceFiles]:
    """Yield batches without repeated files, because the rows of a file are one group."""
    for files in groups:
        remaining = list(files.paths)
        while remaining:
            batch = list(dict.fromkeys(remaining))
            yield TraceFiles(batch, files.start_ns)
            for path in batch:
                remaining.remove(path)


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, types, strict=True)))


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_without_dictionaries(schema))
