from __future__ import annotations

import functools
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.client.session import BaseSession
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_tensorflow.record import session_collector
from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _sessions_run_as_they_did_before() -> Iterator[None]:
    before = dict(vars(BaseSession))
    yield
    assert dict(vars(BaseSession)) == before


def runs(capture: NativeCapture) -> list[Any]:
    files = [file for file in capture.files if file.name.startswith("run-")]
    return [v1.RunMetadata.FromString(file.read_bytes()) for file in files]


def nodes(metadata: Any) -> set[str]:
    return {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}


def started(folder: Path) -> TensorFlowRecorder:
    folder.mkdir(exist_ok=True)
    recorder = TensorFlowRecorder(RecordOptions(), folder)
    recorder.arm()
    recorder.start()
    return recorder


def test_a_run_is_traced_with_its_nodes(net: Any, record: Any) -> None:
    (run,) = runs(record(net.run))
    assert {"multiply", "loss"} <= nodes(run)
    assert any(name.startswith("GradientDescent/") for name in nodes(run))


def test_one_capture_holds_both_what_xplane_and_what_the_session_recorded(net: Any, record: Any) -> None:
    capture = record(net.run, record_shapes=True)
    xplane, run = capture.files
    planes = xplane_pb2.XSpace.FromString(xplane.read_bytes()).planes
    seen = {p.event_metadata[event.metadata_id].name for p in planes for line in p.lines for event in line.events}
    assert "multiply:MatMul" in seen
    assert "multiply" in nodes(v1.RunMetadata.FromString(run.read_bytes()))


def test_more_runs_than_are_held_in_memory_are_all_kept(net: Any, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_collector, "_MAX_BUFFERED", 2)
    capture = record(lambda: [net.run() for _ in range(5)])
    files = [file.name for file in capture.files if file.suffix == ".pb" and "run-" in file.name]
    assert files == list(capture.details["runs"]) == [f"run-{number:05}.pb" for number in range(5)]
    assert all("multiply" in nodes(v1.RunMetadata.FromString(file.read_bytes())) for file in capture.files)


def test_what_is_known_of_each_run_is_in_the_capture_and_beside_its_files(net: Any, tmp_path: Path) -> None:
    recorder = started(tmp_path)
    net.run()
    net.session.graph._unified_profiler_name = "tiny"
    recorder.mark_step(5)
    net.run()
    capture = recorder.stop()
    first, second = capture.details["runs"].values()
    assert (first["graph"], first["step"]) == (None, None)
    assert (second["graph"], second["step"]) == ("tiny", 5)
    for entry, run in zip((first, second), runs(capture), strict=True):
        starts = [node.all_start_nanos for device in run.step_stats.dev_stats for node in device.node_stats]
        assert capture.start_ns <= entry["start_ns"] <= min(starts) <= max(starts) <= entry["end_ns"]
        assert (entry["pid"], entry["thread"]) == (os.getpid(), threading.get_native_id())
    assert json.loads((tmp_path / "run_metadata" / "runs.json").read_text()) == [first, second]


def test_without_a_run_there_is_no_folder(record: Any, tmp_path: Path) -> None:
    capture = record(lambda: tf.ones(3) + 1)
    assert capture.details["runs"] == {}
    assert not (tmp_path / "run_metadata").exists()


def test_a_run_that_computes_nothing_leaves_no_file(net: Any, record: Any) -> None:
    assert runs(record(lambda: net.session.run([]))) == []


def test_runs_before_and_after_recording_are_not_traced(net: Any, tmp_path: Path) -> None:
    recorder = TensorFlowRecorder(RecordOptions(), tmp_path)
    recorder.arm()
    theirs = v1.RunMetadata()
    net.run(run_metadata=theirs)
    recorder.start()
    net.run()
    capture = recorder.stop()
    net.run(run_metadata=theirs)
    assert len(runs(capture)) == 1
    assert nodes(theirs) == set()


@pytest.mark.parametrize(
    "call",
    [
        lambda net: net.loss.eval(net.feed, net.session),
        lambda net: net.train.run(net.feed, net.session),
        lambda net: net.session.make_callable(net.loss, [*net.feed])(*net.feed.values()),
    ],
    ids=["Tensor.eval", "Operation.run", "make_callable with feed_list"],
)
def test_other_ways_to_run_are_traced(call: Callable[[Any], Any], net: Any, record: Any) -> None:
    (run,) = runs(record(lambda: call(net)))
    assert "multiply" in nodes(run)


@pytest.mark.parametrize("accept_options", [False, True])
@pytest.mark.parametrize("structure", [lambda x: x, lambda x: x.op, lambda x: [x, x.op]], ids=["tensor", "op", "list"])
def test_a_callable_without_feeds_is_traced(structure: Any, accept_options: bool, record: Any) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        call = session.make_callable(structure(v1.py_func(lambda: np.float32(6), [], tf.float32)), None, accept_options)
        results: list[Any] = [call()]
        (run,) = runs(record(lambda: results.append(call())))
    assert results[0] == results[1]
    assert "PyFunc" in nodes(run)


@pytest.mark.parametrize("shapes", [False, True], ids=["without XPlane", "with XPlane"])
def test_options_and_metadata_of_a_callable_are_kept(shapes: bool, record: Any) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        call = session.make_callable(v1.py_func(lambda: np.float32(6), [], tf.float32), accept_options=True)
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
        theirs = v1.RunMetadata(session_metadata={"name": "an empty one counts as none given"})
        (ours,) = runs(record(lambda: call(options=options, run_metadata=theirs), record_shapes=shapes))
    assert "PyFunc" in nodes(theirs)
    assert theirs.partition_graphs
    assert ours == theirs


def test_a_callable_that_raises_raises_the_same(record: Any) -> None:
    def fail() -> Any:
        msg = "the user's own mistake"
        raise ValueError(msg)

    with tf.Graph().as_default(), v1.Session() as session:
        call = session.make_callable(v1.py_func(fail, [], tf.float32))

        def run() -> None:
            with pytest.raises(tf.errors.InvalidArgumentError, match="the user's own mistake"):
                call()

        assert runs(record(run)) == []


@pytest.mark.parametrize(("options", "told"), [({}, True), ({"record_shapes": True}, False)])
def test_a_partial_run_works_and_is_told_where_nothing_sees_it(
    options: dict[str, Any], told: bool, record: Any
) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        number = v1.placeholder(tf.float32, ())
        double = number * 2
        handle = session.partial_run_setup([double], [number])
        results: list[float] = []
        work = lambda: results.append(session.partial_run(handle, double, {number: 3.0}))  # noqa: E731
        problems = record(work, **options).details["problems"]
    assert results == [6.0]
    assert ["partial run" in problem for problem in problems] == [True] * told


def test_every_run_of_a_monitored_session_is_traced(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        train = tf.identity(v1.assign_add(step, tf.ones((), tf.int64)), name="train")
        with v1.train.MonitoredTrainingSession(hooks=[v1.train.StopAtStepHook(last_step=4)]) as session:
            session.run(train)
            recorder = started(tmp_path)
            while not session.should_stop():
                session.run(train)
            capture = recorder.stop()
    assert len([run for run in runs(capture) if "train" in nodes(run)]) == 3


# --- what the user asked for ----------------------------------------------------------------------------------


def test_the_users_metadata_is_filled_and_a_copy_kept(net: Any, record: Any) -> None:
    theirs = v1.RunMetadata()
    (ours,) = runs(record(lambda: net.run(run_metadata=theirs)))
    assert "multiply" in nodes(theirs)
    assert ours == theirs


def test_the_users_options_are_kept_and_not_changed(net: Any, record: Any) -> None:
    options = v1.RunOptions(output_partition_graphs=True)
    before = options.SerializeToString()
    (run,) = runs(record(lambda: net.run(options=options)))
    assert run.partition_graphs
    assert "multiply" in nodes(run)
    assert options.SerializeToString() == before


@pytest.mark.parametrize("level", ["FULL_TRACE", "HARDWARE_TRACE"])
def test_a_run_that_asks_for_a_native_profiler_of_its_own_works_and_is_told(
    level: str, net: Any, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options, theirs = v1.RunOptions(trace_level=getattr(v1.RunOptions, level)), v1.RunMetadata()

    def twice() -> None:
        for _ in range(2):
            net.run(options=options, run_metadata=theirs)

    with caplog.at_level(logging.WARNING, "unified_profiler"):
        capture = record(twice, record_shapes=True)
    assert len(runs(capture)) == 2
    assert "multiply" in nodes(theirs)
    (problem,) = capture.details["problems"]
    assert level in problem
    assert caplog.text.count(problem) == 1


def test_a_run_may_use_a_native_profiler_of_its_own_where_we_use_none(net: Any, record: Any) -> None:
    options, theirs = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    capture = record(lambda: net.run(options=options, run_metadata=theirs))
    assert capture.details["problems"] == []
    assert runs(capture) == [theirs]


# --- the user's run never fails because of us -----------------------------------------------------------------


def test_a_run_that_raises_raises_the_same_once(record: Any) -> None:
    calls = []

    def fail() -> Any:
        calls.append(1)
        msg = "the user's own mistake"
        raise ValueError(msg)

    with tf.Graph().as_default(), v1.Session() as session:
        fetch = v1.py_func(fail, [], tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError) as expected:
            session.run(fetch)
        found: list[Exception] = []

        def run() -> None:
            with pytest.raises(tf.errors.InvalidArgumentError, match="the user's own mistake") as caught:
                session.run(fetch)
            found.append(caught.value)

        capture = record(run)
    assert len(calls) == 2
    assert str(found[0]).splitlines()[:3] == str(expected.value).splitlines()[:3]
    assert runs(capture) == []


def test_wrong_arguments_give_the_error_they_always_give(net: Any, record: Any) -> None:
    def run() -> None:
        with pytest.raises(AttributeError, match="SerializeToString"):
            net.run(options="wrong")

    assert record(run).details["problems"] == []


@pytest.mark.parametrize("broken", ["tracing_options", "keep"])
def test_a_run_that_cannot_be_traced_gives_its_result_and_is_told(
    broken: str, net: Any, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        msg = "a mistake of ours"
        raise ValueError(msg)

    monkeypatch.setattr(session_collector.SessionCollector, broken, fail)
    results: list[Any] = []
    (problem,) = record(lambda: results.append(net.run(net.loss))).details["problems"]
    assert results == [net.run(net.loss)]
    assert "was not recorded: ValueError: a mistake of ours" in problem


def test_a_run_that_cannot_be_written_down_gives_its_result(net: Any, record: Any, tmp_path: Path) -> None:
    (tmp_path / "run_metadata").write_text("in the way")
    results: list[Any] = []
    capture = record(lambda: results.append(net.run(net.loss)))
    assert results == [net.run(net.loss)]
    (problem,) = capture.details["problems"]
    assert "1 session run(s) were not written" in problem
    assert capture.files == ()


def test_an_index_that_cannot_be_written_is_told_and_the_runs_kept(net: Any, record: Any, tmp_path: Path) -> None:
    (tmp_path / "run_metadata" / "runs.json").mkdir(parents=True)
    capture = record(net.run)
    assert len(runs(capture)) == 1
    assert "index" in capture.details["problems"][0]


def test_a_tensorflow_that_runs_sessions_elsewhere_is_recorded_by_xplane(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(BaseSession, session_collector.RUN_METHOD)
        capture = record(lambda: tf.ones(3) + 1)
    assert [file.suffixes for file in capture.files] == [[".xplane", ".pb"]]
    assert "through internals that this version" in capture.details["problems"][0]


def test_a_tf_keras_that_runs_its_functions_elsewhere_is_told(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tf_keras.src.backend", ModuleType("a version to come"))
    assert "has no GraphExecutionFunction" in record(lambda: None).details["problems"][0]


def test_a_tf_keras_function_of_another_version_runs_and_is_told(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class GraphExecutionFunction:
        def __call__(self, inputs: int) -> int:
            return inputs + 1

    module, results = ModuleType("a version to come"), []
    monkeypatch.setattr(module, "GraphExecutionFunction", GraphExecutionFunction, raising=False)
    monkeypatch.setitem(sys.modules, "tf_keras.src.backend", module)
    (problem,) = record(lambda: results.append(GraphExecutionFunction()(1))).details["problems"]
    assert results == [2]
    assert "has no ['_callable_fn'" in problem


def test_the_weights_after_training_are_the_same(net: Any, record: Any) -> None:
    def train() -> list[float]:
        with net.session.graph.as_default():
            (weights,) = v1.trainable_variables()
        weights.load(np.full((8, 2), 0.125, np.float32), net.session)
        return [float(net.run()[1]) for _ in range(5)]

    expected, found = train(), []
    record(lambda: found.extend(train()))
    assert found == expected


# --- threads and nesting --------------------------------------------------------------------------------------


def test_runs_on_several_threads_are_all_kept(net: Any, record: Any) -> None:
    def four_threads() -> None:
        threads = [threading.Thread(target=lambda: [net.run() for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    capture = record(four_threads)
    assert len(runs(capture)) == 20
    assert len({file.name for file in capture.files}) == 20
    assert all("multiply" in nodes(run) for run in runs(capture))


def test_a_run_under_way_when_recording_ends_is_told(tmp_path: Path) -> None:
    began, leave, results = threading.Event(), threading.Event(), []

    def wait() -> Any:
        began.set()
        leave.wait(timeout=600)
        return np.float32(7)

    with tf.Graph().as_default(), v1.Session() as session:
        fetch = v1.py_func(wait, [], tf.float32)
        recorder = started(tmp_path)
        thread = threading.Thread(target=lambda: results.append(session.run(fetch)))
        thread.start()
        began.wait(timeout=600)
        capture = recorder.stop()
        leave.set()
        thread.join()
    assert results == [7]
    assert runs(capture) == []
    assert "1 session run(s) were still in progress" in capture.details["problems"][0]


def test_a_run_belongs_to_the_step_it_began_in(tmp_path: Path) -> None:
    recorder = started(tmp_path)

    def next_step() -> Any:
        recorder.mark_step(1)
        return np.float32(7)

    with tf.Graph().as_default(), v1.Session() as session:
        fetch = v1.py_func(next_step, [], tf.float32)
        recorder.mark_step(0)
        session.run(fetch)
    assert [entry["step"] for entry in recorder.stop().details["runs"].values()] == [0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_recorders_end_in_any_order_and_leave_the_original(
    order: tuple[int, int], net: Any, tmp_path: Path
) -> None:
    recorders = [started(tmp_path / str(number)) for number in range(2)]
    net.run()
    captures = [recorders[number].stop() for number in order]
    assert [len(runs(capture)) for capture in captures] == [1, 1]


def test_somebody_elses_wrapper_stays(net: Any, record: Any) -> None:
    calls = []

    def wrap() -> None:
        ours = getattr(BaseSession, session_collector.RUN_METHOD)

        @functools.wraps(ours)
        def theirs(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return ours(*args, **kwargs)

        setattr(BaseSession, session_collector.RUN_METHOD, theirs)
        net.run()

    before = getattr(BaseSession, session_collector.RUN_METHOD)
    capture = record(wrap)
    theirs = v1.RunMetadata()
    net.run(run_metadata=theirs)
    assert len(calls) == 2
    assert len(runs(capture)) == 1
    assert nodes(theirs) == set()
    setattr(BaseSession, session_collector.RUN_METHOD, before)


KERAS = """
import os, sys
os.environ["TF_USE_LEGACY_KERAS"] = "1"
from pathlib import Path
import numpy as np, tensorflow as tf
tf.compat.v1.disable_eager_execution()
import tf_keras
from tf_keras.src.backend import GraphExecutionFunction
from unified_profiler.spi import RecordOptions
from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

before = GraphExecutionFunction.__call__
full = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)


class Record(tf_keras.callbacks.Callback):
    captures = []

    def on_train_batch_begin(self, batch, logs=None):
        verbs = {2: "arm", 3: "start", 5: "stop"}
        function = self.model.train_function
        if batch == 2:
            self.callable = function._callable_fn
            folder = Path(sys.argv[1]) / str(len(self.captures))
            folder.mkdir()
            self.recorder = TensorFlowRecorder(RecordOptions(), folder)
        if batch in verbs:
            result = getattr(self.recorder, verbs[batch])()
            self.captures += [result] if result else []
            traced_already = function.run_options is full
            assert (function._callable_fn is self.callable) == (batch in (2, 5) or traced_already)
        if 3 <= batch < 5:
            self.recorder.mark_step(batch)


def fit(callbacks, **options):
    tf_keras.utils.set_random_seed(0)
    layers = tf_keras.layers
    model = tf_keras.Sequential([layers.Dense(4, activation="relu", input_shape=(8,)), layers.Dense(1)])
    model.compile("sgd", "mse", **options)
    x = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    return model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=callbacks).history["loss"], model


expected, _ = fit([])
losses, model = fit([Record()])
assert losses == expected, (losses, expected)
assert GraphExecutionFunction.__call__ is before
assert model.train_function.run_options is None and model.train_function.run_metadata is None
theirs = tf.compat.v1.RunMetadata()
losses, model = fit([Record()], options=full, run_metadata=theirs)
assert losses == expected
assert model.train_function.run_options is full and model.train_function.run_metadata is theirs
assert theirs.step_stats.dev_stats
for capture in Record.captures:
    runs = list(capture.details["runs"].values())
    assert [run["step"] for run in runs] == [3, 4], runs
    for file in capture.files:
        nodes = tf.compat.v1.RunMetadata.FromString(file.read_bytes()).step_stats.dev_stats[0].node_stats
        assert any("MatMul" in node.timeline_label for node in nodes)
print([len(capture.details["problems"]) for capture in Record.captures])
"""


def test_tf_keras_in_graph_mode_is_traced_in_the_recorded_steps_only(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KERAS, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[0, 0, 0, 0]\n"), done.stderr[-3000:]
