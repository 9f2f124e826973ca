from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.analysis import api_table, op_table, step_breakdown
from unified_profiler.analysis.rank_table import rank_table
from unified_profiler.errors import TraceFormatError
from unified_profiler.model.run import Run
from unified_profiler.presentation.texts import render_hint
from unified_profiler.report.document import document
from unified_profiler.report.sections import Sections
from unified_profiler.report.summary import write_json
from unified_profiler.testing import FakeBackend, TraceBuilder

GOLDEN = Path(__file__).parents[2] / "golden"
NATIVE = [
    "kineto/nccl_rank.json.gz",
    "xplane/keras_fit.xplane.pb",
    "mindspore/graph_ascend_ms",
    "run_metadata/train.pb",
]


def recorded(folder: Path, **options: Any) -> up.Profiler:
    """Record steps 2 and 3 of 6."""
    backend = FakeBackend()
    plan = up.schedule(wait=1, warmup=1, active=2, repeat=1)
    with up.Profiler(backend=backend, clock=backend.clock, schedule=plan, output_dir=folder, **options) as prof:
        for _ in range(6):
            with prof.region("forward"):
                backend.op("fake::op")
            prof.step()
    return prof


def codes(statements: Any) -> list[str]:
    return [statement.code for statement in statements]


@pytest.mark.parametrize("name", NATIVE)
def test_numbers_are_those_of_the_analyses(name: str) -> None:
    run = up.read(GOLDEN / name)
    summary = up.summarize(run)
    operators = op_table(run)
    assert list(summary.operators) == operators.to_arrow().slice(0, 50).to_pylist()
    assert summary.operator_count == len(operators)
    assert list(summary.categories) == op_table(run, by="category").to_arrow().to_pylist()
    steps = step_breakdown(run)
    for part in ("wall_ns", "op_ns", "collective_ns", "copy_ns", "uncovered_ns"):
        assert getattr(summary.step_parts, part) == sum(getattr(row, part) for row in steps)
    assert list(summary.api_calls) == api_table(run).to_arrow().to_pylist()
    assert summary.event_count == sum(len(trace.events) for trace in run.traces)


def test_the_first_sentences_are_about_the_device() -> None:
    run = up.read(GOLDEN / "kineto" / "nccl_rank.json.gz")
    summary = up.summarize(run)
    table = up.device_table(run)
    assert summary.devices_verdict == table.verdict
    (device,) = summary.devices
    assert (device["device"], device["idle_ns"]) == ("cuda:0", table.devices.rows[0].idle_ns)
    assert "stream" not in device
    sentences = Sections(summary).findings()
    assert sentences[0] == "cuda:0 was idle 76.2% of 660.551 ms."
    assert "On the host, operators cover" in sentences[4]
    titles = [section.title for section in Sections(summary, language="zh").tables()]
    assert titles[:2] == ["设备", "主机上的单步耗时构成"]


def test_columns_of_devices_that_are_zero_everywhere_are_left_out() -> None:
    section = next(Sections(up.summarize(up.read(GOLDEN / "kineto" / "mi250_train.json.gz"))).tables())
    assert section.headings == (
        *("Device", "Span", "Busy", "Idle %", "Compute", "Exposed copies", "Host late", "Synchronization"),
    )


def test_without_a_device_nothing_is_said_about_devices(trace: up.Trace) -> None:
    summary = up.summarize(trace)
    assert (summary.devices, summary.devices_verdict) == ((), ())
    assert {"parts", "parts_moved"} & set(codes(summary.findings))
    assert "Devices" not in [section.title for section in Sections(summary).tables()]


def test_categories_have_all_of_the_self_time(trace: up.Trace) -> None:
    summary = up.summarize(trace)
    total = sum(row["self_cpu_ns"] for row in summary.categories)
    assert total == sum(row["self_cpu_ns"] for row in summary.operators) == 2 * 70_000


def test_steps_before_and_after_recording_are_counted(tmp_path: Path) -> None:
    prof = recorded(tmp_path)
    summary = up.summarize(prof.run)
    assert (summary.steps.count, summary.steps.recorded_count) == (6, 2)
    (rank,) = summary.ranks
    assert (rank.step_count, rank.recorded_step_count, rank.cycle_count, rank.ended) == (6, 2, 1, True)
    assert summary.steps.unrecorded_step_ns == prof.run.manifests[0].overhead.unrecorded_step_ns
    assert (summary.steps.unrecorded_count, summary.steps.overhead_ratio) == (2, None)


def test_regions_add_up_over_steps(trace: up.Trace) -> None:
    (region,) = up.summarize(trace).regions
    assert (region.name, region.total_ns, region.wall_share, region.step_count) == ("forward", 160_000, 0.8, 2)


def test_a_run_of_several_files_is_named_after_their_directory(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank{rank}.json.gz").write_bytes((GOLDEN / "kineto" / f"filter_rank{rank}.json.gz").read_bytes())
    assert up.summarize(up.read(folder)).run == "job"


def test_a_run_of_a_file_is_named_after_the_file() -> None:
    assert up.summarize(up.read(GOLDEN / NATIVE[0])).run == "nccl_rank.json.gz"


def test_a_run_of_an_unknown_program_is_titled_by_its_frameworks(trace: up.Trace) -> None:
    summary = up.summarize(trace).model_copy(update={"run": "", "frameworks": {"torch": "2", "tensorflow": "2"}})
    assert Sections(summary).title == "torch, tensorflow"
    assert Sections(summary.model_copy(update={"run": "monday"})).title == "monday"
    assert Sections(summary.model_copy(update={"command": ("/work/train.py",)})).title == "train.py, torch, tensorflow"


def test_summary_json_is_the_summary(trace: up.Trace, tmp_path: Path) -> None:
    write_json(trace, tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text()) == up.summarize(trace).model_dump(mode="json")


# --- what it says ------------------------------------------------------------------------------------------------


def test_the_time_of_a_step_and_its_parts_are_told(trace: up.Trace) -> None:
    found = up.summarize(trace).findings
    assert codes(found) == ["step", "parts_moved", "category", "operator"]
    assert found[0].text == "A recorded step takes 100.000 us (median of 2)."
    assert "copies 20.0%" in found[1].text
    assert found[2].values == {"category": "matmul", "self_share": 80 / 140}
    assert "aten::mm: 57.1% in 2 calls" in found[3].text


STEADY = [900, 100, 101, 102, 100, 101]


@pytest.mark.parametrize(
    ("unrecorded", "recorded", "code"),
    [
        (STEADY, [110, 111, 112], "step_overhead"),
        (STEADY, [90, 91, 92], "step_no_overhead"),
        ([900, 50, 100, 500, 60, 300], [90, 200, 450], "step_no_overhead"),
        (STEADY[:5], [110, 111, 112], "step_few_unrecorded"),
        (STEADY, [215, 160, 110], "step_still_falling"),
        ([900, 800, 500, 350, 250, 210], [300, 301, 299], "step_still_falling"),
    ],
)
def test_a_cost_is_told_only_where_steps_show_it(unrecorded: list[int], recorded: list[int], code: str) -> None:
    now = 1_700_000_000_000_000_000
    plan = up.schedule(wait=len(unrecorded), warmup=0, active=3, repeat=1)
    with up.Profiler(level=1, schedule=plan, clock=lambda: now, hardware_hz=0) as prof:
        for duration_us in [*unrecorded, *recorded]:
            now += duration_us * 1000
            prof.step()
    summary = up.summarize(prof.run)
    (finding,) = [finding for finding in summary.findings if finding.code.startswith("step")]
    assert finding.code == code
    assert finding.values["unrecorded_count"] == summary.steps.unrecorded_count == len(unrecorded) - 1
    assert (summary.steps.overhead_ratio is not None) == (code == "step_overhead")
    assert ("not clear" in finding.text) == (code != "step_overhead")


def test_a_script_that_failed_is_told_and_gets_no_advice_for_a_loop_of_its_own() -> None:
    with up.Profiler(level=1, hardware_hz=0) as prof:
        pass
    run = prof.run
    assert "no_steps" in codes(up.summarize(run).notices)
    failed = run.manifests[0].model_copy(update={"exit_code": 1})
    found = up.summarize(replace(run, manifests={0: failed})).notices
    assert {"script_failed", "no_steps_detected"} <= set(codes(found))
    assert "no_steps" not in codes(found)
    assert any("The script of rank 0 ended with exit code 1" in each.text for each in found)


def test_the_wait_that_records_steady_steps_is_advised() -> None:
    now = 1_700_000_000_000_000_000
    with up.Profiler(
        level=1, schedule=up.schedule(wait=1, warmup=0, active=3, repeat=1), clock=lambda: now, hardware_hz=0
    ) as prof:
        for duration_us in [9000, 5000, 4000, 3000, 900, 800, 700, 600, 500, 400, 300, 200, *[100] * 20]:
            now += duration_us * 1000
            prof.step()
    summary = up.summarize(prof.run)
    advice = next(each for each in summary.findings if each.code == "record_later")
    assert (summary.steps.steady_step, advice.values) == (12, {"step": 12, "wait": 15})
    assert "run --wait 15, or schedule(wait=15)" in advice.text


def test_the_verdict_about_the_ranks_is_that_of_the_rank_table(two_ranks: up.Run) -> None:
    verdict = up.summarize(two_ranks).ranks_verdict
    assert verdict == rank_table(two_ranks).verdict
    assert codes(verdict) == ["too_few"]


def test_a_single_rank_has_no_verdict(trace: up.Trace) -> None:
    assert up.summarize(trace).ranks_verdict == ()


def test_the_same_rank_twice_is_refused(make_trace: Any) -> None:
    with pytest.raises(TraceFormatError, match="2 traces are of cycle 0 of rank 1"):
        up.summarize(Run(traces=[make_trace(rank=rank) for rank in (0, 1, 1)]))


def test_on_a_gpu_the_device_is_what_counts() -> None:
    found = up.summarize(up.read(GOLDEN / NATIVE[0])).findings
    assert {"category_device", "operator_device"} <= set(codes(found))


def test_an_outlier_among_the_steps_is_told() -> None:
    builder = TraceBuilder()
    for number, duration in enumerate([100, 100, 100, 300]):
        builder.step(number, number * 1000, duration)
    assert "slow_step" in codes(up.summarize(builder.build()).findings)


def test_a_killed_run_is_told(tmp_path: Path) -> None:
    prof = recorded(tmp_path)
    manifest = prof.run.path / "rank-00000" / "manifest.json"  # type: ignore[operator]
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "ended_ns": None}))
    summary = up.summarize(up.read(tmp_path))
    assert codes(summary.notices) == ["killed"]
    assert "did not end" in summary.notices[0].text
    assert summary.ended_ns == prof.run.steps.column("end_ns")[-1].as_py()  # type: ignore[union-attr]


def test_a_run_that_ended_has_nothing_to_be_told(tmp_path: Path) -> None:
    recorded(tmp_path)
    assert up.summarize(up.read(tmp_path)).notices == ()


def test_a_run_without_a_trace_is_told(tmp_path: Path) -> None:
    backend = FakeBackend()
    with up.Profiler(
        backend=backend, clock=backend.clock, schedule=up.schedule(wait=9, warmup=0, active=1), output_dir=tmp_path
    ) as prof:
        prof.step()
        prof.step()
    summary = up.summarize(up.read(tmp_path))
    assert codes(summary.notices) == ["empty_run", "hint"]
    assert "2 steps" in summary.notices[0].text
    assert "2 steps have ended, and the schedule begins to record at step 9" in summary.notices[1].text
    assert summary.findings == ()


def test_hints_are_in_the_language_of_the_summary_and_of_the_page() -> None:
    hint = "It was cut off after 10 s without the end of a step: later work is missing. Give a larger --opening-limit."
    trace = TraceBuilder().build()
    run = Run(traces=(up.Trace(trace.events, trace.info.model_copy(update={"hints": (hint, "{other}")})),))
    summary = up.summarize(run)
    english, chinese = ([each.text for each in Sections(summary, language=name).notices()] for name in ("en", "zh"))
    assert english[-2:] == [hint, "{other}"]
    assert chinese[-2:] == [render_hint(hint, language="zh"), "{other}"]
    on_page = document(run)["texts"]
    assert on_page["zh"][f"advice.{hint}"] == chinese[-2]
    assert f"advice.{hint}" not in on_page["en"]


def test_a_trace_without_events_is_told() -> None:
    assert codes(up.summarize(TraceBuilder().build()).notices) == ["no_events", "no_steps"]


def test_nothing_at_all_is_told() -> None:
    assert codes(up.summarize(Run(traces=())).notices) == ["empty_run_without_steps"]


def test_failures_are_told_one_by_one_up_to_a_bound(tmp_path: Path) -> None:
    def broken(number: int) -> Callable[[up.Trace], None]:
        def handler(trace: up.Trace) -> None:
            msg = f"no <b>room</b> {number}"
            raise ValueError(msg)

        return handler

    prof = recorded(tmp_path, on_trace_ready=[broken(number) for number in range(25)])
    notices = up.summarize(prof.run).notices
    assert codes(notices).count("failure") == 20
    assert "no <b>room</b>" in next(notice.text for notice in notices if notice.code == "failure")
    assert [notice.values for notice in notices if notice.code == "more_failures"] == [{"more_count": 5}]


def test_an_option_that_a_backend_does_not_support_is_no_failure_of_the_recording(tmp_path: Path) -> None:
    backend = FakeBackend(capabilities=frozenset())
    plan = up.schedule(warmup=0, active=1, repeat=2)
    with up.Profiler(backend=backend, clock=backend.clock, schedule=plan, record_shapes=True) as prof:
        prof.step()
        prof.step()
    notices = up.summarize(prof.run).notices
    assert "failure" not in codes(notices)
    (notice,) = [notice for notice in notices if notice.code == "unsupported"]
    assert notice.level == "warning"
    assert notice.text.startswith("fake does not support record_shapes. Everything else was recorded;")


def test_a_failure_that_repeats_is_one_notice_with_its_count(tmp_path: Path) -> None:
    def broken(trace: up.Trace) -> None:
        raise ValueError

    summary = up.summarize(recorded(tmp_path, on_trace_ready=[broken] * 25).run)
    (notice,) = [notice for notice in summary.notices if "failure" in notice.code]
    assert "25 times" in notice.text
    assert [rank.failure_count for rank in summary.ranks] == [25]


def test_a_cycle_that_was_left_early_is_told(tmp_path: Path) -> None:
    backend = FakeBackend()
    plan = up.schedule(wait=0, warmup=0, active=5)
    with up.Profiler(backend=backend, clock=backend.clock, schedule=plan, output_dir=tmp_path) as prof:
        backend.op("fake::op")
        prof.step()
    assert "incomplete" in codes(up.summarize(up.read(tmp_path)).notices)


def test_missing_ranks_are_told(make_trace: Any) -> None:
    traces = [make_trace(rank=rank) for rank in range(2)]
    known = [up.Trace(t.events, t.info.model_copy(update={"world_size": 4})) for t in traces]
    (notice,) = [n for n in up.summarize(Run(traces=known)).notices if n.code == "missing_ranks"]
    assert notice.values == {"rank_count": 2, "world_count": 4}
