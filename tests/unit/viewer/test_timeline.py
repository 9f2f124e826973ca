from __future__ import annotations

import gzip
import json
import re
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

from unified_profiler.errors import ExportError
from unified_profiler.export import Overlay
from unified_profiler.model.run import Run
from unified_profiler.testing.builders import TraceBuilder
from unified_profiler.viewer import first_step, showing

BASE = 1_790_857_026_000_000_000


@pytest.fixture
def run() -> Run:
    early = TraceBuilder(rank=1).op("before", BASE, 50).step(0, BASE + 100, 1000).step(1, BASE + 1100, 700)
    late = TraceBuilder().step(0, BASE + 120, 900).op("aten::relu", BASE + 130, 10)
    return Run(traces=(late.build(), early.build()))


def trace_address(address: str) -> str:
    found = re.search(r"url=([^&]+)", address)
    assert found
    return found[1]


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address) as response:  # noqa: S310  our own
        body: bytes = response.read()
    return body


def test_the_trace_is_served_as_it_is_exported(run: Run) -> None:
    with showing(run) as timeline:
        document = json.loads(gzip.decompress(fetch(trace_address(timeline.address))))
    names = [event["name"] for event in document["traceEvents"] if event["ph"] == "X"]
    assert sorted(names) == ["aten::relu", "before", "step 0", "step 0", "step 1"]
    assert timeline.event_count == 5


def test_an_overlay_is_served_with_the_trace(run: Run) -> None:
    spans = pa.table({"name": ["wait"], "lane": ["main"], "start_ns": [BASE + 10], "end_ns": [BASE + 20]})
    with showing(run, overlays=[Overlay(spans)]) as timeline:
        document = json.loads(gzip.decompress(fetch(trace_address(timeline.address))))
    assert [event["name"] for event in document["traceEvents"] if event["ph"] == "B"] == ["wait"]


def test_nothing_is_left_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with showing(run) as timeline:
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    with pytest.raises(urllib.error.URLError):
        fetch(timeline.address)


def test_other_users_cannot_read_the_temporary_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with showing(run):
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o077 == 0


def test_the_title_is_the_name_of_the_file_in_characters_that_mean_nothing(run: Run) -> None:
    with showing(run, title="my run/#1?&x=../é") as timeline:
        assert timeline.address.split("/trace/")[1].split("/")[1].startswith("my_run_1_x_.._.json.gz&")


def test_the_first_step_is_shown_in_the_time_of_the_file(run: Run) -> None:
    assert first_step(run) == (100, 1100)


def test_a_run_without_steps_is_shown_as_a_whole() -> None:
    assert first_step(Run(traces=(TraceBuilder().op("a", 5, 1).build(),))) is None


@pytest.mark.parametrize(
    ("run", "found"),
    [(Run(traces=()), "no trace"), (Run(traces=(TraceBuilder().build(),)), "traces without any event")],
)
def test_a_run_with_nothing_to_show_is_refused(run: Run, found: str) -> None:
    with pytest.raises(ExportError, match=f"holds {found}, so there is no timeline to show"), showing(run):
        pass
