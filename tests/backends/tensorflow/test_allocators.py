"""What TensorFlow tells of its memory. There are no GPUs here: the context is made to name some."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import unified_profiler as up
from unified_profiler_tensorflow import backend
from unified_profiler_tensorflow.record.allocators import allocated_bytes

UNUSED = """
import tensorflow as tf
from tensorflow.python.eager import context
from unified_profiler_tensorflow.record.allocators import allocated_bytes
assert allocated_bytes() == {}
found = context.context_safe()
assert found is None or not found._initialized
"""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    tf.constant(1)
    made = context.context_safe()

    def devices(kind: str | None = None) -> list[Any]:
        return [SimpleNamespace(name=f"/device:GPU:{number}") for number in range(3)] if kind == "GPU" else []

    def memory(name: str) -> dict[str, int]:
        if name == "/device:GPU:2":
            message = "Allocator stats not available for device"
            raise ValueError(message)
        return {"current": {"/device:GPU:0": 1024, "/device:GPU:1": 0}[name], "peak": 4096}

    monkeypatch.setattr(made, "list_logical_devices", devices)
    monkeypatch.setattr(made, "get_memory_info", memory)


def test_on_the_cpu_tensorflow_does_not_tell() -> None:
    tf.ones([10])
    assert allocated_bytes() == {}


def test_the_context_answers_to_the_names_of_its_devices() -> None:
    tf.ones([10])
    made = context.context_safe()
    (device,) = made.list_logical_devices("CPU")
    with pytest.raises(ValueError, match="No matching devices"):
        made.get_memory_info("/device:GPU:9")
    with suppress(ValueError):  # it keeps no account, depending on the allocator, but the name is understood
        assert set(made.get_memory_info(device.name)) == {"current", "peak"}


def test_asking_sets_up_no_device() -> None:
    result = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.usefixtures("gpus")
def test_each_gpu_that_keeps_account_tells_what_it_holds() -> None:
    assert backend.abilities.allocated_bytes is not None
    assert backend.abilities.allocated_bytes() == {"cuda:0": 1024, "cuda:1": 0}


@pytest.mark.usefixtures("gpus")
def test_the_counter_is_in_the_trace() -> None:
    with up.Profiler(backend="tensorflow", operators=False, strict=True) as prof:
        tf.ones([10])
    rows = [row for row in prof.traces[0].events.to_pylist() if row["name"] == "tensorflow memory bytes"]
    assert {(row["device"], row["value"], row["framework"]) for row in rows} == {
        ("cuda:0", 1024, None),
        ("cuda:1", 0, None),
    }


def test_stacks_of_the_profilers_thread_are_not_recorded() -> None:
    with up.Profiler(backend="tensorflow", with_stack=True, hardware_hz=1000, strict=True) as prof:
        for _ in range(20):
            tf.linalg.matmul(tf.ones([100, 100]), tf.ones([100, 100]))
    rows = prof.traces[0].events.to_pylist()
    assert "process memory bytes" in {row["name"] for row in rows}
    frames = {row["name"] for row in rows if "hardware" in row["name"]}
    assert not {name for name in frames if name.endswith((" read", " _read", " _run"))}
