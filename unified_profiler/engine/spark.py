"""The engine for runs that lie on a cluster or outgrow a machine: Apache Spark, in this process or far away.

pyspark is imported and Spark started when the first query needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import pyarrow as pa

from unified_profiler.engine.contract import checked, each_here, plain_types, time_limit
from unified_profiler.engine.protocol import EngineTable
from unified_profiler.engine.source import Events, Files, files_of
from unified_profiler.engine.spark_errors import engine_errors, query_errors
from unified_profiler.engine.spark_guard import check_query
from unified_profiler.engine.spark_needs import check_master
from unified_profiler.engine.spark_session import LOCAL, quiet, running, started
from unified_profiler.errors import EngineError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.schema import EVENT_SCHEMA, schema_of
from unified_profiler.model.trace import Trace

if TYPE_CHECKING:
    from typing_extensions import Self

_OnTrace: TypeAlias = Callable[[pa.Table], pa.Table]
_FILE = "_trace_file"
_PATTERN = re.compile(r"([\\*?\[\]{}])")


@checked_keywords
class SparkEngine:
    """Executes queries with Spark, over the same SQL and with the same results as the embedded DuckDB.

    A process has one Spark: where one is running, it is used. What this engine started ends with `close()`, or with
    the `with` block; a session that was given or running is left alone, and its own views and settings are not seen.

    Args:
        session_or_master: A `SparkSession`; the address of a master, `spark://host:port`; or `local[4]` for four
            cores of this machine. All cores of this machine if not given.

    Raises:
        EngineError: pyspark or Java is not installed, or nobody answers at the address.

    Example:
        >>> with SparkEngine("spark://10.0.0.5:7077") as engine:
        ...     run = read("hdfs://name-node/profile/run", engine=engine)
        ...     print(op_table(run, engine=engine))
    """

    def __init__(self, session_or_master: Any = None) -> None:
        self._given = session_or_master
        self._mine: Any | None = None
        self._one_at_a_time = Lock()
        if session_or_master is None or isinstance(session_or_master, str):
            check_master(session_or_master or LOCAL)
        elif not hasattr(session_or_master, "_jsparkSession"):
            msg = (
                f"Expected a SparkSession, spark://host:port or local[4]; found {type(session_or_master).__name__}. "
                "A session of Spark Connect does not do: give the address of the master instead."
            )
            raise EngineError(msg)

    def each_trace(
        self,
        traces: Sequence[Trace],
        function: _OnTrace,
        *,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> EngineTable:
        """Apply a function to each trace: where its file is read, or here if it is in memory."""
        here = [trace for trace in traces if trace.file is None]
        work = _work(function, columns, schema)
        with quiet(), engine_errors():
            found = [self._beside(batch, work, columns, schema) for batch in _batches(files_of(traces))]
            if here or not found:
                found.append(self._frame(each_here(here, function, columns=columns, schema=schema)))
            return reduce(lambda one, other: one.unionAll(other), found)

    def run(self, sql: str, *, tables: Mapping[str, EngineTable], timeout: float | None = None) -> pa.Table:
        """Return the rows that the query selects from the tables.

        Raises:
            QueryError: The query is wrong, is no SELECT, reaches for something else than the tables, or takes too long.
            EngineError: Spark failed.
        """
        text = checked(sql)
        with (
            self._one_at_a_time,
            quiet(),
            query_errors(tables),
            self._views(tables) as session,
            _jobs_within(timeout, session.sparkContext),
        ):
            check_query(session, text, tables)
            return plain_types(session.sql(text).toArrow())

    def files(self, pattern: str) -> dict[str, bytes]:
        """Return the content of the small files that a url with * in it stands for, by their urls.

        Raises:
            EngineError: Spark cannot read there.
        """
        from pyspark.errors import AnalysisException

        with quiet(), engine_errors():
            try:
                read = self._session.read.format("binaryFile").load(pattern)
            except AnalysisException as error:
                if error.getCondition() == "PATH_NOT_FOUND":
                    return {}
                raise
            found = read.select("path", "content").toArrow().to_pydict()
            return dict(zip(found["path"], found["content"], strict=True))

    def close(self) -> None:
        """Stop Spark, if this engine started it."""
        if self._mine is not None:
            self._mine.stop()
            self._mine = None
            del self._session

    def __enter__(self) -> Self:
        """Give the engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop Spark, if this engine started it."""
        self.close()

    @cached_property
    def _session(self) -> Any:
        """A session beside the given or running one: with views and settings of its own."""
        session = self._given if not (self._given is None or isinstance(self._given, str)) else self._found()
        own = session.newSession()
        own.conf.set("spark.sql.runSQLOnFiles", "false")
        own.conf.set("spark.sql.ansi.enabled", "true")
        return own

    def _found(self) -> Any:
        session = running()
        if session is None:
            session = self._mine = started(self._given or LOCAL)
        elif self._given not in {None, session.sparkContext.master}:
            msg = (
                f"This process runs Spark at {session.sparkContext.master} already, and can have only one; "
                f"{self._given} was asked for. Stop the first, or use it: SparkEngine()."
            )
            raise EngineError(msg)
        return session

    def _beside(self, files: Files, work: _OnTrace, columns: Sequence[str], schema: pa.Schema) -> Any:
        """Apply a function to the rows of each file, in a process beside them."""
        from pyspark.sql.functions import col

        read = self._read(files).select(*dict.fromkeys(["id", *columns]), col("_metadata.file_path").alias(_FILE))
        return read.groupBy(_FILE).applyInArrow(work, _spark_schema(schema))

    def _read(self, files: Files) -> Any:
        from pyspark.sql.functions import expr

        read = self._session.read.schema(_spark_schema(EVENT_SCHEMA)).parquet(*map(_place, files.places))
        return read.withColumn("start_ns", expr(files.start_ns))

    @contextmanager
    def _views(self, tables: Mapping[str, EngineTable]) -> Iterator[Any]:
        """Make the tables known by their names, for one query."""
        try:
            for name, table in tables.items():
                self._frame(table).createOrReplaceTempView(name)
            yield self._session
        finally:
            for name in tables:
                self._session.catalog.dropTempView(name)

    def _frame(self, table: EngineTable) -> Any:
        """Return a table as Spark has it."""
        if isinstance(table, pa.Table):
            plain = table.cast(_without_dictionaries(table.schema))
            return self._session.createDataFrame(plain.combine_chunks())  # of several chunks it may take the first only
        if not isinstance(table, Events):
            return table
        parts = [self._read(batch) for batch in _batches(table.files())]
        in_memory = table.in_memory()
        if len(in_memory) or not parts:
            parts.append(self._frame(in_memory))
        return reduce(lambda one, other: one.unionAll(other), parts)


@contextmanager
def _jobs_within(timeout: float | None, context: Any) -> Iterator[None]:
    """Cancel the jobs that this thread starts in a block, and no others, when they take too long."""
    tag = f"unified_profiler-{uuid4()}"
    context.addJobTag(tag)
    try:
        with time_limit(timeout, lambda: context.cancelJobsWithTag(tag)):
            yield
    finally:
        context.removeJobTag(tag)


def _work(function: _OnTrace, columns: Sequence[str], schema: pa.Schema) -> _OnTrace:
    """Return what is done to the rows of a trace in a worker, where they come in any order and without dictionaries."""
    seen, given = schema_of(columns), _without_dictionaries(schema)

    def apply(rows: pa.Table) -> pa.Table:
        return function(rows.sort_by("id").select(seen.names).cast(seen)).cast(given)

    return apply


def _place(file: Path | str) -> str:
    """Return where Spark finds a file, with what it would take for a pattern in the name made harmless."""
    url = file if isinstance(file, str) else f"file://{file.absolute()}"
    return _PATTERN.sub(r"\\\1", url)


def _batches(files: Iterable[Files]) -> Iterator[Files]:
    """Yield batches that name no file twice: the rows of a file are one group."""
    for each in files:
        left = list(each.places)
        while left:
            batch = list(dict.fromkeys(left))
            yield Files(batch, each.start_ns)
            for place in batch:
                left.remove(place)


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema([pa.field(field.name, kind) for field, kind in zip(schema, kinds, strict=True)])


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_without_dictionaries(schema))
