from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from unified_profiler.analysis import query
from unified_profiler.engine import DuckDBEngine
from unified_profiler.errors import QueryError, UsageError
from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import Run, read_run
from unified_profiler.model.schema import EVENT_SCHEMA, event_table
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace


def _named(name: str, *, rank: int = 0, cycle: int = 0) -> Trace:
    columns = {"name": [name], "layer": "framework", "kind": "op", "start_ns": 0, "duration_ns": 5, "pid": 1, "tid": 1}
    events = assemble([event_table(columns, rows=1)], rank=rank, cycle=cycle)
    return Trace(events, TraceInfo(rank=rank, cycle=cycle, event_count=1))


def test_selects_from_events(trace: Trace) -> None:
    result = query(trace, "select name, self_ns from events order by start_ns")
    assert [tuple(row) for row in result] == [("conv", 700), ("relu", 300), ("add", 500)]


def test_events_have_the_columns_of_the_schema(trace: Trace) -> None:
    assert query(trace, "select * from events").columns == tuple(EVENT_SCHEMA.names)


def test_a_with_statement_is_a_query(trace: Trace) -> None:
    assert query(trace, "with t as (select 1 as a) select a from t").rows[0].a == 1


def test_integers_stay_integers_when_summed(trace: Trace) -> None:
    result = query(trace, "select sum(self_ns) as total_ns from events")
    assert result.to_arrow().schema.field("total_ns").type == pa.int64()


def test_sums_too_large_for_an_integer_are_kept(trace: Trace) -> None:
    result = query(trace, "select sum(9223372036854775807) as s from events")
    assert int(result.rows[0].s) == 3 * 9223372036854775807


def test_a_run_is_the_union_of_its_traces() -> None:
    run = Run(traces=(_named("a"), _named("b", rank=1), _named("c", rank=1, cycle=1)))
    result = query(run, "select rank, cycle, name from events order by all")
    assert [tuple(row) for row in result] == [(0, 0, "a"), (1, 0, "b"), (1, 1, "c")]


def _on_disk(folder: Path) -> Run:
    for rank in (0, 1):
        file = folder / f"rank-{rank:05d}" / "cycle-00000.parquet"
        file.parent.mkdir()
        write_parquet(_named(f"op{rank}", rank=rank), file)
    return read_run(folder)


def test_a_run_on_disk_is_read(tmp_path: Path) -> None:
    result = query(_on_disk(tmp_path), "select rank, name from events order by rank")
    assert [tuple(row) for row in result] == [(0, "op0"), (1, "op1")]


def test_files_are_asked_without_being_held_in_memory(tmp_path: Path) -> None:
    run = _on_disk(tmp_path)
    assert query(run, "select count(*) as n from events").rows[0].n == 2
    assert all(trace.unread_file is not None for trace in run.traces)


def test_files_and_memory_give_the_same(tmp_path: Path) -> None:
    run, sql = _on_disk(tmp_path), "select * from events order by rank, id"
    from_files = query(run, sql).to_arrow()
    assert len(run.traces[0].events) == 1
    from_both = query(run, sql).to_arrow()
    assert len(run.traces[1].events) == 1
    assert from_files.equals(from_both)
    assert from_files.equals(query(run, sql).to_arrow())


def test_an_empty_run_has_no_events() -> None:
    assert query(Run(traces=()), "select count(*) as n from events").rows[0].n == 0


def test_steps_of_a_run_are_a_table() -> None:
    run = Run(traces=(_named("a"),), steps=pa.table({"step": [0, 1], "phase": ["idle", "record"]}))
    assert query(run, "select step from steps where phase = 'record'").rows[0].step == 1


def test_another_engine_can_execute_the_query(trace: Trace) -> None:
    class Echo(DuckDBEngine):
        def run(self, sql: str, *, tables: Mapping[str, pa.Table], timeout: float | None = None) -> pa.Table:
            return pa.table({"sql": [sql], "events": [len(tables["events"])], "timeout": [timeout]})

    row = query(trace, "select 1", engine=Echo()).rows[0]
    assert (row.sql, row.events, row.timeout) == ("select 1", 3, 60)


def test_something_that_is_no_trace_is_refused() -> None:
    with pytest.raises(UsageError, match=r"found str.*unified_profiler\.read"):
        query("profile/", "select 1")  # type: ignore[arg-type]


def test_an_unknown_column_is_answered_with_those_there_are(trace: Trace) -> None:
    with pytest.raises(QueryError, match=r'(?s)"nme" not found.*columns of events are: id, parent_id, name'):
        query(trace, "select nme from events")


def test_an_unknown_table_is_answered_with_those_there_are(trace: Trace) -> None:
    with pytest.raises(QueryError, match=r"(?s)evnts does not exist.*The tables are: events\."):
        query(trace, "select * from evnts")


def test_a_syntax_error_is_shown_with_its_place(trace: Trace) -> None:
    with pytest.raises(QueryError, match=r"(?s)syntax error.*LINE 1"):
        query(trace, "selec name from events")


def test_text_that_is_no_unicode_is_refused(trace: Trace) -> None:
    with pytest.raises(QueryError, match="valid Unicode"):
        query(trace, "select '\ud800'")


def test_something_that_is_no_text_is_refused(trace: Trace) -> None:
    with pytest.raises(QueryError, match="must be text; found NoneType"):
        query(trace, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("sql", ["", "  ", "-- nothing", "select 1; select 2"])
def test_exactly_one_statement_is_expected(trace: Trace, sql: str) -> None:
    with pytest.raises(QueryError, match="single SELECT"):
        query(trace, sql)
