from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.errors import ExportError, OutputDirectoryError
from unified_profiler.export.compat.models_layout import write_models_layout
from unified_profiler.model.nesting import with_column
from unified_profiler.model.run import Run
from unified_profiler.model.schema import JSON_COLUMNS
from unified_profiler.model.trace import Trace
from unified_profiler.testing import TraceBuilder

GOLDEN = Path(__file__).parents[3] / "golden"
BASE = 1_790_857_026_123_456_789


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def names(folder: Path) -> list[str]:
    timelines, stats = (sorted(path.name for path in (folder / name).iterdir()) for name in ("timeline", "step_stats"))
    assert timelines == stats
    return timelines


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "step_stats" / name).read_text().splitlines()]


def run_of(*builders: TraceBuilder) -> Run:
    return Run(traces=tuple(builder.build() for builder in builders))


def one_step(builder: TraceBuilder | None = None, *, step: int = 0, start: int = BASE) -> TraceBuilder:
    return (builder or TraceBuilder()).step(step, start, 1000)


def nodes(builder: TraceBuilder, folder: Path, model: str = "fake") -> dict[str, Any]:
    """The nodes of step 0 on the first device."""
    found = summary(write_models_layout(run_of(builder), folder))["op_stats"][model]["0"]["host"]
    return next(iter(found.values()))


@pytest.fixture
def trained() -> Run:
    """Two steps of two graphs and an operator of none."""
    builder = TraceBuilder(frameworks={"tensorflow": "2.21"}, host="box")
    for step in (3, 4):
        begin = BASE + step * 10_000
        builder.step(step, begin, 9_000).region("forward", begin + 100, 4_000, attributes='{"meta":"batch of 8"}')
        for graph, start in (("vgg16", 200), ("head", 1_000)):
            builder.op(
                "MatMul",
                begin + start,
                500 + 10 * step,
                framework="tensorflow",
                device="cpu:0",
                tid=7,
                attributes=json.dumps({"node": "dense/MatMul", "graph": graph}),
                output_shapes="[[8,10],null]",
                output_types='["float32","resource"]',
                bytes=320,
            )
        builder.op("Sum", begin + 3_000, 100, framework="tensorflow", device="cpu:0", tid=7)
    return run_of(builder)


# --- the whole ------------------------------------------------------------------------------------------------------


def test_the_directory_has_a_timeline_and_statistics_of_each_model_and_step(trained: Run, tmp_path: Path) -> None:
    folder = write_models_layout(trained, tmp_path / "deep" / "models")
    assert folder == tmp_path / "deep" / "models"
    assert sorted(path.name for path in folder.iterdir()) == ["step_stats", "summary.json", "summary.md", "timeline"]
    assert names(folder) == [f"{model}_step_{step}" for model in ("head", "tensorflow", "vgg16") for step in (3, 4)]


def test_the_summary_has_exactly_the_form_of_the_original(trained: Run, tmp_path: Path) -> None:
    found = summary(write_models_layout(trained, tmp_path))
    output = {"0": {"shape": [8, 10], "type": "float32"}, "1": {"shape": None, "type": "resource"}}
    node = {"dense/MatMul": {"duration": 0.53, "output": output, "total_bytes": 320}}
    assert found.keys() == {"app_stats", "op_stats"}
    assert found["app_stats"] == {
        "3": {"forward": {"duration": 4.0, "meta": "batch of 8"}},
        "4": {"forward": {"duration": 4.0, "meta": "batch of 8"}},
    }
    assert found["op_stats"]["vgg16"]["3"] == {"box": {"cpu:0": node}}
    assert found["op_stats"]["head"]["4"]["box"]["cpu:0"]["dense/MatMul"]["duration"] == 0.54
    assert found["op_stats"]["tensorflow"]["3"]["box"]["cpu:0"]["Sum"] == {
        "duration": 0.1,
        "output": {},
        "total_bytes": 0,
    }


def test_a_timeline_is_read_as_the_step_that_it_is(trained: Run, tmp_path: Path) -> None:
    folder = write_models_layout(trained, tmp_path)
    (trace,) = up.read(folder / "timeline" / "vgg16_step_4").traces
    assert (trace.info.first_step, trace.info.last_step, trace.info.event_count) == (4, 4, 3)
    assert trace.events.column("name").to_pylist() == ["step 4", "forward", "MatMul"]
    assert trace.events.column("id").to_pylist() == [0, 1, 2]
    assert trace.events.column("parent_id").to_pylist() == [None, 0, None]
    assert set(trace.events.column("step").to_pylist()) == {4}


def test_the_statistics_are_all_columns_that_are_not_null_as_they_are_in_the_run(trained: Run, tmp_path: Path) -> None:
    found = lines(write_models_layout(trained, tmp_path), "head_step_3")
    events = {row["id"]: row for row in trained.traces[0].events.to_pylist()}
    for line in found:
        expected = {key: value for key, value in events[line["id"]].items() if value is not None}
        for name in JSON_COLUMNS & expected.keys():
            expected[name] = json.loads(expected[name])
        assert line == expected
    assert [line["name"] for line in found] == ["step 3", "forward", "MatMul"]


def test_the_text_for_people_names_files_times_memory_and_outputs(trained: Run, tmp_path: Path) -> None:
    text = (write_models_layout(trained, tmp_path) / "summary.md").read_text()
    assert "microseconds" in text
    assert "| 3 | forward | 4.000 us | batch of 8 |" in text
    assert "| 3 | 1 | timeline/vgg16_step_3 | step_stats/vgg16_step_3 |" in text
    assert "| dense/MatMul | box | cpu:0 | 2 | 0.535 us | 0.540 us | 320 B | float32\\[8,10], resource\\[?] |" in text
    assert "outside" not in text


# --- activities -----------------------------------------------------------------------------------------------------


def test_activities_of_one_name_add_up_and_the_last_meta_stays(tmp_path: Path) -> None:
    builder = one_step()
    for start, meta in ((0, '{"meta":"first"}'), (200, '{"meta":{"size":8}}'), (400, None)):
        builder.region("load", BASE + start, 100, attributes=meta)
    assert summary(write_models_layout(run_of(builder), tmp_path))["app_stats"] == {
        "0": {"load": {"duration": 0.3, "meta": {"size": 8}}}
    }


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (None, None),
        ('{"meta":null}', None),
        ('{"meta":NaN}', "NaN"),
        ('{"meta":"\\ud800x"}', "?x"),
        ('{"meta":[1,"x|y"]}', [1, "x|y"]),
        ('{"meta":123456789012345678901234567890}', 123456789012345678901234567890),
        ("no JSON", None),
        ("[1]", None),
        ("[" * 100_000, None),
    ],
)
def test_any_meta_is_written(attributes: str | None, expected: Any, tmp_path: Path) -> None:
    builder = one_step().region("load", BASE, 100, attributes=attributes)
    assert summary(write_models_layout(run_of(builder), tmp_path))["app_stats"]["0"]["load"]["meta"] == expected


def test_only_spans_that_the_user_named_are_activities(tmp_path: Path) -> None:
    builder = one_step().op("autograd", BASE, 10, kind="region", layer="framework").op("add", BASE + 20, 10)
    assert summary(write_models_layout(run_of(builder), tmp_path))["app_stats"] == {"0": {}}


# --- nodes ----------------------------------------------------------------------------------------------------------


def test_calls_of_one_name_are_all_kept(tmp_path: Path) -> None:
    builder = one_step()
    for index, name in enumerate(["add#2", "add", "add", "add#2", "add"]):
        builder.op(name, BASE + 10 * index, index + 1, device="cpu:0")
    found = {name: node["duration"] for name, node in nodes(builder, tmp_path).items()}
    assert found == {"add#2": 0.001, "add": 0.002, "add#3": 0.003, "add#2#2": 0.004, "add#4": 0.005}


def test_hosts_and_devices_come_in_the_order_of_their_first_nodes(tmp_path: Path) -> None:
    builder = one_step()
    for index, device in enumerate(["cuda:1", "cpu:0", "cuda:1", "cuda:0"]):
        builder.op("op", BASE + 10 * index, 1, device=device, tid=index)
    folder = write_models_layout(run_of(builder), tmp_path)
    found = summary(folder)["op_stats"]["fake"]["0"]["host"]
    assert {device: list(nodes) for device, nodes in found.items()} == {
        "cuda:1": ["op", "op#2"],
        "cpu:0": ["op"],
        "cuda:0": ["op"],
    }
    assert list(found) == ["cuda:1", "cpu:0", "cuda:0"]


def test_nodes_without_a_path_have_the_module_in_their_names(tmp_path: Path) -> None:
    builder = one_step().op("aten::linear", BASE, 10, module="encoder.0").op("aten::add", BASE + 20, 10)
    assert list(nodes(builder, tmp_path)) == ["encoder.0/aten::linear", "aten::add"]


def test_streams_are_places_of_their_own_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    builder = one_step().op("MatMul", BASE, 10, device="cuda:0").op("lost", BASE + 20, 10)
    for number, (kind, stream) in enumerate((("kernel", 7), ("copy", 7), ("collective", 9))):
        work: dict[str, Any] = {"kind": kind, "layer": "runtime", "device": "cuda:0", "stream": stream, "tid": stream}
        builder.op(kind, BASE + 100, 10, correlation_id=number, **work)
        launch: dict[str, Any] = {"kind": "runtime", "layer": "runtime", "device": "cpu:0"}
        builder.op("cudaLaunchKernel", BASE + 40 + 10 * number, 5, correlation_id=number, **launch)
    found = summary(write_models_layout(run_of(builder), tmp_path))["op_stats"]["fake"]["0"]["host"]
    assert {device: list(nodes) for device, nodes in found.items()} == {
        "cuda:0": ["MatMul"],
        "unknown": ["lost"],
        "cuda:0/stream:7": ["kernel", "copy"],
        "cuda:0/stream:9": ["collective"],
    }


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, {}),
        ({"output_shapes": "[[2]]"}, {"0": {"shape": [2], "type": None}}),
        ({"output_types": '["int32"]'}, {"0": {"shape": None, "type": "int32"}}),
        ({"output_shapes": "no JSON", "output_types": '{"a":1}'}, {}),
        (
            {"output_shapes": "[[2],[3]]", "output_types": '["a","b"]', "attributes": '{"output_slots":[0,2]}'},
            {"0": {"shape": [2], "type": "a"}, "2": {"shape": [3], "type": "b"}},
        ),
        ({"output_shapes": "[[2]]", "attributes": '{"output_slots":"x"}'}, {"0": {"shape": [2], "type": None}}),
    ],
)
def test_outputs_are_those_that_were_recorded(columns: Any, expected: Any, tmp_path: Path) -> None:
    assert nodes(one_step().op("add", BASE, 10, **columns), tmp_path)["add"]["output"] == expected


def test_bytes_are_those_of_the_node_else_what_was_allocated_within_it(tmp_path: Path) -> None:
    builder = one_step().op("outer", BASE, 100).op("inner", BASE + 10, 50).op("given", BASE + 200, 10, bytes=5)
    for start, size in ((20, 64), (30, -64), (40, 32), (205, 1000)):
        builder.op("[memory]", BASE + start, 0, kind="memory", layer="runtime", bytes=size)
    builder.op("none", BASE + 300, 10)
    found = {name: node["total_bytes"] for name, node in nodes(builder, tmp_path).items()}
    assert found == {"outer": 96, "inner": 96, "given": 5, "none": 0}


def test_bytes_that_were_not_recorded_are_null(tmp_path: Path) -> None:
    builder = one_step().op("add", BASE, 10).op("copied", BASE + 20, 10, framework="other", bytes=8)
    assert nodes(builder, tmp_path)["add"]["total_bytes"] is None


def test_what_runs_within_a_graph_is_of_that_graph(tmp_path: Path) -> None:
    builder = one_step().op("Session.run", BASE, 500, kind="api_call", layer="api", attributes='{"graph":"vgg16"}')
    builder.op("[memory]", BASE + 10, 0, kind="memory", layer="runtime", bytes=1).op("MatMul", BASE + 20, 10)
    builder.op("pool", BASE + 30, 10, kind="runtime", layer="runtime", tid=9).op("Sum", BASE + 600, 10)
    folder = write_models_layout(run_of(builder), tmp_path)
    assert [line["name"] for line in lines(folder, "vgg16_step_0")] == [
        "step 0",
        "Session.run",
        "[memory]",
        "MatMul",
    ]
    assert [line["name"] for line in lines(folder, "fake_step_0")] == ["step 0", "pool", "Sum"]


def test_what_belongs_to_no_model_is_in_the_files_of_all(tmp_path: Path) -> None:
    builder = one_step().op("a", BASE, 10, attributes='{"graph":"one"}').op("b", BASE + 20, 10, framework="torch")
    builder.op("cpu %", BASE + 30, 0, kind="counter", layer="hardware", framework=None, value=50.0)
    builder.op("thread pool", BASE + 40, 10, kind="runtime", layer="runtime")
    folder = write_models_layout(run_of(builder), tmp_path)
    for name in ("one_step_0", "torch_step_0"):
        assert {"step 0", "cpu %", "thread pool"} < {line["name"] for line in lines(folder, name)}


def test_a_step_without_nodes_has_its_files_and_no_nodes(tmp_path: Path) -> None:
    first, second = TraceBuilder(frameworks={"torch": "2"}), TraceBuilder(cycle=1)
    run = run_of(one_step(first), one_step(second, step=1))
    folder = write_models_layout(run, tmp_path)
    assert names(folder) == ["model_step_1", "torch_step_0"]
    assert summary(folder) == {"app_stats": {"0": {}, "1": {}}, "op_stats": {}}


# --- steps and ranks ------------------------------------------------------------------------------------------------


def test_a_trace_without_steps_is_one_step(tmp_path: Path) -> None:
    assert names(write_models_layout(run_of(TraceBuilder().op("add", BASE, 10)), tmp_path)) == ["fake_step_0"]


def test_what_is_outside_all_steps_is_left_out_and_counted(tmp_path: Path) -> None:
    builder = one_step().op("within", BASE + 5, 10).op("after", BASE + 5000, 10)
    folder = write_models_layout(run_of(builder), tmp_path)
    assert [line["name"] for line in lines(folder, "fake_step_0")] == ["step 0", "within"]
    assert "outside of steps, which are not in these files: 1." in (folder / "summary.md").read_text()


def test_a_parent_in_another_step_is_no_parent_in_the_timeline(tmp_path: Path) -> None:
    whole = TraceBuilder().region("both", BASE, 5000).op("a", BASE + 20, 10).op("b", BASE + 2000, 10).build()
    steps = with_column(whole.events, "step", [0, 0, 1])
    folder = write_models_layout(Run(traces=(Trace(steps, whole.info),)), tmp_path)
    (found,) = up.read(folder / "timeline" / "fake_step_1").traces
    assert found.events.column("parent_id").to_pylist() == [None]
    assert lines(folder, "fake_step_1")[0]["parent_id"] == 0


def test_a_step_number_that_comes_again_overwrites_nothing(tmp_path: Path) -> None:
    run = run_of(
        one_step(TraceBuilder(cycle=0)).op("a", BASE, 10),
        one_step(TraceBuilder(cycle=1), start=BASE + 5000).op("b", BASE + 5000, 10),
    )
    folder = write_models_layout(run, tmp_path)
    assert names(folder) == ["fake_step_0", "fake_step_0_2"]
    assert summary(folder)["op_stats"]["fake"].keys() == {"0", "0_2"}
    assert summary(folder)["app_stats"].keys() == {"0", "0_2"}


def test_ranks_on_one_host_do_not_collide(tmp_path: Path) -> None:
    run = run_of(
        *(one_step(TraceBuilder(rank=r, host="box")).region("load", BASE, 10 + r).op("a", BASE + 50, 1) for r in (0, 1))
    )
    folder = write_models_layout(run, tmp_path)
    assert names(folder) == ["fake_rank_0_step_0", "fake_rank_1_step_0"]
    assert summary(folder)["op_stats"].keys() == {"fake_rank_0", "fake_rank_1"}
    assert {name: found["duration"] for name, found in summary(folder)["app_stats"]["0"].items()} == {
        "load_rank_0": 0.01,
        "load_rank_1": 0.011,
    }


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph",
    [
        "../../escaped",
        "/etc/passwd",
        "..",
        ".hidden",
        "a\x00b\nc",
        "x" * 10_000,
        "模" * 5_000,
        "C:\\x",
        "-rf",
        "|<b>`",
        " ",
    ],
)
def test_no_name_of_a_graph_leaves_the_directory(graph: str, tmp_path: Path) -> None:
    builder = one_step().op("a", BASE, 10, attributes=json.dumps({"graph": graph}))
    folder = write_models_layout(run_of(builder), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (name,) = names(folder)
    assert name.endswith("_step_0")
    assert name[0] not in ".-"
    assert list(summary(folder)["op_stats"]) == [graph]
    assert "<b>" not in (folder / "summary.md").read_text()


def test_models_whose_names_are_alike_have_files_of_their_own(tmp_path: Path) -> None:
    builder = one_step()
    graphs = ["a/b", "a:b", "A_B", "x" * 300, "x" * 301]
    for index, graph in enumerate(graphs):
        builder.op("op", BASE + 20 * index, 10, attributes=json.dumps({"graph": graph, "node": graph}))
    folder = write_models_layout(run_of(builder), tmp_path)
    found = {
        line["attributes"]["graph"] for name in names(folder) for line in lines(folder, name) if line["kind"] == "op"
    }
    assert found == set(graphs)
    assert len({name.casefold() for name in names(folder)}) == len(graphs)


def test_hostile_names_stay_in_their_cells(tmp_path: Path) -> None:
    name = "a|b`<script>alert(1)</script>\n# heading\x1b" + "x" * 10_000
    builder = one_step().region(name, BASE, 10, attributes=json.dumps({"meta": name})).op(name, BASE + 50, 10)
    text = (write_models_layout(run_of(builder), tmp_path) / "summary.md").read_text()
    assert "<script" not in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 1000
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# unified_profiler", "## Application", "## fake"]


def test_an_earlier_layout_is_replaced_with_its_steps(trained: Run, tmp_path: Path) -> None:
    write_models_layout(run_of(one_step().op("a", BASE, 10)), tmp_path)
    (tmp_path / "timeline" / "notes_step_1.txt").write_text("mine")
    write_models_layout(trained, tmp_path)
    assert not (tmp_path / "timeline" / "fake_step_0").exists()
    assert not (tmp_path / "step_stats" / "fake_step_0").exists()
    assert (tmp_path / "timeline" / "notes_step_1.txt").read_text() == "mine"
    assert list(summary(tmp_path)["app_stats"]) == ["3", "4"]


@pytest.mark.parametrize("file", ["notes.txt", "summary.json", "summary.md", "timeline/x", "rank-00000/manifest.json"])
def test_files_of_others_are_never_touched(file: str, trained: Run, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text('{"schema_version": 1}')
    with pytest.raises(OutputDirectoryError, match="not part of an earlier report"):
        write_models_layout(trained, tmp_path)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()] == [Path(file)]


def test_what_a_killed_process_left_does_not_hinder(trained: Run, tmp_path: Path) -> None:
    (tmp_path / ".summary.json.77.part").write_text("{")
    write_models_layout(trained, tmp_path)
    assert len(names(tmp_path)) == 6


def test_a_file_in_place_of_the_directory_is_told(trained: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputDirectoryError, match="is a file"):
        write_models_layout(trained, tmp_path / "file")


def test_a_file_that_cannot_be_written_is_told(trained: Run, tmp_path: Path) -> None:
    write_models_layout(trained, tmp_path)
    (tmp_path / "timeline" / "vgg16_step_3").unlink()
    (tmp_path / "timeline" / "vgg16_step_3").mkdir()
    with pytest.raises(ExportError, match="cannot be written"):
        write_models_layout(trained, tmp_path)


@pytest.mark.parametrize("run", [Run(traces=()), run_of(TraceBuilder())], ids=["no trace", "no events"])
def test_an_empty_run_is_told_in_words(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"contains no events.*Record at least one step"):
        write_models_layout(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- real recordings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        "kineto/mi250_train.json.gz",
        "kineto/alexnet_cuda.json.gz",
        "mindspore/made_up_ascend_ms",
        "mindspore/model_train_ascend_ms",
        "run_metadata/train.pb",
        "xplane/eager.xplane.pb",
    ],
)
def test_every_node_of_a_recording_is_there_once(file: str, tmp_path: Path) -> None:
    run = up.read(GOLDEN / file)
    folder = write_models_layout(run, tmp_path / "out")
    rows = run.traces[0].events.to_pylist()
    steps = any(row["step"] is not None for row in rows)
    kinds = {"op", "kernel", "copy", "collective"}
    expected = [row for row in rows if row["kind"] in kinds and (row["step"] is not None or not steps)]
    found = [
        node["duration"]
        for by_step in summary(folder)["op_stats"].values()
        for hosts in by_step.values()
        for devices in hosts.values()
        for by_node in devices.values()
        for node in by_node.values()
    ]
    assert sorted(found) == pytest.approx(sorted(row["duration_ns"] / 1000 for row in expected), abs=0)
    inside = [row["id"] for row in rows if row["step"] is not None or not steps]
    assert sorted({line["id"] for name in names(folder) for line in lines(folder, name)}) == inside
    for name in names(folder):
        (trace,) = up.read(folder / "timeline" / name).traces
        assert up.op_table(trace).columns
        assert len(trace.events) == len(lines(folder, name))
