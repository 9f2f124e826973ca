from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import Result

import unified_profiler.gating
from unified_profiler.cli.gate import _repeat_options
from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]
HOSTILE = 'a<b>&"|\x00\x1b[31m`*\ud800]]>'.encode("utf-8", "backslashreplace").decode()


def recorded(path: Path, *, mm: int = 100_000, steps: int = 60, rank: int = 0, world_size: int = 1) -> Path:
    builder = TraceBuilder(
        frameworks={"torch": "1"}, first_step=0, last_step=steps - 1, rank=rank, world_size=world_size
    )
    for step in range(steps):
        at = step * 1_000_000
        took = mm + step % 7 * 100
        builder.step(step, at, 400_000 + took).op("aten::mm", at, took, framework="torch")
        for place, name in enumerate(("a", "b", "c", "d", "e", HOSTILE)):
            builder.op(name, at + took + 1000 + place * 50_000, 40_000, framework="torch")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(builder.build(), path)
    return path


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return recorded(tmp_path / "before.parquet")


@pytest.fixture
def same(tmp_path: Path) -> Path:
    return recorded(tmp_path / "same.parquet")


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return recorded(tmp_path / "slower.parquet", mm=300_000)


# --- verdicts are exit codes ------------------------------------------------------------------------------------------


def test_0_is_within_bounds(invoke: Invoke, before: Path, same: Path) -> None:
    result = invoke("gate", "--baseline", before, "--candidate", same)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Within bounds")


def test_1_is_a_regression_and_names_the_operator(invoke: Invoke, before: Path, slower: Path) -> None:
    result = invoke("gate", "--baseline", before, "--candidate", slower, "--max-regression", "10%")
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("Regression")
    rows = [line.split() for line in result.stdout.partition("Increases in")[2].splitlines()]
    assert [row[0] for row in rows if row[1:2] == ["operator"]] == ["aten::mm"]


def test_2_is_too_few_steps(invoke: Invoke, before: Path, tmp_path: Path) -> None:
    short = recorded(tmp_path / "short.parquet", steps=8)
    result = invoke("gate", "--baseline", before, "--candidate", short)
    assert result.exit_code == 2, result.output
    assert "20 of each side are needed" in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--metric", "op:aten::mn"), "'aten::mm'"),
        (("--max-regression", "5"), "`--max-regression` must be"),
        (("--max-regression", "-5%"), "`--max-regression` must be"),
        (("--candidate", "missing"), "missing"),
        (("--rank", "3"), "before.parquet has no trace of rank 3"),
        (("--bogus",), "There is no option"),
        (("--format", "pdf"), "pdf"),
        (("--rank", "one"), "--rank"),
        (("--metric",), "requires an argument"),
    ],
)
def test_3_is_wrong_input(invoke: Invoke, before: Path, options: tuple[str, ...], said: str) -> None:
    result = invoke("gate", "--baseline", before, "--candidate", before, *options)
    assert result.exit_code == 3, result.output
    assert said in result.stderr


@pytest.mark.parametrize("options", [(), ("--baseline", "x"), ("stray", "--baseline", "x", "--candidate", "y")])
def test_3_is_a_missing_side_or_a_stray_word(invoke: Invoke, options: tuple[str, ...]) -> None:
    assert invoke("gate", *options).exit_code == 3


def test_3_is_a_run_without_steps(invoke: Invoke, before: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    write_parquet(TraceBuilder().op("aten::mm", 0, 10).build(), empty)
    result = invoke("gate", "--baseline", before, "--candidate", empty)
    assert result.exit_code == 3
    assert "has no steps" in result.stderr


def test_3_are_jobs_of_different_sizes_and_missing_ranks(invoke: Invoke, before: Path, tmp_path: Path) -> None:
    both, one = tmp_path / "both", tmp_path / "one"
    for run, rank in ((both, 0), (both, 1), (one, 0)):
        recorded(run / f"rank-{rank:05d}" / "cycle-00000.parquet", rank=rank, world_size=2)
    assert "different numbers of ranks" in invoke("gate", "--baseline", before, "--candidate", both).stderr
    result = invoke("gate", "--baseline", both, "--candidate", one)
    assert result.exit_code == 3
    assert "lacks rank 1 of 2" in result.stderr


def test_3_is_a_fault_of_ours(invoke: Invoke, before: Path, same: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(unified_profiler.gating, "gate", fail)
    result = invoke("gate", "--baseline", before, "--candidate", same)
    assert result.exit_code == 3
    assert "ZeroDivisionError" in result.stderr


def test_elsewhere_wrong_use_is_still_2(invoke: Invoke, before: Path) -> None:
    assert invoke("diff", before, "--bogus").exit_code == 2
    assert invoke("diff", before, "missing").exit_code == 2


# --- several runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        ["--baseline", "a", "b", "--candidate", "c", "d", "--metric", "step", "--rank", "0"],
        [
            "--baseline",
            "a",
            "--baseline",
            "b",
            "--candidate",
            "c",
            "--candidate",
            "d",
            "--metric",
            "step",
            "--rank",
            "0",
        ],
    ],
)
def test_several_runs_stand_after_one_option_or_after_several(given: list[str]) -> None:
    assert list(_repeat_options(given)) == [
        *("--baseline", "a", "--baseline", "b", "--candidate", "c", "--candidate", "d"),
        *("--metric", "step", "--rank", "0"),
    ]


def test_an_equals_sign_may_be_followed_by_more(invoke: Invoke, before: Path, same: Path, slower: Path) -> None:
    result = invoke("gate", f"--baseline={before}", same, "--candidate", slower, "--format", "json")
    found = json.loads(result.stdout)
    assert found["baseline"]["names"] == [str(before), str(same)]
    assert found["judgments"][0]["baseline"]["run_count"] == 2


# --- formats ----------------------------------------------------------------------------------------------------------


def test_json_holds_all_of_it(invoke: Invoke, before: Path, slower: Path) -> None:
    result = invoke("gate", "--baseline", before, "--candidate", slower, "--format", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["verdict"]) == (1, "regression")
    assert found["judgments"][0]["contributions"][0]["name"] == "aten::mm"


def test_markdown_shows_names_as_they_are(invoke: Invoke, before: Path, slower: Path) -> None:
    metric = f"op:{HOSTILE}"
    result = invoke("gate", "--baseline", before, "--candidate", slower, "--metric", metric, "--format", "md")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("# Performance gate\n\n\u2705 **Within bounds")
    assert "<b>" not in result.stdout
    assert "\x1b" not in result.stdout


def test_junit_has_a_test_for_each_metric(invoke: Invoke, before: Path, slower: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "gate.xml"
    metrics = ("--metric", "op:aten::mm", "--metric", f"op:{HOSTILE}")
    result = invoke("gate", "--baseline", before, "--candidate", slower, *metrics, "-o", out)
    assert result.exit_code == 1, result.output
    root = ET.fromstring(out.read_bytes())  # noqa: S314  our own
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }
    failed, passed = suite
    assert failed.get("name") == "op:aten::mm"
    assert "aten::mm" in (failed.findtext("failure") or "")
    assert (passed.get("name") or "").startswith('op:a<b>&"|\\x00\\x1b')
    assert passed.find("failure") is None


def test_junit_shows_an_inconclusive_verdict_as_an_error(invoke: Invoke, before: Path, tmp_path: Path) -> None:
    short = recorded(tmp_path / "short.parquet", steps=8)
    result = invoke("gate", "--baseline", before, "--candidate", short, "--format", "junit")
    error = ET.fromstring(result.stdout).find("testsuite/testcase/error")  # noqa: S314  our own
    assert result.exit_code == 2
    assert error is not None
    assert error.get("type") == "inconclusive"


def test_chinese_is_spoken(invoke: Invoke, before: Path, slower: Path) -> None:
    result = invoke("gate", "--baseline", before, "--candidate", slower, "--language", "zh")
    assert result.stdout.startswith("性能退化")


def test_it_fits_into_a_narrow_terminal(
    invoke: Invoke, before: Path, slower: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result = invoke("gate", "--baseline", before, "--candidate", slower)
    tables = result.stdout.partition("\n\n")[2].rpartition("\n\n")[0].splitlines()
    assert result.exit_code == 1
    assert max(map(len, tables)) <= 60


def test_help_has_examples(invoke: Invoke) -> None:
    assert "--baseline a1 a2 a3" in invoke("gate", "--help").stdout
