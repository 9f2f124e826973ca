from __future__ import annotations

import csv
import inspect
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unified_profiler.errors import ConfigurationError, ExportError, OutputDirectoryError, UsageError
from unified_profiler.export import row_text, write_api_calls
from unified_profiler.export.compat import api_calls
from unified_profiler.export.spreadsheets import inert
from unified_profiler.model.run import Run
from unified_profiler.model.text import storable
from unified_profiler.model.trace import Trace
from unified_profiler.testing.builders import TraceBuilder

BASE = 1_790_857_026_123_456_789
TENSOR = '{"args":["Tensor[4,16] float32 cpu"],"kwargs":{"dim":"1"}}'
HEADER = ["API Name", "Total Time (ms)", "Call Number", "Start Timestamp", "Cost Time (ms)", "Arguments"]

Call = tuple[str, int, int, str | None]
"""Name, start, duration, attributes."""


def make(calls: Sequence[Call], **info: Any) -> Trace:
    builder = TraceBuilder(**info)
    for name, start, duration, attributes in calls:
        builder.op(name, BASE + start, duration, layer="api", kind="api_call", attributes=attributes)
    return builder.op("aten::relu", BASE, 1).build()


@pytest.fixture
def relu() -> Trace:
    """Calls of relu around one of add."""
    return make(
        [
            ("torch.relu", 0, 1_500_000, TENSOR),
            ("torch.add", 2_000_000, 250, '{"args":["Tensor[4] float32 cpu","1.5"]}'),
            ("torch.relu", 3_000_000, 500_007, None),
        ]
    )


def test_defaults_are_those_of_torch_wrapper(relu: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (path,) = write_api_calls(relu)
    assert path.parent == Path("output")
    assert path.suffix == ".json"
    assert inspect.signature(write_api_calls).parameters["file_max_size"].default == "128MB"


def read_json(paths: Sequence[Path]) -> list[tuple[Any, ...]]:
    """Return API, total, number, start, cost and arguments of each call, as often as the files have it."""
    return [
        (name, api["TotalTime(ms)"], int(number), call["StartTimestamp"], call["CostTime(ms)"], call["Arguments"])
        for path in paths
        for name, api in json.loads(path.read_text("utf-8"), object_pairs_hook=without_repetition).items()
        for number, call in api.items()
        if number != "TotalTime(ms)"
    ]


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found


def read_csv(paths: Sequence[Path]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            header, *body = csv.reader(file)
        assert header == HEADER
        rows += [(was(n), float(t), int(number), int(s), float(c), json.loads(a)) for n, t, number, s, c, a in body]
    return rows


def was(text: str) -> str:
    """Take the apostrophe off again that keeps spreadsheets from executing a name."""
    return text[1:] if text.startswith("'") and inert(text[1:]) == text else text


READERS: dict[str, Callable[[Sequence[Path]], list[tuple[Any, ...]]]] = {"json": read_json, "csv": read_csv}
FORMATS = pytest.mark.parametrize("form", READERS)


def expected(calls: Sequence[Call]) -> list[tuple[Any, ...]]:
    """Say in plain Python what the files must hold, in order."""
    by_start = sorted(calls, key=lambda call: call[1])
    found = []
    for name in dict.fromkeys(call[0] for call in by_start):
        own = [call for call in by_start if call[0] == name]
        total = sum(call[2] for call in own) / 1e6
        for number, (_, start, duration, attributes) in enumerate(own, 1):
            said = json.loads(attributes or "{}")
            arguments = [said.get("args", []), said.get("kwargs", {})]
            found.append((name, total, number, BASE + start, duration / 1e6, arguments))
    return found


# --- what is written --------------------------------------------------------------------------------------------


def test_json_is_the_tree_of_apis_and_their_calls(relu: Trace, tmp_path: Path) -> None:
    (path,) = write_api_calls(relu, tmp_path)
    assert json.loads(path.read_text()) == {
        "torch.relu": {
            "TotalTime(ms)": 2.000007,
            "1": {
                "detailedAPIName": "torch.relu",
                "StartTimestamp": BASE,
                "CostTime(ms)": 1.5,
                "Arguments": [["Tensor[4,16] float32 cpu"], {"dim": "1"}],
            },
            "2": {
                "detailedAPIName": "torch.relu",
                "StartTimestamp": BASE + 3_000_000,
                "CostTime(ms)": 0.500007,
                "Arguments": [[], {}],
            },
        },
        "torch.add": {
            "TotalTime(ms)": 0.00025,
            "1": {
                "detailedAPIName": "torch.add",
                "StartTimestamp": BASE + 2_000_000,
                "CostTime(ms)": 0.00025,
                "Arguments": [["Tensor[4] float32 cpu", "1.5"], {}],
            },
        },
    }


def test_csv_is_a_table_with_a_row_for_each_call(relu: Trace, tmp_path: Path) -> None:
    (path,) = write_api_calls(relu, tmp_path, format="csv")
    assert path.read_text().splitlines()[:2] == [
        ",".join(HEADER),
        f'"torch.relu",2.000007,1,{BASE},1.500000,"[[""Tensor[4,16] float32 cpu""],{{""dim"":""1""}}]"',
    ]
    assert [row[:3] for row in read_csv([path])] == [
        ("torch.relu", 2.000007, 1),
        ("torch.relu", 2.000007, 2),
        ("torch.add", 0.00025, 1),
    ]


def test_names_do_nothing_in_a_spreadsheet(tmp_path: Path) -> None:
    (path,) = write_api_calls(make([("=cmd()", 0, 5, '{"args":["=1"]}')]), tmp_path, format="csv")
    assert path.read_text().splitlines()[1].startswith('"\'=cmd()",')


def test_a_call_that_had_not_ended_says_so(tmp_path: Path) -> None:
    (path,) = write_api_calls(make([("a", 0, 5, '{"finished":false}'), ("a", 9, 1, None)]), tmp_path)
    calls = json.loads(path.read_text())["a"]
    assert calls["1"]["Finished"] is False
    assert "Finished" not in calls["2"]


@FORMATS
def test_attributes_of_another_form_are_given_as_they_are(form: str, tmp_path: Path) -> None:
    paths = write_api_calls(make([("a", 0, 5, '["x"]'), ("a", 1, 5, '{"args":[1]}')]), tmp_path, format=form)
    assert [row[-1] for row in READERS[form](paths)] == [[['["x"]'], {}], [['{"args":[1]}'], {}]]


@FORMATS
def test_a_run_holds_the_calls_of_all_ranks_and_cycles(form: str, tmp_path: Path) -> None:
    first: list[Call] = [("b", 10, 5, TENSOR), ("a", 30, 1, None)]
    second: list[Call] = [("a", 0, 7, None), ("c", 20, 1, '{"args":["other"]}'), ("b", 25, 1, TENSOR)]
    run = Run(traces=[make(first), make(second, rank=1)])
    assert READERS[form](write_api_calls(run, tmp_path, format=form)) == expected([*first, *second])


def test_the_parts_of_a_chunked_table_are_one(relu: Trace, tmp_path: Path) -> None:
    events = pa.concat_tables([relu.events.slice(0, 2), relu.events.slice(2)])
    (path,) = write_api_calls(Trace(events, relu.info), tmp_path)
    (other,) = write_api_calls(relu, tmp_path)
    assert path.read_bytes() == other.read_bytes()


# --- files of a limited size ------------------------------------------------------------------------------------


def any_text() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_characters="\0"), max_size=12).map(storable)


def any_attributes() -> st.SearchStrategy[str | None]:
    said = st.fixed_dictionaries(
        {}, optional={"args": st.lists(any_text()), "kwargs": st.dictionaries(any_text(), any_text())}
    )
    return st.none() | said.map(lambda value: json.dumps(value, ensure_ascii=False))


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["torch.relu", "torch.nn.functional.linear"]) | any_text(),
        st.integers(0, 10**9),
        st.integers(0, 10**12),
        any_attributes(),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda call: call[1],
)


def smallest_size(trace: Trace, folder: Path, form: str) -> int:
    with pytest.raises(ConfigurationError, match="`file_max_size` must be at least") as refused:
        write_api_calls(trace, folder, format=form, file_max_size=1)
    return int(re.findall(r"at least (\d+) bytes", str(refused.value))[0])


@FORMATS
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls=CALLS, room=st.integers(0, 2000))
def test_every_call_is_in_exactly_one_file_and_no_file_is_too_large(
    form: str, calls: list[Call], room: int, tmp_path: Path
) -> None:
    trace = make(calls)
    size = smallest_size(trace, tmp_path, form) + room
    paths = write_api_calls(trace, tmp_path, format=form, file_max_size=size)
    rows = READERS[form](paths)
    assert rows == expected(calls)
    assert all(path.stat().st_size <= size for path in paths)
    assert all(READERS[form]([path]) for path in paths)


@FORMATS
def test_files_are_filled_as_far_as_they_go(form: str, tmp_path: Path) -> None:
    trace = make([(f"api_{i % 3}", i, 1, TENSOR) for i in range(300)])
    size = smallest_size(trace, tmp_path, form)
    paths = write_api_calls(trace, tmp_path, format=form, file_max_size=10 * size)
    assert len(paths) > 2
    assert all(path.stat().st_size > 9 * size for path in paths[:-1])


@FORMATS
def test_the_smallest_size_gives_one_call_per_file(form: str, tmp_path: Path) -> None:
    trace = make([("a", 0, 5, None), ("a", 1, 1, None)])
    size = smallest_size(trace, tmp_path, form)
    assert len(write_api_calls(trace, tmp_path, format=form, file_max_size=size)) == 2


@FORMATS
def test_a_size_too_small_is_refused_before_anything_is_written(form: str, relu: Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"one call of torch\.relu; found 20 bytes"):
        write_api_calls(relu, tmp_path / "out", format=form, file_max_size="20B")
    assert not list(tmp_path.iterdir())


@FORMATS
def test_calls_beyond_one_block_of_text_are_written(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_text, "ROWS_PER_BLOCK", 7)
    calls: list[Call] = [(f"api_{i % 2}", i, i, TENSOR if i % 5 else None) for i in range(100)]
    paths = write_api_calls(make(calls), tmp_path, format=form, file_max_size=2000)
    assert READERS[form](paths) == expected(calls)


@pytest.mark.parametrize(
    ("size", "files"),
    [
        ("1KB", 2),
        ("0.5 KB", 4),
        ("1 kib", 1),
        ("1.5MiB", 1),
        ("128 MB", 1),
        ("99999999999999999999GB", 1),
        (1011, 2),
        (1012, 1),
    ],
)
def test_sizes_are_bytes_or_text_with_a_unit(size: str | int, files: int, tmp_path: Path) -> None:
    trace = make([("torch.relu", i, 1, '{"args":["' + "x" * 121 + '"]}') for i in range(4)])
    (whole,) = write_api_calls(trace, tmp_path, file_max_size="1GB")
    assert whole.stat().st_size == 1012
    assert len(write_api_calls(trace, tmp_path, file_max_size=size)) == files


@pytest.mark.parametrize(
    "size", ["10 bananas", "", "MB", "-1MB", "1.2.3MB", "10MB extra", 0, -1, "0KB", True, 1.5, None]
)
def test_a_size_that_is_none_is_refused(size: Any, relu: Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"`file_max_size` must be .*'10MB'.*found {re.escape(repr(size))}"):
        write_api_calls(relu, tmp_path, file_max_size=size)


# --- names and places -------------------------------------------------------------------------------------------


def test_timestamps_are_nanoseconds_of_the_export(relu: Trace, tmp_path: Path) -> None:
    before = time.time_ns()
    (path,) = write_api_calls(relu, tmp_path)
    found = re.fullmatch(r"api_calls_(\d+)_0001\.json", path.name)
    assert found
    assert before <= int(found[1]) <= time.time_ns()


def test_datetimes_are_the_local_time_of_the_export(
    relu: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = time.struct_time((2026, 1, 31, 23, 59, 59, 5, 31, 0))
    strftime = time.strftime
    monkeypatch.setattr(time, "strftime", lambda form: strftime(form, moment))
    (first,), (second,) = (write_api_calls(relu, tmp_path, file_name_spec="datetime") for _ in range(2))
    assert first.name == "api_calls_20260131-235959_0001.json"
    assert second.name == "api_calls_20260131-235959.2_0001.json"


def test_exports_of_the_same_nanosecond_have_names_of_their_own(
    relu: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 17)
    names = [path.name for _ in range(3) for path in write_api_calls(relu, tmp_path, format="csv")]
    assert names == ["api_calls_17_0001.csv", "api_calls_17.2_0001.csv", "api_calls_17.3_0001.csv"]


def test_serial_numbers_go_on_where_earlier_files_ended(relu: Trace, tmp_path: Path) -> None:
    size = smallest_size(relu, tmp_path, "json")
    first = write_api_calls(relu, tmp_path, file_name_spec="serial", file_max_size=size)
    second = write_api_calls(relu, tmp_path, file_name_spec="serial")
    assert [path.name for path in [*first, *second]] == [f"api_calls_000{n}.json" for n in range(1, len(first) + 2)]
    assert read_json(first) == read_json(second)


def test_a_gap_in_the_numbers_is_not_filled(relu: Trace, tmp_path: Path) -> None:
    (tmp_path / "api_calls_12345.json").write_text("mine")
    (path,) = write_api_calls(relu, tmp_path, file_name_spec="serial")
    assert path.name == "api_calls_12346.json"
    assert (tmp_path / "api_calls_12345.json").read_text() == "mine"


def test_a_name_taken_meanwhile_is_left_alone(relu: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = api_calls._write

    def somebody_else_is_quicker(*arguments: Any) -> Any:
        (tmp_path / "api_calls_0001.json").write_text("theirs")
        return write(*arguments)

    monkeypatch.setattr(api_calls, "_write", somebody_else_is_quicker)
    (path,) = write_api_calls(relu, tmp_path, file_name_spec="serial")
    assert path.name == "api_calls_0002.json"
    assert (tmp_path / "api_calls_0001.json").read_text() == "theirs"


def test_missing_directories_are_made_and_hold_the_files_alone(relu: Trace, tmp_path: Path) -> None:
    paths = write_api_calls(relu, str(tmp_path / "a" / "b"))
    assert list((tmp_path / "a" / "b").iterdir()) == paths


def test_a_directory_that_is_a_file_is_refused(relu: Trace, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(OutputDirectoryError, match=r"`out_dir` must be a directory, but .*taken is a file"):
        write_api_calls(relu, tmp_path / "taken" / "calls")


def test_a_failed_write_leaves_nothing(relu: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    size = smallest_size(relu, tmp_path, "json")
    monkeypatch.setattr(row_text.RowText, "buffer", fail)
    with pytest.raises(ExportError, match="No space left"):
        write_api_calls(relu, tmp_path, file_max_size=size)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "jsn"}, r"`format` cannot be 'jsn'\. Did you mean 'json'\? It must be one of json, csv\."),
        ({"file_name_spec": "timestmp"}, r"`file_name_spec` cannot be 'timestmp'\. Did you mean 'timestamp'\?"),
        ({"format": ["json"]}, r"`format` cannot be \['json'\]\. .* It must be one of json, csv\."),
    ],
)
def test_an_unknown_choice_is_answered_with_a_suggestion(
    options: dict[str, Any], message: str, relu: Trace, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write_api_calls(relu, tmp_path, **options)


@pytest.mark.parametrize("source", [Run(traces=()), TraceBuilder().op("aten::relu", 0, 1).build()])
def test_a_source_without_api_calls_is_refused_with_how_to_record_them(source: Trace | Run, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"contains no API call.*Profiler\(api=True\)"):
        write_api_calls(source, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_something_else_than_a_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Expected a Trace or a Run, found str"):
        write_api_calls("profile", tmp_path)  # type: ignore[arg-type]
