"""Regions never get into the way of the user's block: whatever is given to them, and whatever goes wrong in them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unified_profiler as up
from unified_profiler.errors import ArgumentError, ConfigurationError
from unified_profiler.testing import FakeBackend, FakeClock, FakeSurface


class OwnError(Exception):
    """What the user's block raises."""


class Textless:
    def __str__(self) -> str:
        msg = "no text"
        raise OwnError(msg)

    __repr__ = __str__


class OnlyRepr(Textless):
    def __repr__(self) -> str:
        return "OnlyRepr()"


class Unsteady(dict[str, int]):
    def items(self) -> Any:
        msg = "changed while it was read"
        raise RuntimeError(msg)


def circular() -> dict[str, Any]:
    meta: dict[str, Any] = {"batch": 3}
    meta["self"] = meta
    return meta


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ODD_META = {
    "a tuple as key": ({(1, 2): 3}, {"(1, 2)": 3}),
    "a number and a tuple as keys": ({(1, 2): 3, 4: 5}, {"(1, 2)": 3, "4": 5}),
    "an object as key": ({Textless(): 1}, {"<Textless>": 1}),
    "itself": (circular(), {"batch": 3, "self": "<dict>"}),
    "no text": ({"model": Textless(), "batch": 3}, {"model": "<Textless>", "batch": 3}),
    "only repr": ([OnlyRepr()], ["OnlyRepr()"]),
    "not a number": ({"loss": float("nan"), "batch": 3}, {"loss": "nan", "batch": 3}),
    "infinite": ([float("inf"), -float("inf")], ["inf", "-inf"]),
    "huge": ({"seed": 10**5000, "batch": 3}, {"seed": f"int of {(10**5000).bit_length()} bits", "batch": 3}),
    "half a character": ({"\ud800": "\udfff"}, {"\\ud800": "\\udfff"}),
    "changes": ({"inner": Unsteady(a=1), ("tuple",): 1}, {"inner": "<Unsteady>", "('tuple',)": 1}),
    "bytes": (b"\xff", "b'\\xff'"),
}


def strict_json(text: str) -> Any:
    """Read JSON as other programs do: neither NaN nor half characters are in it."""
    text.encode()
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def regions_of(prof: up.Profiler) -> list[dict[str, Any]]:
    return [row for trace in prof.traces for row in trace.events.to_pylist() if row["kind"] == "region"]


def profiler(clock: Callable[[], int] | None = None, **options: Any) -> up.Profiler:
    return up.Profiler(level=1, clock=clock or FakeClock(), hardware_hz=0, **options)


@pytest.mark.parametrize(("meta", "stored"), ODD_META.values(), ids=ODD_META)
def test_what_json_can_hold_of_any_meta_is_stored(meta: Any, stored: Any) -> None:
    prof = profiler()
    with prof, prof.region("forward", meta=meta):
        pass
    (row,) = regions_of(prof)
    assert strict_json(row["attributes"]) == {"meta": stored}
    assert prof.failures == ()


@pytest.mark.parametrize("meta", [meta for meta, _ in ODD_META.values()], ids=ODD_META)
def test_what_the_block_raises_is_what_the_user_sees(meta: Any) -> None:
    prof, error = profiler(), OwnError("mine")
    with pytest.raises(OwnError) as caught, prof, prof.region("forward", meta=meta):
        raise error
    assert caught.value is error
    assert caught.value.__context__ is None


@pytest.mark.parametrize("meta", [meta for meta, _ in ODD_META.values()], ids=ODD_META)
def test_a_region_that_is_open_at_the_end_is_kept_with_any_meta(meta: Any) -> None:
    prof = profiler()
    prof.start()
    prof.region_begin("whole", meta=meta)
    prof.stop()
    prof.region_end("whole")
    assert [row["name"] for row in regions_of(prof)] == ["whole"]


def test_meta_that_is_nested_too_deeply_leaves_the_block_alone() -> None:
    prof = profiler()
    with prof, prof.region("forward", meta={"deep": nested(100_000), "batch": 3}):
        pass
    (row,) = regions_of(prof)
    assert strict_json(row["attributes"])["meta"]["batch"] == 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.tuples(st.integers()), inner),
    )
)
def test_any_meta_becomes_valid_json(meta: Any) -> None:
    prof = profiler()
    with prof, prof.region("forward", meta=meta):
        pass
    (row,) = regions_of(prof)
    if meta is not None:
        assert list(strict_json(row["attributes"])) == ["meta"]


def test_odd_meta_and_thread_names_do_no_harm_on_another_thread(tmp_path: Path) -> None:
    prof, raised = profiler(output_dir=tmp_path, deliver="deferred"), []

    def work() -> None:
        try:
            with prof.region("work", meta=circular()):
                pass
        except Exception as error:  # noqa: BLE001  nothing else would tell of it
            raised.append(error)

    with prof:
        thread = threading.Thread(target=work, name="half \ud800")
        thread.start()
        thread.join()
    assert raised == []
    assert [row["thread"] for row in regions_of(prof)] == ["half \\ud800"]
    assert prof.failures == ()


def test_a_main_thread_of_any_name_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.current_thread(), "_name", "half \udc80")
    with profiler() as prof:
        prof.step()
    assert prof.failures == ()
    assert prof.traces[0].events.column("thread")[0].as_py() == "half \\udc80"


class BrokenClock(FakeClock):
    """Fails while it is told to."""

    broken = False

    def __call__(self) -> int:
        if self.broken:
            msg = "the clock failed"
            raise MemoryError(msg)
        return super().__call__()


def test_a_clock_that_fails_is_kept_as_one_failure_and_the_loop_goes_on() -> None:
    clock = BrokenClock()
    prof = profiler(clock)
    with prof:
        clock.broken = True
        for _ in range(100):
            with prof.region("forward"):
                pass
        clock.broken = False
        with prof.region("after"):
            pass
    assert [row["name"] for row in regions_of(prof)] == ["after"]
    assert [(failure.source, failure.error) for failure in prof.failures] == [
        ("region", "MemoryError: the clock failed")
    ]


def test_a_clock_that_fails_at_the_end_of_a_block_does_not_hide_its_exception() -> None:
    clock, error = BrokenClock(), OwnError()
    prof = profiler(clock)
    prof.start()
    with pytest.raises(OwnError) as caught, prof.region("forward"):  # noqa: PT012  the clock breaks in between
        clock.broken = True
        raise error
    clock.broken = False
    prof.stop()
    assert caught.value is error


def test_a_clock_that_is_set_back_leaves_an_empty_span() -> None:
    clock = FakeClock()
    with profiler(clock) as prof, prof.region("forward"):
        clock.advance(-50_000)
    (row,) = regions_of(prof)
    assert row["duration_ns"] == 0


def test_the_same_object_may_be_open_several_times() -> None:
    prof = profiler()
    with prof:
        region = prof.region("twice")
        with region, region:
            pass
    inner, outer = sorted(regions_of(prof), key=lambda row: row["duration_ns"])
    assert outer["start_ns"] < inner["start_ns"]
    assert inner["start_ns"] + inner["duration_ns"] < outer["start_ns"] + outer["duration_ns"]


def test_an_object_that_two_threads_share_gives_each_its_own_span() -> None:
    clock = FakeClock(tick_ns=0)
    prof, entered, left = profiler(clock), threading.Event(), threading.Event()
    region = prof.region("shared")

    def work() -> None:
        with region:
            entered.set()
            left.wait(60)

    with prof:
        start = clock()
        with region:
            clock.advance(1000)
            thread = threading.Thread(target=work, name="worker")
            thread.start()
            entered.wait(60)
            clock.advance(1000)
        left.set()
        thread.join()
    spans = {row["thread"] == "worker": (row["start_ns"] - start, row["duration_ns"]) for row in regions_of(prof)}
    assert spans == {False: (0, 2000), True: (1000, 1000)}


def test_a_region_that_was_never_begun_may_end() -> None:
    with profiler() as prof:
        prof.region("never").__exit__(None, None, None)
    assert regions_of(prof) == []


CALLS: dict[str, Callable[[up.Profiler, Any], Any]] = {
    "region": lambda prof, name: prof.region(name),
    "region_begin": lambda prof, name: prof.region_begin(name),
    "region_end": lambda prof, name: prof.region_end(name),
}


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", [None, 3, b"forward", ["forward"], len], ids=["None", "int", "bytes", "list", "call"])
@pytest.mark.parametrize("call", CALLS)
def test_a_name_that_is_no_text_is_refused_at_the_call(call: str, name: Any, level: int) -> None:
    prof = up.Profiler(level=level)
    with pytest.raises(ArgumentError, match=rf"must be a str; {call}\(\.\.\.\) got {type(name).__name__}"):
        CALLS[call](prof, name)
    with pytest.raises(TypeError):
        CALLS[call](prof, name)
    with pytest.raises(ConfigurationError):
        CALLS[call](prof, name)


# --- what else of the user's runs while recording ------------------------------------------------------------------


def test_a_handler_whose_error_has_no_text_is_a_failure() -> None:
    class SilentError(OwnError):
        __str__ = __repr__ = Textless.__str__

    def broken(trace: up.Trace) -> None:
        raise SilentError

    with profiler(on_trace_ready=broken) as prof:
        prof.step()
    assert [failure.error for failure in prof.failures] == ["SilentError: <SilentError>"]


def test_a_failure_with_half_a_character_is_written(tmp_path: Path) -> None:
    def broken(trace: up.Trace) -> None:
        msg = "\ud800"
        raise OwnError(msg)

    with profiler(on_trace_ready=broken, output_dir=tmp_path) as prof:
        prof.step()
    assert [failure.error for failure in up.read(tmp_path).manifests[0].failures] == ["OwnError: \\ud800"]


def test_a_schedule_that_raises_an_error_without_text_is_a_failure() -> None:
    def phase_of(step: int) -> up.Phase:
        return Textless()  # type: ignore[return-value]

    with profiler(schedule=phase_of) as prof:
        prof.step()
    assert {failure.source for failure in prof.failures} == {"schedule"}


def test_something_else_than_a_trace_cannot_be_added() -> None:
    with pytest.raises(ArgumentError, match="takes a Trace"):
        profiler().add_trace("run")  # type: ignore[arg-type]


def test_the_events_of_a_trace_that_is_added_have_its_number_in_the_run() -> None:
    with profiler() as prof:
        prof.step()
    with profiler() as other:
        other.step()
    other.add_trace(prof.traces[0])
    added = other.traces[1]
    assert (added.info.cycle, set(added.events.column("cycle").to_pylist())) == (1, {1})


def test_a_trace_whose_file_is_gone_is_a_failure_when_it_is_added(tmp_path: Path) -> None:
    with profiler(output_dir=tmp_path) as prof:
        prof.step()
    (trace,) = up.read(tmp_path).traces
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    other = profiler()
    other.add_trace(trace)
    assert [failure.action for failure in other.failures] == ["add a trace"]


def test_a_model_that_cannot_list_its_modules_is_a_failure_and_its_calls_are_recorded() -> None:
    surface = FakeSurface()
    backend = FakeBackend(surface=surface)

    class Odd(surface.module.Module):  # type: ignore[misc, name-defined]
        @property
        def parts(self) -> Any:
            msg = "parts changed"
            raise OwnError(msg)

        @parts.setter
        def parts(self, value: Any) -> None: ...

        def forward(self, x: int) -> Any:
            return surface.module.Twice()(x)

    with up.Profiler(backend=backend, clock=backend.clock, with_modules=True, operators=False) as prof:
        for _ in range(3):
            Odd()(4)
    modules = [row["module"] for row in prof.traces[0].events.to_pylist() if row["kind"] == "module"]
    assert "Odd.Twice" in modules
    assert [failure.error for failure in prof.failures].count("OwnError: parts changed") >= 1
