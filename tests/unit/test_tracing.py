"""API calls as a part of a Profiler, and `trace_api`: on a framework made up for tests."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError, OutputDirectoryError, UsageError
from unified_profiler.recording import execution
from unified_profiler.recording.api import call_log, tracer
from unified_profiler.testing import FakeBackend, FakeSurface
from unified_profiler.testing import recorded_calls as rows


@pytest.fixture
def surface() -> FakeSurface:
    return FakeSurface()


def profiler(surface: FakeSurface | None, **options: Any) -> up.Profiler:
    backend = FakeBackend(surface=surface)
    return up.Profiler(backend=backend, clock=backend.clock, **{"api": True, **options})


def test_calls_of_recorded_steps_are_recorded_in_their_steps(surface: FakeSurface) -> None:
    code = surface.module.norm.__code__
    with profiler(surface, schedule=up.schedule(wait=1, warmup=1, active=2, repeat=2)) as prof:
        for step in range(10):
            assert (surface.module.norm.__code__ is code) == (step % 4 == 0 or step > 7), "traced only where needed"
            surface.module.norm(step)
            prof.step()
    assert [(row["step"], row["cycle"], row["name"]) for row in rows(prof)] == [
        (2, 0, "madeup.norm"),
        (3, 0, "madeup.norm"),
        (6, 1, "madeup.norm"),
        (7, 1, "madeup.norm"),
    ]
    assert [row["attributes"] for row in rows(prof)] == [f'{{"args":["{step}"]}}' for step in (2, 3, 6, 7)]
    assert {(row["layer"], row["framework"]) for row in rows(prof)} == {("api", "fake")}


def test_operators_lie_in_the_calls_around_them(surface: FakeSurface) -> None:
    backend = FakeBackend(surface=surface)
    with up.Profiler(backend=backend, clock=backend.clock, api=True) as prof:
        surface.module.apply(backend.op, "fake::op")
    (call,), (operator,) = rows(prof), rows(prof, "op")
    assert operator["parent_id"] == call["id"]


def test_modules_carry_over_to_operators(surface: FakeSurface) -> None:
    backend = FakeBackend(surface=surface)

    class Net(surface.module.Module):  # type: ignore[name-defined,misc]
        def forward(self, _: Any) -> None:
            backend.op("fake::outer")
            self.parts["inner"](1)

    class Inner(surface.module.Module):  # type: ignore[name-defined,misc]
        def forward(self, _: Any) -> None:
            backend.op("fake::inner")

    with up.Profiler(backend=backend, clock=backend.clock, with_modules=True) as prof:
        Net(inner=Inner())(1)
        backend.op("fake::none")
    found = {row["name"]: row["module"] for row in rows(prof, "op")}
    assert found == {"fake::outer": "Net", "fake::inner": "inner", "fake::none": None}
    table = up.op_table(prof.run, by="module").table.to_pylist()
    assert {row["module"]: row["call_count"] for row in table} == {"Net": 1, "inner": 1, None: 1}
    assert {row["name"] for row in up.op_table(prof.run).table.to_pylist()} == set(found)


def test_without_operators_the_native_profiler_stays_off(surface: FakeSurface) -> None:
    backend = FakeBackend(surface=surface)
    with up.Profiler(backend=backend, api=True, operators=False) as prof:
        surface.module.norm(1)
    assert backend.calls == []
    assert [row["name"] for row in rows(prof)] == ["madeup.norm"]
    assert set(prof.traces[0].info.frameworks) == {"fake"}


@pytest.mark.parametrize("level", [0, 1])
def test_below_level_2_nothing_is_traced(surface: FakeSurface, level: int) -> None:
    code = surface.module.norm.__code__
    with profiler(surface, level=level) as prof:
        assert surface.module.norm.__code__ is code
    assert rows(prof) == []


def test_options_are_those_of_the_mapping(surface: FakeSurface) -> None:
    with profiler(surface, api={"inside": True, "exclude": "madeup.sq*", "arguments": False}) as prof:
        surface.module.norm(4)
    assert [(row["name"], row["attributes"]) for row in rows(prof)] == [("madeup.norm", None)]


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ({"insid": True}, r"option 'api.insid' is wrong"),
        ({"inside": "deep"}, r"option 'api.inside' is wrong"),
        (3, r"option 'api' is wrong"),
    ],
)
def test_wrong_options_are_refused(api: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        up.Profiler(api=api)


def test_a_pattern_that_matches_nothing_is_refused_when_tracing_begins(surface: FakeSurface) -> None:
    prof = profiler(surface, api={"include": ["madeup.nrom"]})
    with pytest.raises(ConfigurationError, match=r"'madeup.nrom', which matches no API.*'madeup.norm'"):
        prof.start()
    assert not prof.running


def test_a_pattern_that_matches_nothing_in_a_framework_imported_later_is_a_failure(
    surface: FakeSurface, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FakeBackend(module="madeup", surface=surface)
    with up.Profiler(
        backend=backend, schedule=up.schedule(wait=1, warmup=0, active=1), api={"include": "nrom"}
    ) as prof:
        monkeypatch.setitem(sys.modules, "madeup", surface.module)
        prof.step()
        surface.module.norm(1)
        prof.step()
    assert [(failure.source, failure.action) for failure in prof.failures][:1] == [("profiler", "trace API calls")]
    assert "'nrom', which matches no API" in prof.failures[0].error


def test_a_framework_that_is_not_imported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    with pytest.raises(UsageError, match=r"tensorflow is not imported.*`import tensorflow`"):
        up.trace_api(backend="tensorflow").start()


def test_no_framework_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unified_profiler.registry.detect", lambda _: ())
    with pytest.raises(UsageError, match="No framework is imported"):
        up.trace_api().start()


def test_a_surface_that_fails_is_a_failure_and_the_program_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    surface = FakeSurface(fails=True)
    code = surface.module.norm.__code__
    with caplog.at_level(logging.ERROR), profiler(surface) as prof:
        assert surface.module.norm(3) == 3
    assert [(failure.source, failure.action) for failure in prof.failures] == [("fake", "trace API calls")]
    assert surface.module.norm.__code__ is code
    assert len(caplog.records) == 1


def test_a_backend_without_a_surface_traces_nothing() -> None:
    with profiler(None) as prof:
        pass
    assert not prof.failures
    assert prof.traces[0].info.frameworks


@pytest.mark.parametrize("deliver", ["immediate", "deferred"])
def test_many_calls_are_written_in_parts(
    deliver: str, surface: FakeSurface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer, "_FULL", 50 * call_log.ROW.size)
    monkeypatch.setattr(execution, "PART", 100)
    with profiler(surface, operators=False, output_dir=tmp_path, deliver=deliver) as prof:
        for number in range(1000):
            surface.module.norm(number)
            if number % 100 == 99:
                prof.step()
    assert len(prof.traces) == 11, "ten, and what came after the last of them"
    found = [(row["attributes"], row["step"]) for row in rows(prof)]
    assert found == [(f'{{"args":["{number}"]}}', number // 100) for number in range(1000)]
    again = [row for trace in up.read(tmp_path).traces for row in trace.events.to_pylist() if row["kind"] == "api_call"]
    assert len(again) == 1000
    assert not prof.failures


def test_an_exception_in_the_block_leaves_nothing_behind(surface: FakeSurface) -> None:
    code = surface.module.fail.__code__

    def fail() -> None:
        with profiler(surface):
            surface.module.fail()

    with pytest.raises(ValueError, match="no"):
        fail()
    assert surface.module.fail.__code__ is code


def test_an_interrupted_warm_up_leaves_nothing_behind(surface: FakeSurface) -> None:
    code = surface.module.norm.__code__
    with profiler(surface, schedule=up.schedule(wait=0, warmup=2, active=1)) as prof:
        assert surface.module.norm.__code__ is not code
    assert surface.module.norm.__code__ is code
    assert prof.traces == ()


def test_calls_are_logged_to_the_screen_and_to_a_file(
    surface: FakeSurface, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "performance.log"
    file.write_text("the last run\n")
    with up.log_api_calls(file) as log, profiler(surface):
        log.info("epoch 1")
        surface.module.norm(1)
    first, second, call = file.read_text().splitlines()
    assert (first, second) == ("the last run", "epoch 1")
    assert "madeup.norm" in call
    assert capsys.readouterr().out.splitlines() == [second, call]


def test_logging_calls_leaves_nothing_behind(surface: FakeSurface, tmp_path: Path) -> None:
    logger = logging.getLogger("unified_profiler.api")
    before = logger.level, list(logger.handlers)
    with pytest.raises(KeyError), up.log_api_calls(tmp_path / "calls.log"):
        raise KeyError
    assert (logger.level, logger.handlers) == before
    with profiler(surface):
        surface.module.norm(1)
    assert (tmp_path / "calls.log").read_text() == ""


def test_calls_may_be_printed_only(surface: FakeSurface, capsys: pytest.CaptureFixture[str]) -> None:
    with up.log_api_calls(), profiler(surface):
        surface.module.norm(1)
    assert "madeup.norm" in capsys.readouterr().out


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputDirectoryError, match="cannot be logged to"), up.log_api_calls(tmp_path / "no" / "file"):
        pass
