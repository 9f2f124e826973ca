"""What MindSpore tells of its memory. There is no Ascend here: the functions beneath `runtime` are stood in for."""

from __future__ import annotations

from types import SimpleNamespace

import mindspore
import pytest
from mindspore import _c_expression as native

import unified_profiler as up
from unified_profiler_mindspore import backend
from unified_profiler_mindspore.record.allocators import allocated_bytes


def stand_in(monkeypatch: pytest.MonkeyPatch, *, initialized: bool) -> None:
    device = SimpleNamespace(initialized=lambda: initialized)
    devices = SimpleNamespace(get_device_context={"Ascend": device, "GPU": None}.get)
    settings = SimpleNamespace(get_param={native.ms_ctx_param.device_id: 3}.get)
    monkeypatch.setattr(native, "DeviceContextManager", SimpleNamespace(get_instance=lambda: devices))
    monkeypatch.setattr(native, "MSContext", SimpleNamespace(get_instance=lambda: settings))
    monkeypatch.setattr(native, "_memory_stats", {"Ascend": {"total_allocated_memory": 1024}}.get)


def test_on_the_cpu_mindspore_does_not_tell() -> None:
    mindspore.ops.ones((10,), mindspore.float32).asnumpy()
    assert allocated_bytes() == {}
    assert mindspore.runtime.memory_allocated() == 0


def test_what_is_asked_is_what_mindspore_itself_asks() -> None:
    assert "total_allocated_memory" in native._memory_stats("CPU")
    assert native.MSContext.get_instance().get_param(native.ms_ctx_param.device_id) == 0


def test_a_device_that_is_set_up_tells_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, initialized=True)
    assert backend.abilities.allocated_bytes is not None
    assert backend.abilities.allocated_bytes() == {"npu:3": 1024}


def test_asking_sets_up_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, initialized=False)
    assert allocated_bytes() == {}


def test_the_counter_is_in_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, initialized=True)
    with up.Profiler(backend="mindspore", operators=False, strict=True) as prof:
        pass
    rows = [row for row in prof.traces[0].events.to_pylist() if row["name"] == "mindspore memory bytes"]
    assert {(row["device"], row["value"]) for row in rows} == {("npu:3", 1024)}
