"""Which of TensorFlow's two profilers records: RunMetadata for programs that run graphs, XPlane for everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import unified_profiler as up
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer
from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

v1 = tf.compat.v1


def sorts(capture: NativeCapture) -> list[str]:
    return sorted({file.suffixes[0] for file in capture.files})


def started(folder: Path) -> TensorFlowRecorder:
    recorder = TensorFlowRecorder(RecordOptions(), folder)
    recorder.arm()
    recorder.start()
    return recorder


def test_a_program_that_builds_graphs_is_recorded_by_its_runs(net: Any, record: Any) -> None:
    capture = record(net.run)
    assert (sorts(capture), capture.details["problems"]) == ([".pb"], [])


@pytest.mark.parametrize(
    "options", [{"record_shapes": True}, {"with_stack": True}, {"native_options": {"host_tracer_level": 2}}]
)
def test_what_only_xplane_tells_is_asked_of_it(options: dict[str, Any], net: Any, record: Any) -> None:
    assert sorts(record(net.run, **options)) == [".pb", ".xplane"]


def test_an_accelerator_is_seen_by_xplane(net: Any, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda: [tf.config.PhysicalDevice("/gpu:0", "GPU")])
    assert sorts(record(net.run)) == [".pb", ".xplane"]


def test_a_session_in_an_eager_program_is_recorded_by_both(record: Any) -> None:
    with tf.Graph().as_default() as graph:
        double = v1.py_func(lambda: 2.0, [], tf.float64) * 2
    session = v1.Session(graph=graph)  # `with` would make its graph the one that code builds
    capture = record(lambda: (session.run(double), tf.ones(3) + 1))
    session.close()
    assert sorts(capture) == [".pb", ".xplane"]


def test_graphs_of_which_none_ran_leave_an_empty_table(record: Any) -> None:
    with tf.Graph().as_default():
        capture = record(lambda: tf.constant(1.0) + 1)
    assert len(TensorFlowNormalizer().normalize(capture)) == 0


def test_a_program_that_goes_on_eagerly_is_recorded_from_the_next_step_on(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        recorder = started(tmp_path)
        recorder.mark_step(4)
    recorder.mark_step(5)
    tf.ones(3) + 1
    capture = recorder.stop()
    names = TensorFlowNormalizer().normalize(capture).column("name").to_pylist()
    assert "AddV2" in names
    (problem,) = capture.details["problems"]
    assert "from step 5 on" in problem


def test_eager_work_after_the_last_step_in_a_graph_is_told_to_be_missing(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        recorder = started(tmp_path)
    (problem,) = recorder.stop().details["problems"]
    assert "are missing" in problem


def test_the_trace_of_a_profiler_in_a_graph_has_steps_and_nodes(net: Any) -> None:
    with up.Profiler(backend="tensorflow", strict=True) as profiler:
        for _ in range(3):
            net.run()
            profiler.step()
    (trace,) = profiler.traces
    found = up.query(trace, "select step, count(*) as n from events where name = 'MatMul' group by 1 order by 1")
    assert found.rows == ((0, 2), (1, 2), (2, 2))  # forward, and the gradient of the weights
