from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from unified_profiler import registry
from unified_profiler.errors import TraceFormatError
from unified_profiler.export.compat.models_layout import write_models_layout
from unified_profiler.model.run import Run
from unified_profiler.model.storage import read_parquet, write_parquet
from unified_profiler.spi import Abilities, StepStatistics
from unified_profiler.testing import FakeBackend, TraceBuilder

BASE = 1_790_857_026_123_456_789
Listing = Callable[[Path], Iterable[StepStatistics]]


@dataclass(frozen=True)
class Reporter:
    """A backend of which nothing but its statistics is asked."""

    list_statistics: Listing
    name: str = "fake"

    @property
    def abilities(self) -> Abilities:
        return Abilities(step_statistics=self.list_statistics)


def run(step: int | None, graph: str | None, text: str) -> StepStatistics:
    return StepStatistics(step=step, graph=graph, text=lambda: text)


def damaged() -> str:
    msg = "run.pb is damaged."
    raise TraceFormatError(msg)


def one_step(*, rank: int = 0, cycle: int = 0, step: int = 0, graph: str | None = "net") -> TraceBuilder:
    start = BASE + cycle * 10_000
    attributes = None if graph is None else json.dumps({"graph": graph})
    return TraceBuilder(rank=rank, cycle=cycle).step(step, start, 1000).op("add", start, 10, attributes=attributes)


def on_disk(folder: Path, *builders: TraceBuilder, native: bool = True) -> Run:
    """Traces in the files of a run directory, with or without native files beside them."""
    traces = []
    for trace in (builder.build() for builder in builders):
        file = folder / f"rank-{trace.info.rank:05d}" / f"cycle-{trace.info.cycle:05d}.parquet"
        kept = file.parent / "native" / file.stem / "fake"
        (kept if native else file.parent).mkdir(parents=True, exist_ok=True)
        write_parquet(trace, file)
        traces.append(read_parquet(file))
    return Run(traces=tuple(traces))


def written(source: Run, folder: Path) -> dict[str, str]:
    """The statistics of each step; of one that is written as events, the word `events`."""
    stats = write_models_layout(source, folder) / "step_stats"
    texts = {path.name: path.read_text() for path in sorted(stats.iterdir())}
    return {name: "events" if text.startswith('{"id":') else text for name, text in texts.items()}


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> Callable[[Listing], None]:
    """Lets a backend be the only one, which lists these statistics."""

    def install(listing: Listing) -> None:
        monkeypatch.setattr(registry, "backends", lambda: {"fake": Reporter(listing)})

    return install


def test_the_runs_of_a_graph_in_a_step_follow_one_another(reporting: Callable[..., None], tmp_path: Path) -> None:
    reporting(lambda _: [run(0, "net", "a"), run(0, None, "x"), run(0, "net", "b"), run(1, "net", "later")])
    source = on_disk(tmp_path / "run", one_step().op("mul", BASE + 20, 10))
    assert written(source, tmp_path / "out") == {"fake_step_0": "x", "net_step_0": "ab"}


def test_ranks_and_cycles_have_their_own_statistics(reporting: Callable[..., None], tmp_path: Path) -> None:
    reporting(lambda folder: [run(0, "net", folder.relative_to(tmp_path / "run").as_posix())])
    parts = [one_step(rank=rank, cycle=cycle) for rank in (0, 1) for cycle in (0, 1)]
    assert written(on_disk(tmp_path / "run", *parts), tmp_path / "out") == {
        "net_rank_0_step_0": "rank-00000/native/cycle-00000/fake",
        "net_rank_0_step_0_2": "rank-00000/native/cycle-00001/fake",
        "net_rank_1_step_0": "rank-00001/native/cycle-00000/fake",
        "net_rank_1_step_0_2": "rank-00001/native/cycle-00001/fake",
    }


def test_statistics_outside_all_steps_are_left_out(reporting: Callable[..., None], tmp_path: Path) -> None:
    reporting(lambda _: [run(None, "net", "outside")])
    assert written(on_disk(tmp_path / "run", one_step()), tmp_path / "out") == {"net_step_0": "events"}


def test_of_a_trace_without_steps_everything_is_step_0(reporting: Callable[..., None], tmp_path: Path) -> None:
    reporting(lambda _: [run(None, "net", "a"), run(7, "net", "b")])
    builder = TraceBuilder().op("add", BASE, 10, attributes='{"graph":"net"}')
    assert written(on_disk(tmp_path / "run", builder), tmp_path / "out") == {"net_step_0": "ab"}


def test_nothing_is_asked_without_native_files(reporting: Callable[..., None], tmp_path: Path) -> None:
    reporting(lambda _: pytest.fail("there is nothing to read"))
    source = on_disk(tmp_path / "run", one_step(), native=False)
    assert written(source, tmp_path / "out") == {"net_step_0": "events"}
    assert written(Run(traces=(one_step().build(),)), tmp_path / "memory") == {"net_step_0": "events"}


def test_a_backend_without_statistics_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "backends", lambda: {"fake": FakeBackend()})
    assert written(on_disk(tmp_path / "run", one_step()), tmp_path / "out") == {"net_step_0": "events"}


def test_damaged_statistics_are_told_and_nothing_of_them_is_left(
    reporting: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reporting(lambda _: [run(0, "net", "half"), StepStatistics(step=0, graph="net", text=damaged), run(0, None, "x")])
    source = on_disk(tmp_path / "run", one_step().op("mul", BASE + 20, 10))
    assert written(source, tmp_path / "out") == {"fake_step_0": "x", "net_step_0": "events"}
    assert caplog.messages == ["run.pb is damaged. Step 0 of net is written as events instead."]


def test_a_backend_that_fails_is_told(
    reporting: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reporting(lambda folder: [run(1 // len(folder.name.replace("fake", "")), "net", "never")])
    assert written(on_disk(tmp_path / "run", one_step()), tmp_path / "out") == {"net_step_0": "events"}
    (message,) = caplog.messages
    assert "ZeroDivisionError" in message
    assert message.endswith("The statistics of its steps are written as events instead.")


def test_native_files_that_are_a_link_out_of_the_run_are_not_read(
    reporting: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reporting(lambda _: [run(0, "net", "secret")])
    source = on_disk(tmp_path / "run", one_step())
    kept = tmp_path / "run" / "rank-00000" / "native" / "cycle-00000" / "fake"
    kept.rmdir()
    (tmp_path / "elsewhere").mkdir()
    kept.symlink_to(tmp_path / "elsewhere")
    assert written(source, tmp_path / "out") == {"net_step_0": "events"}
    assert "leads out of" in caplog.text


def test_an_earlier_layout_is_replaced_with_its_native_statistics(
    reporting: Callable[..., None], tmp_path: Path
) -> None:
    reporting(lambda _: [run(3, "net", "earlier")])
    assert written(on_disk(tmp_path / "first", one_step(step=3)), tmp_path / "out") == {"net_step_3": "earlier"}
    (tmp_path / "out" / "step_stats" / "mine_step_1").write_text("mine")
    later = on_disk(tmp_path / "second", one_step(step=4))
    assert written(later, tmp_path / "out") == {"mine_step_1": "mine", "net_step_4": "events"}
    assert [path.name for path in (tmp_path / "out" / "timeline").iterdir()] == ["net_step_4"]
