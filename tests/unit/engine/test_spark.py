"""Spark does what DuckDB does. All tests with Spark are here: it takes seconds to start, and a process has only one."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

import unified_profiler as up
from unified_profiler.cli.app import app
from unified_profiler.delivery.run_writer import save_clocks
from unified_profiler.engine import Engine, Events
from unified_profiler.errors import EngineError, QueryError, TraceFormatError
from unified_profiler.installation import install_command
from unified_profiler.model.schema import schema_of
from unified_profiler.model.storage import read_parquet, write_parquet
from unified_profiler.model.trace import Trace
from unified_profiler.testing import TraceBuilder
from unified_profiler.testing.fleets import Fleet, HostClock, Straggler

GOLDEN = Path(__file__).parents[2] / "golden"
COUNT = pa.schema({"first": pa.string(), "events": pa.int64()})


@pytest.fixture(scope="module")
def spark() -> Iterator[up.SparkEngine]:
    """Spark on two cores, started by the engine itself."""
    with pytest.MonkeyPatch.context() as patch:
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # the process is too short-lived for more
        options = f'--driver-memory 1g --driver-java-options "{java}" --conf spark.sql.shuffle.partitions=2'
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{options} pyspark-shell")
        try:
            engine = up.SparkEngine("local[2]")
        except EngineError as error:
            pytest.skip(f"THE TESTS WITH SPARK DO NOT RUN: {error}")
        with engine:
            engine.run("select 1 as a", tables={})
            yield engine


# --- the same answers -----------------------------------------------------------------------------------------------


def _recorded(folder: Path) -> up.Run:
    """Record a real training of two cycles, on disk."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    plan = up.schedule(wait=0, warmup=0, active=1, repeat=2)
    with up.Profiler(schedule=plan, output_dir=folder, backend="torch", record_shapes=True, api=True) as profiler:
        for _ in range(3):
            with profiler.region("forward"):
                loss = model(torch.randn(4, 16)).sum()
            loss.backward()
            profiler.step()
    return up.read(folder)


def _foreign(folder: Path) -> up.Run:
    """Traces in memory of which two are of the same rank and cycle."""
    files = ("kineto/alexnet_cuda.json.gz", "kineto/mi250_train.json.gz", "mindspore/made_up_ascend_ms")
    return up.Run(traces=tuple(up.read(GOLDEN / name).traces[0] for name in files))


def _many_ranks(folder: Path) -> up.Run:
    for rank in range(3):
        for cycle in range(2):
            builder = TraceBuilder(rank=rank, cycle=cycle, world_size=3)
            builder.step(0, 0, 1000).step(1, 1000, 1000).region("forward", 10, 500 + rank).region("l'été 日本", 600, 9)
            builder.op("outer", 10, 400).op("inner", 20, 100 + rank, flops=7, device="cpu:0").op("inner", 900, 400)
            builder.op("reduce", 300, 500 + cycle, kind="collective", tid=2).op(
                "move", 1500, 100, kind="copy", op="Copy"
            )
            target = folder / f"rank-{rank:05d}" / f"cycle-{cycle:05d}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            write_parquet(builder.build(), target)
    return up.read(folder)


@pytest.fixture(scope="module", params=[_recorded, _foreign, _many_ranks])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> up.Run:
    found: up.Run = request.param(tmp_path_factory.mktemp("run"))
    return found


Analysis = Callable[[up.Run, Engine], Any]
QUERY = """
    select rank, kind, direction, count(*) as calls, sum(self_ns) as self_ns, avg(duration_ns) as mean_ns,
        min(depth) as depth,
        round(percentile_cont(0.95) within group (order by duration_ns), 2) as p95_ns, median(duration_ns) as median_ns,
        max_by(name, duration_ns * 1000000 + id) as longest, cast(max(start_ns) as bigint) as last_ns
    from events group by rank, kind, direction
    order by rank nulls last, kind, direction nulls last
"""
ANALYSES: dict[str, Analysis] = {
    "op_table": lambda run, engine: up.op_table(run, engine=engine),
    "op_table of categories": lambda run, engine: up.op_table(
        run, by=("category", "direction", "step", "rank"), sort_by="call_count", engine=engine
    ),
    "op_table of shapes": lambda run, engine: up.op_table(
        run, by=("shapes", "device", "thread"), sort_by="name", row_limit=7, regions=True, engine=engine
    ),
    "api_table": lambda run, engine: up.api_table(run, engine=engine),
    "step_breakdown": lambda run, engine: up.step_breakdown(run, engine=engine),
    "device_table": lambda run, engine: up.device_table(run, engine=engine),
    "device_table of streams": lambda run, engine: up.device_table(run, by="stream", engine=engine).devices,
    "gap_table": lambda run, engine: up.gap_table(run, row_limit=None, engine=engine),
    "launch_table": lambda run, engine: up.launch_table(run, engine=engine),
    "queue_table": lambda run, engine: up.queue_table(run, engine=engine),
    "copy_table": lambda run, engine: up.copy_table(run, engine=engine),
    "collective_table": lambda run, engine: up.collective_table(run, engine=engine),
    "kernel_table": lambda run, engine: up.kernel_table(run, engine=engine),
    "kernel_sequences": lambda run, engine: up.kernel_sequences(run, engine=engine),
    "query of device work": lambda run, engine: up.query(
        run,
        "select class, count(*) as n, sum(delay_ns) as ns from device_work group by class order by 1",
        engine=engine,
    ),
    "query of gaps": lambda run, engine: up.query(
        run,
        "select rank, cause, count(*) as n, sum(duration_ns) as ns from device_gaps group by rank, cause order by 1, 2",
        engine=engine,
    ),
    "query of streams": lambda run, engine: up.query(
        run,
        "select rank, stream, cause, sum(duration_ns) as ns from stream_gaps group by rank, stream, cause "
        "order by 1, 2, 3",
        engine=engine,
    ),
    "query of queues": lambda run, engine: up.query(
        run,
        "select rank, stream, count(*) as n, max(length) as longest from launch_queue group by rank, stream "
        "order by 1, 2",
        engine=engine,
    ),
    "critical_path": lambda run, engine: up.critical_path(run, engine=engine),
    "what_if": lambda run, engine: up.what_if(run, {"gap": 0.5, "op": 2}, engine=engine),
    "query": lambda run, engine: up.query(run, QUERY, engine=engine),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_both_engines_give_the_same(name: str, run: up.Run, spark: up.SparkEngine) -> None:
    expected, found = ANALYSES[name](run, up.DuckDBEngine()), ANALYSES[name](run, spark)
    assert found.table.schema.equals(expected.table.schema), f"{found.table.schema}\n\n{expected.table.schema}"
    assert found.table.to_pylist() == expected.table.to_pylist()
    assert (found.headings, found.footer, found.sorted_by) == (expected.headings, expected.footer, expected.sorted_by)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of four machines with clocks of their own, of which one becomes slow."""
    slow = Straggler(rank=2, since=30, extra_ns=4_000_000, operator="layer_3")
    clocks = {1: HostClock(offset_ns=1_000_000_000, drift=1e-5), 3: HostClock(offset_ns=-70_000_000)}
    fleet = Fleet(ranks=4, steps=60, outer_ops=5, stragglers=[slow], clocks=clocks)
    return fleet.write(tmp_path_factory.mktemp("apart"))


def test_both_engines_find_the_same_slow_rank_and_the_same_clocks(apart: Path, spark: up.SparkEngine) -> None:
    expected, found = up.rank_table(up.read(apart)), up.rank_table(up.read(apart), engine=spark)
    assert found.table.equals(expected.table)
    assert found.ranks.table.equals(expected.ranks.table)
    assert (found.stragglers, found.clocks) == (expected.stragglers, expected.clocks)
    assert found.footer == expected.footer
    assert [each.rank for each in found.stragglers] == [2]


def test_both_engines_correct_clocks_when_they_read(apart: Path, spark: up.SparkEngine, tmp_path: Path) -> None:
    shutil.copytree(apart, tmp_path / "run")
    aligned = up.align_clocks(up.read(tmp_path / "run"), engine=spark)
    assert aligned.clocks == up.align_clocks(up.read(apart)).clocks
    save_clocks(aligned, aligned.clocks)
    sql = "select rank, step, name, start_ns, self_ns from events order by rank, id"
    in_memory = pa.concat_tables([trace.events for trace in aligned.traces]).column("start_ns")
    for engine in (up.DuckDBEngine(), spark):
        for place in (tmp_path / "run", (tmp_path / "run").as_uri()):
            run = up.read(place, engine=engine)
            assert run.clocks == aligned.clocks
            assert up.query(run, sql, engine=engine).table.column("start_ns").to_pylist() == in_memory.to_pylist()
            assert up.rank_table(run, engine=engine).stragglers[0].since == 30


def test_all_columns_of_all_events_are_the_same(run: up.Run, spark: up.SparkEngine) -> None:
    sql = "select * from events order by rank, cycle, start_ns, id, name, duration_ns"
    expected, found = up.query(run, sql).to_arrow(), up.query(run, sql, engine=spark).to_arrow()
    assert len(expected) == sum(map(len, run.traces)) > 0
    assert found.equals(expected)


def test_a_run_without_traces_has_empty_tables(spark: up.SparkEngine) -> None:
    nothing = up.Run(traces=())
    for analysis in (up.op_table, up.api_table, up.step_breakdown, up.critical_path):
        expected, found = analysis(nothing), analysis(nothing, engine=spark)
        assert found.table.equals(expected.table)
        assert found.footer == expected.footer


# --- each trace by itself -------------------------------------------------------------------------------------------


def _counted(engine: Engine, traces: list[Trace]) -> list[tuple[str, int]]:
    """Count events in workers, which also look at what they are given."""
    columns = ("name", "parent_id", "id", "depth")
    expected = schema_of(columns)

    def count(events: pa.Table) -> pa.Table:
        assert events.schema.equals(expected)
        assert events.column("id").to_pylist() == list(range(len(events)))
        return pa.table({"first": [events.column("name")[0].as_py()], "events": [len(events)]})

    table = engine.each_trace(traces, count, columns=columns, schema=COUNT)
    found = engine.run("select first, events from t order by first, events", tables={"t": table})
    return [(row["first"], row["events"]) for row in found.to_pylist()]


def _file(folder: Path, name: str, events: int) -> Trace:
    builder = TraceBuilder()
    for number in range(events):
        builder.op(name, number * 10, 10)
    target = folder / f"{name}.parquet"
    write_parquet(builder.build(), target)
    return read_parquet(target)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory whose name is a pattern, a url with escapes, a partition and a quotation, if taken for one."""
    folder = tmp_path / "it's [1] {a} 100%20 k=v"
    folder.mkdir()
    return folder


def test_traces_are_never_mixed_up(odd: Path, spark: up.SparkEngine) -> None:
    one, two = _file(odd, "one", 3), _file(odd, "two", 40_000)
    in_memory = TraceBuilder().op("three", 0, 1).build()
    traces = [one, two, one, in_memory, in_memory]
    expected = [("one", 3), ("one", 3), ("three", 1), ("three", 1), ("two", 40_000)]
    assert _counted(spark, traces) == _counted(up.DuckDBEngine(), traces) == expected


def test_a_file_that_is_given_twice_is_read_twice(odd: Path, spark: up.SparkEngine) -> None:
    trace = _file(odd, "one", 3)
    for engine in (spark, up.DuckDBEngine()):
        found = engine.run("select count(*) as n from events", tables={"events": Events((trace, trace))})
        assert found.to_pylist() == [{"n": 6}]


def test_an_error_in_a_worker_is_told(odd: Path, spark: up.SparkEngine) -> None:
    def fail(events: pa.Table) -> pa.Table:
        msg = "no such luck"
        raise ValueError(msg)

    table = spark.each_trace([_file(odd, "one", 3)], fail, columns=["name"], schema=COUNT)
    with pytest.raises(EngineError, match=r"^Spark failed: ValueError: no such luck$"):
        spark.run("select * from t", tables={"t": table})


def test_a_file_that_is_gone_is_told(odd: Path, spark: up.SparkEngine) -> None:
    trace = _file(odd, "one", 3)
    shutil.rmtree(odd)
    with pytest.raises(EngineError, match=r"Path does not exist: .*one\.parquet"):
        up.query(trace, "select 1 from events", engine=spark)
    with pytest.raises(TraceFormatError, match=r"cannot be read: .*one\.parquet"):
        up.query(trace, "select 1 from events")


# --- nothing but the tables -----------------------------------------------------------------------------------------

OUTSIDE = [
    "select * from parquet.`{secret}`",
    "select * from text.`{secret}`",
    "select * from `{secret}`",
    "select id in (select value from text.`{secret}`) from events",
    "select java_method('java.lang.System', 'getenv', 'HOME')",
    "select system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "select try_reflect('java.lang.System', 'getenv', 'HOME')",
    "select identifier('java_' || 'method')('java.lang.System', 'getenv', 'HOME')",
    "select * from events where exists (select java_method('java.lang.System', 'getenv', 'HOME'))",
    "select sum(id) over w from events window w as (partition by reflect('java.lang.System', 'getenv', 'HOME'))",
    "with t as (select reflect('java.lang.System', 'getenv', 'HOME') as a) select * from t",
    "select input_file_name() from events",
    "select transform(id) using 'cat {secret}' as (line) from events",
    "select * from global_temp.shared",
    "select * from identifier('global_temp.shared')",
    "select * from mine",
    "select * from spark_catalog.default.shared",
    "select * from read_files('{secret}')",
]


@pytest.fixture(scope="module")
def users(spark: up.SparkEngine) -> Iterator[Any]:
    """The user's own session, with views that no query may see."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or spark._session
    session.range(3).createGlobalTempView("shared")
    session.range(3).createTempView("mine")
    yield session
    session.catalog.dropGlobalTempView("shared")
    session.catalog.dropTempView("mine")


@pytest.mark.parametrize("sql", OUTSIDE)
def test_nothing_outside_the_tables_can_be_read(
    sql: str, trace: Trace, users: Any, spark: up.SparkEngine, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("classified")
    with pytest.raises(QueryError) as caught:
        up.query(trace, sql.format(secret=secret), engine=spark)
    assert "classified" not in str(caught.value)


STATEMENTS = [
    "create table t as select 1 as a",
    "create temporary view v as select 1 as a",
    "insert into events select * from events",
    "with t as (select 1 as a) insert into events select a from t",
    "insert overwrite directory '{target}' using csv select 1 as a",
    "execute immediate 'create temporary view v as select 1 as a'",
    "begin create temporary view v as select 1 as a; end",
    "declare x = 1",
    "set spark.sql.runSQLOnFiles = true",
    "add jar '{target}'",
    "cache table events",
    "drop view events",
    "explain select 1",
    "show tables",
    "select 1; select 2",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_nothing_can_be_done_but_selecting(sql: str, trace: Trace, spark: up.SparkEngine, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(QueryError):
        up.query(trace, sql.format(target=target), engine=spark)
    assert not target.exists()
    assert "v" not in {table.name for table in spark._session.catalog.listTables()}
    assert spark._session.conf.get("spark.sql.runSQLOnFiles") == "false"


ALLOWED = {
    "with events as (select 1 as a) select a from events": 1,
    "with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select max(n) as n from r": 3,
    "select count(*) as n from EVENTS e where e.id in (select max(id) from events)": 1,
    "select count(*) as n from events where exists (select 1 from events where id = 2)": 3,
    "select max(id) as n from range(5)": 4,
    "select sum(x) as n from (values (1), (2)) as t(x)": 3,
    "select max(r) as n from (select row_number() over (order by id) as r from events)": 3,
    "select count(*) as n from events lateral view explode(array(1, 2)) t as x": 6,
}


@pytest.mark.parametrize("sql", ALLOWED)
def test_anything_can_be_selected_from_the_tables(sql: str, trace: Trace, spark: up.SparkEngine) -> None:
    assert up.query(trace, sql, engine=spark).rows[0][0] == ALLOWED[sql]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select nme from events", r"(?s)`nme` cannot be resolved.*columns of events are: id, parent_id, name"),
        ("select * from evnts", r"(?s)`evnts` cannot be found.*The tables are: events\."),
        ("selec name from events", r"(?s)Syntax error at or near 'selec'.*line 1"),
        ("select 1 / 0", "Division by zero"),
        ("select java_method('java.lang.System', 'getenv', 'HOME')", "sees the tables events and nothing outside them"),
        ("show tables", "must be a single SELECT"),
        (None, "must be text; found NoneType"),
    ],
)
def test_what_is_wrong_with_a_query_is_told(
    sql: Any, said: str, trace: Trace, spark: up.SparkEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError, match=said) as caught:
        up.query(trace, sql, engine=spark)
    assert "\tat " not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_query_is_stopped_at_its_time_limit(trace: Trace, spark: up.SparkEngine) -> None:
    endless = "select sum(a.id * b.id) as s from range(10000000) a, range(10000000) b"
    with pytest.raises(QueryError, match=r"stopped after 2 s, its time limit"):
        up.query(trace, endless, engine=spark, timeout=2)
    assert up.query(trace, "select count(*) as n from events", engine=spark, timeout=600).rows[0].n == len(trace)


# --- runs at a url --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = up.DuckDBEngine() if request.param == "duckdb" else request.getfixturevalue("spark")
    return found


def _profiled(folder: Path) -> up.Run:
    for _ in range(2):
        with up.Profiler(
            output_dir=folder, backend=[], schedule=lambda step: up.Phase(["idle", "record"][step % 2])
        ) as profiler:
            for _ in range(4):
                profiler.step()
    return up.read(folder)


def test_a_run_at_a_url_is_the_run(tmp_path: Path, engine: Engine) -> None:
    expected = _profiled(tmp_path / "a place")
    assert expected.path is not None
    found = up.read(expected.path.as_uri(), engine=engine)
    assert [trace.info for trace in found.traces] == [trace.info for trace in expected.traces]
    assert [trace.file for trace in found.traces] == [f"file://{trace.file}" for trace in expected.traces]
    assert found.manifests == expected.manifests
    assert found.steps is not None
    assert found.steps.equals(expected.steps)
    assert up.step_breakdown(found, engine=engine).rows == up.step_breakdown(expected).rows
    assert found.traces[0].events.equals(expected.traces[0].events)


def test_of_several_runs_at_a_url_the_last_is_taken(tmp_path: Path, engine: Engine) -> None:
    expected = _profiled(tmp_path)
    found = up.read(f"file://{tmp_path}/", engine=engine)
    assert found.url == f"file://{expected.path}"
    assert len(found.traces) == len(expected.traces) == 2
    assert repr(found) == f"<Run file://{expected.path}: 2 traces of 1 rank>"


def test_a_url_without_a_run_is_told(tmp_path: Path, engine: Engine) -> None:
    with pytest.raises(TraceFormatError, match=r"holds no run\. Expected the URL of a run directory"):
        up.read(f"file://{tmp_path}", engine=engine)


def test_places_out_of_reach_are_told(spark: up.SparkEngine) -> None:
    with pytest.raises(EngineError, match=r"reads only files of this machine.*Read it with SparkEngine"):
        up.read("hdfs://name-node/profile")
    with pytest.raises(EngineError, match=r"(?s)Spark failed: .*No FileSystem for scheme .nowhere"):
        up.read("nowhere://name-node/profile", engine=spark)


# --- sessions -------------------------------------------------------------------------------------------------------


def test_a_given_session_is_used_and_left_alone(users: Any, trace: Trace) -> None:
    with up.SparkEngine(users) as engine:
        assert up.query(trace, "select count(*) as n from events", engine=engine).rows[0].n == 3
    assert users.sql("select count(*) as n from mine").collect()[0].n == 3
    assert "events" not in {table.name for table in users.catalog.listTables()}


def test_a_running_spark_is_used_and_left_alone(spark: up.SparkEngine, trace: Trace) -> None:
    for master in (None, "local[2]"):
        with up.SparkEngine(master) as engine:
            assert up.query(trace, "select count(*) as n from events", engine=engine).rows[0].n == 3
    assert spark.run("select 1 as a", tables={}).to_pylist() == [{"a": 1}]


def test_a_second_spark_is_refused(spark: up.SparkEngine, trace: Trace) -> None:
    with pytest.raises(EngineError, match=r"already runs Spark at local\[2\].*local\[1\] was requested"):
        up.query(trace, "select 1", engine=up.SparkEngine("local[1]"))


def test_something_that_is_no_session_is_refused() -> None:
    with pytest.raises(EngineError, match=r"Expected a SparkSession, .* found int"):
        up.SparkEngine(7)


# --- what must be there ---------------------------------------------------------------------------------------------


def test_no_pyspark_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unified_profiler.engine.spark_needs.find_spec", lambda name: None)
    with pytest.raises(EngineError, match=re.escape(install_command("spark"))):
        up.SparkEngine()


def test_no_java_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"no java on the PATH\. Install it, .*apt-get install default-jre-headless"):
        up.SparkEngine()


def test_a_wrong_java_home_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=rf"JAVA_HOME is {tmp_path}, which contains no bin/java"):
        up.SparkEngine()


@pytest.mark.usefixtures("spark")
def test_a_master_that_does_not_answer_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=rf"No Spark master answers at {address}: .*refused"):
            up.SparkEngine(address)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("address", ["spark://", "spark://host", "spark://host:port", "spark://a:1/b"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(EngineError, match="must be spark://host:port"):
        up.SparkEngine(address)


# --- the command line -----------------------------------------------------------------------------------------------


def _printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("command", ["table", "table --api", "steps", "query"])
def test_commands_print_the_same_with_both_engines(command: str, tmp_path: Path) -> None:
    _many_ranks(tmp_path)
    name, *options = command.split()
    words = [name, str(tmp_path), *options, *(["select count(*) as n from events"] if name == "query" else [])]
    assert _printed(*words, "--engine", "spark") == _printed(*words, "--engine", "duckdb") == _printed(*words)


def test_an_engine_that_there_is_not_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["query", str(tmp_path), "select 1", "--engine", "sprak"])
    assert result.exit_code == 2
    assert "must be duckdb, spark, local[4] or spark://host:port; found 'sprak'" in result.stderr
