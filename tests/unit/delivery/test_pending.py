from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.delivery.pending import is_pending, load, remove_cycle_folder, store
from unified_profiler.model.records import StepSignal, TraceInfo
from unified_profiler.recording.regions import NamedSpan
from unified_profiler.recording.window import Step, Window
from unified_profiler.spi import NativeCapture
from unified_profiler.testing import TraceBuilder


def ended(folder: Path, **details: Any) -> EndedCycle:
    events = TraceBuilder().op("a", 0, 10).op("b", 2, 5).build().events
    window = Window(
        cycle=3,
        start_ns=1 << 60,
        end_ns=(1 << 60) + 5,
        tid=7,
        thread="Hauptstraße",
        pid=12,
        steps=(Step(number=4, start_ns=1, end_ns=2), Step(number=5, start_ns=2, end_ns=3, finished=False)),
        regions=(NamedSpan("forward", 1, 2, 7, "main", None), NamedSpan("loss", 1, 2, 7, "main", '{"meta": 1}')),
        calls=events,
        counters=events.slice(1),
        waited=True,
        traced={"torch": "2.13"},
    )
    file = folder / "torch" / "trace.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    capture = NativeCapture(backend="torch", files=(file,), framework_version="2.13", stop_ns=9, details=details)
    info = TraceInfo(run="r", cycle=3, complete=False, step_signal=StepSignal(name="optimizer"), hints=("x",))
    return EndedCycle(window=window, info=info, captures=(capture,), step=5, keep_native=True)


def test_a_cycle_comes_back_as_it_was_wherever_its_folder_is(tmp_path: Path) -> None:
    cycle = ended(tmp_path / "here", pid=1, names=["a", None], nested={"x": 1.5, "y": [1 << 63, True]})
    store(cycle, tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    back = load(tmp_path / "there")
    assert back.window == cycle.window
    assert (back.info, back.step, back.keep_native) == (cycle.info, 5, True)
    (capture,) = back.captures
    assert capture.files == (tmp_path / "there" / "torch" / "trace.json",)
    assert (capture.details, capture.stop_ns) == (cycle.captures[0].details, 9)


@pytest.mark.parametrize(
    "details", [{"it": object()}, {"it": {1: 2}}, {"it": [float("nan")]}, {"it": {"a"}}, {"it": b""}, {"it": "\udc80"}]
)
def test_what_cannot_be_written_down_leaves_no_cycle(details: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError)):
        store(ended(tmp_path, **details), tmp_path)
    assert not is_pending(tmp_path)


def test_a_disk_that_fills_up_leaves_no_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        store(ended(tmp_path), tmp_path)
    assert not is_pending(tmp_path)


def test_files_that_are_put_away_are_the_native_ones_alone(tmp_path: Path) -> None:
    store(ended(tmp_path / "cycle"), tmp_path / "cycle")
    remove_cycle_folder(tmp_path / "cycle", native=tmp_path / "native" / "cycle")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()] == [
        "native/cycle/torch/trace.json"
    ]
