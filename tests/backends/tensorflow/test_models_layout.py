from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow as tf

import unified_profiler as up
from unified_profiler.integrations.tensorflow import profiled_session
from unified_profiler.report.models_layout import write_models_layout

v1 = tf.compat.v1
Node = tuple[str, float, str, int]
"""Its name, microseconds, outputs as JSON, and bytes."""


def stated(metadata: Any) -> list[Node]:
    """What TensorFlow itself says of the nodes of a run."""
    found = []
    for node in (node for device in metadata.step_stats.dev_stats for node in device.node_stats):
        outputs = {
            str(output.slot): {
                "shape": [dim.size for dim in output.tensor_description.shape.dim],
                "type": tf.as_dtype(output.tensor_description.dtype).name,
            }
            for output in node.output
        }
        total = sum(used.total_bytes for used in node.memory)
        found.append((node.node_name, node.all_end_rel_nanos / 1000, json.dumps(outputs), total))
    return found


def test_the_summary_of_a_session_says_what_its_run_metadata_says(net: Any, tmp_path: Path) -> None:
    theirs: dict[int, list[Node]] = {}
    schedule = up.schedule(wait=1, warmup=1, active=2, repeat=1)
    with up.Profiler(backend="tensorflow", schedule=schedule, strict=True, output_dir=tmp_path / "profile") as prof:
        profiled_session(net.session, prof, graph="mlp/1")
        for step in range(4):
            first, second = v1.RunMetadata(), v1.RunMetadata()
            net.run(run_metadata=first)
            with prof.region("evaluation", meta=f"step {step}"):
                net.run(net.loss, run_metadata=second)
            theirs[step] = [*stated(first), *stated(second)]
            prof.step()

    folder = write_models_layout(up.read(tmp_path / "profile"), tmp_path / "models")

    summary = json.loads((folder / "summary.json").read_text())
    assert summary.keys() == {"app_stats", "op_stats"}
    assert list(summary["op_stats"]) == ["mlp/1"]
    assert sorted(path.name for path in (folder / "timeline").iterdir()) == ["mlp_1_step_2", "mlp_1_step_3"]
    for step in (2, 3):
        (devices,) = summary["op_stats"]["mlp/1"][str(step)].values()
        found = [
            (name.partition("#")[0], node["duration"], json.dumps(node["output"]), node["total_bytes"])
            for name, node in devices["cpu:0"].items()
        ]
        assert theirs[step]
        assert Counter(found) == Counter(theirs[step])
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
