from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import step_stats_pb2, types_pb2

import unified_profiler as up
from unified_profiler.export.compat.models_layout import write_models_layout
from unified_profiler.integrations.tensorflow import profiled_session
from unified_profiler_tensorflow.read.run_metadata.names import dtype_enum

v1 = tf.compat.v1
Node = tuple[str, float, str, int]
"""Its name, microseconds, outputs as JSON, and bytes."""


def native_nodes(metadata: Any) -> list[Node]:
    """The nodes of a run, from TensorFlow's own message."""
    nodes = []
    for node in (node for device in metadata.step_stats.dev_stats for node in device.node_stats):
        outputs = {
            str(output.slot): {
                "shape": [dim.size for dim in output.tensor_description.shape.dim],
                "type": tf.as_dtype(output.tensor_description.dtype).name,
            }
            for output in node.output
        }
        total = sum(used.total_bytes for used in node.memory)
        nodes.append((node.node_name, node.all_end_rel_nanos / 1000, json.dumps(outputs), total))
    return nodes


def test_the_summary_of_a_session_agrees_with_its_run_metadata(net: Any, tmp_path: Path) -> None:
    theirs: dict[int, list[Node]] = {}
    schedule = up.schedule(wait=1, warmup=1, active=2, repeat=1)
    with up.Profiler(backend="tensorflow", schedule=schedule, strict=True, output_dir=tmp_path / "profile") as prof:
        profiled_session(net.session, prof, graph="mlp/1")
        for step in range(4):
            first, second = v1.RunMetadata(), v1.RunMetadata()
            net.run(run_metadata=first)
            with prof.region("evaluation", meta=f"step {step}"):
                net.run(net.loss, run_metadata=second)
            theirs[step] = [*native_nodes(first), *native_nodes(second)]
            prof.step()

    folder = write_models_layout(up.read(tmp_path / "profile"), tmp_path / "models")

    summary = json.loads((folder / "summary.json").read_text())
    assert summary.keys() == {"app_stats", "op_stats"}
    assert list(summary["op_stats"]) == ["mlp/1"]
    assert sorted(path.name for path in (folder / "timeline").iterdir()) == ["mlp_1_step_2", "mlp_1_step_3"]
    for step in (2, 3):
        (devices,) = summary["op_stats"]["mlp/1"][str(step)].values()
        nodes = [
            (name.partition("#")[0], node["duration"], json.dumps(node["output"]), node["total_bytes"])
            for name, node in devices["cpu:0"].items()
        ]
        assert theirs[step]
        assert Counter(nodes) == Counter(theirs[step])
        assert {"multiply", "multiply#2"} <= devices["cpu:0"].keys()
        activities = summary["app_stats"][str(step)]
        assert activities.keys() == {"mlp/1", "evaluation"}
        assert activities["evaluation"]["meta"] == f"step {step}"
        assert 0 < activities["evaluation"]["duration"] < activities["mlp/1"]["duration"] * 10


def test_the_timeline_of_a_step_holds_what_the_application_did_and_its_nodes(net: Any, tmp_path: Path) -> None:
    with up.Profiler(backend="tensorflow", strict=True) as prof:
        profiled_session(net.session, prof, graph="mlp")
        net.run()
        prof.step()
    folder = write_models_layout(up.Run(traces=tuple(prof.traces)), tmp_path)
    (trace,) = up.read(folder / "timeline" / "mlp_step_0").traces
    assert {"step", "region", "api_call", "op", "memory"} <= set(trace.events.column("kind").to_pylist())


# --- step_stats -----------------------------------------------------------------------------------------------------


def parsed(file: Path) -> Any:
    """A file of statistics, parsed by TensorFlow's own message."""
    return text_format.Parse(file.read_text(encoding="utf-8"), step_stats_pb2.StepStats())


def merged(runs: list[Any]) -> Any:
    """The StepStats of some runs as one message."""
    merged_stats = step_stats_pb2.StepStats()
    for metadata in runs:
        merged_stats.MergeFrom(metadata.step_stats)
    return merged_stats


def record_graphs(net: Any, folder: Path, **options: Any) -> dict[str, list[Any]]:
    """Two runs of a named graph and one of another in each step, two cycles; the RunMetadata by file."""
    theirs: dict[str, list[Any]] = {}
    with tf.Graph().as_default():
        other = tf.square(v1.placeholder_with_default([1.0, 2.0], (2,)), name="other")
        session = v1.Session()
    schedule = up.schedule(wait=1, warmup=0, active=2, repeat=2)
    with up.Profiler(backend="tensorflow", schedule=schedule, strict=True, output_dir=folder, **options) as prof:
        profiled_session(net.session, prof, graph="mlp")
        for step in range(6):
            first, second, third = v1.RunMetadata(), v1.RunMetadata(), v1.RunMetadata()
            net.run(run_metadata=first)
            session.run(other, run_metadata=third)
            net.run(net.loss, run_metadata=second)
            theirs |= {f"mlp_step_{step}": [first, second], f"tensorflow_step_{step}": [third]}
            prof.step()
    session.close()
    return {name: runs for name, runs in theirs.items() if int(name[-1]) in {1, 2, 4, 5}}


def test_native_statistics_are_the_step_stats_that_tensorflow_gave(net: Any, tmp_path: Path) -> None:
    theirs = record_graphs(net, tmp_path / "profile", keep_native=True)
    folder = write_models_layout(up.read(tmp_path / "profile"), tmp_path / "models") / "step_stats"
    assert sorted(path.name for path in folder.iterdir()) == sorted(theirs)
    for name, runs in theirs.items():
        stats = parsed(folder / name)
        nodes = [(node.node_name, node.all_end_rel_nanos) for d in stats.dev_stats for node in d.node_stats]
        assert nodes == [
            (node.node_name, node.all_end_rel_nanos)
            for metadata in runs
            for device in metadata.step_stats.dev_stats
            for node in device.node_stats
        ]
        assert nodes
        assert stats == merged(runs)
        assert (folder / name).read_text(encoding="utf-8") == str(merged(runs))


def test_events_are_written_where_the_native_files_were_not_kept(net: Any, tmp_path: Path) -> None:
    theirs = record_graphs(net, tmp_path / "profile")
    folder = write_models_layout(up.read(tmp_path / "profile"), tmp_path / "models") / "step_stats"
    for name in theirs:
        assert json.loads((folder / name).read_text().splitlines()[0])["kind"] == "step"


def test_only_the_step_whose_native_file_is_damaged_is_written_as_events(
    net: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = record_graphs(net, tmp_path / "profile", keep_native=True)
    damaged = next((tmp_path / "profile").glob("*/rank-00000/native/cycle-00001/tensorflow/run_metadata/run-00005.pb"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    folder = write_models_layout(up.read(tmp_path / "profile"), tmp_path / "models") / "step_stats"
    (message,) = [record.getMessage() for record in caplog.records if record.name == "unified_profiler"]
    assert f"{damaged} is damaged" in message
    assert message.endswith("Step 5 of mlp is written as events instead.")
    assert json.loads((folder / "mlp_step_5").read_text().splitlines()[0])["kind"] == "step"
    del theirs["mlp_step_5"]
    for name, runs in theirs.items():
        assert parsed(folder / name) == merged(runs)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (None, "cannot be read"),
        (b"[{", "cannot be read"),
        (b'[{"file": "run-00000.pb", "step": "x"}]', "cannot be read"),
        (b'[{"file": "../../../../cycle-00000.parquet", "graph": "mlp", "step": 1}]', "leads out of"),
        (b'[{"file": "lost.pb", "graph": "mlp", "step": 1}]', "cannot be read"),
        (b'[{"file": "runs.json", "graph": "mlp", "step": 1}]', "is of another kind"),
    ],
)
def test_an_index_is_data(
    index: bytes | None, expected: str, net: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with up.Profiler(backend="tensorflow", strict=True, output_dir=tmp_path / "profile", keep_native=True) as prof:
        profiled_session(net.session, prof, graph="mlp")
        prof.step()
        net.run()
        prof.step()
    (file,) = (tmp_path / "profile").glob("*/rank-00000/native/cycle-00000/tensorflow/run_metadata/runs.json")
    file.unlink() if index is None else file.write_bytes(index)
    folder = write_models_layout(up.read(tmp_path / "profile"), tmp_path / "models") / "step_stats"
    (message,) = [record.getMessage() for record in caplog.records if record.name == "unified_profiler"]
    assert expected in message
    assert json.loads((folder / "mlp_step_1").read_text().splitlines()[0])["kind"] == "step"


def test_the_names_of_types_are_those_of_tensorflow() -> None:
    theirs = types_pb2.DataType.items()
    assert {name: number for name, number in dtype_enum().items() if (name, number) in theirs} == dict(theirs)
