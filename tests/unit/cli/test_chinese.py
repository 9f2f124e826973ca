"""Every command prints its own words in Chinese; what has Latin letters is data, or a word of the Chinese texts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from unified_profiler.cli import view
from unified_profiler.model.storage import write_parquet
from unified_profiler.presentation.texts import texts
from unified_profiler.testing.builders import TraceBuilder
from unified_profiler.testing.fleets import Fleet, Straggler

Invoke = Callable[..., Result]

LATIN = re.compile(r"[A-Za-z][A-Za-z]+")
HAN = re.compile(r"[\u4e00-\u9fff]")
UNITS = frozenset({"us", "ms", "KiB", "MiB", "GiB", "GB", "UTC"})
NAMED = frozenset({"frameworks", "libraries", "regions_ns"})
"""Keys of objects whose own keys are names of data."""
GROUPINGS = ("shapes", "op", "origin", "module", "direction", "category", "kind", "layer", "framework", "thread")
VIEWS = ("devices", "steps", "streams", "gaps", "launches", "queues", "copies", "collectives", "kernels", "sequences")
WITH_JSON: list[tuple[str, ...]] = [
    ("runs", "RUNS"),
    ("runs", "RUNS", "--row-limit", "1"),
    ("summary", "TRACE"),
    ("summary", "FLEET"),
    ("table", "TRACE"),
    ("table", "TRACE", "--row-limit", "1"),
    ("table", "TRACE", "--api"),
    ("table", "FLEET", "--api"),
    *(("table", "TRACE", "--by", name) for name in (*GROUPINGS, "device", "stack", "step", "cycle", "rank", "host")),
    ("steps", "TRACE"),
    ("steps", "FLEET"),
    ("steps", "OPERATOR"),
    ("ranks", "FLEET"),
    ("ranks", "FLEET", "--steps"),
    ("ranks", "TRACE"),
    *(("devices", "TRACE", "--show", name) for name in VIEWS),
    ("devices", "FLEET"),
    ("devices", "TRACE", "--show", "gaps", "--by", "stream", "--row-limit", "1"),
    ("critical-path", "TRACE"),
    ("critical-path", "TRACE", "--path"),
    ("critical-path", "FLEET"),
    ("critical-path", "FLEET", "--path"),
    ("critical-path", "FLEET", "--what-if", "mul=0.5"),
    ("query", "FLEET", "select name, step from events"),
    ("diff", "FLEET", "OTHER"),
    ("diff", "FLEET", "OTHER", "--row-limit", "1"),
    ("gate", "FLEET", "OTHER"),
    ("gate", "TRACE", "TRACE"),
    ("doctor",),
]
WITHOUT_JSON: list[tuple[str, ...]] = [
    ("report", "FLEET"),
    ("report", "TRACE", "-o", "out.html"),
    ("export", "TRACE", "out.json"),
    ("export", "TRACE", "out.csv"),
]


def operators(builder: TraceBuilder) -> TraceBuilder:
    """Add operators of all kinds, and what a GPU does for them."""
    host: dict[str, Any] = {"layer": "runtime", "kind": "runtime", "device": "cpu:0"}
    work: dict[str, Any] = {"layer": "runtime", "device": "cuda:0", "tid": 2, "stream": 7, "step": 0}
    shaped = {"input_shapes": "[[2, 2]]", "flops": 8, "bytes": 64, "device": "cpu:0"}
    builder.step(0, 0, 1000).region("forward", 10, 20).region("load_data", 40, 20)
    builder.op("aten::mm", 100, 90, op="MatMul", **shaped).op("gloo:x", 200, 20, kind="collective")
    builder.op("Memcpy", 300, 20, kind="copy").op("jit", 340, 20, kind="compile")
    builder.op("torch.mm", 98, 95, layer="api", kind="api_call")
    for number, start in enumerate((100, 110, 120, 500, 510, 520), 1):
        builder.op("cudaLaunchKernel", start, 8, correlation_id=number, **host)
        builder.op(("gemm", "relu", "sum")[number % 3], start + 20, 9, kind="kernel", correlation_id=number, **work)
    builder.op("cudaMemcpyAsync", 700, 9, correlation_id=8, **host)
    builder.op("Memcpy HtoD", 720, 9, kind="copy", correlation_id=8, bytes=4096, **work)
    builder.op("allreduce", 740, 9, kind="collective", bytes=4096, **work)
    for name, unit in (("process CPU", "%"), ("process memory", "bytes"), ("system network send", "bytes/s")):
        builder.op(f"{name} {unit}", 500, 0, layer="hardware", kind="counter", framework=None, value=1.0)
    return builder


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    write_parquet(operators(TraceBuilder(first_step=0, last_step=0)).build(), folder / "trace.parquet")
    write_parquet(TraceBuilder().op("aten::mm", 0, 10).build(), folder / "operator.parquet")
    slow = Straggler(rank=1, since=10, extra_ns=4_000_000, operator="layer_3")
    fleet = Fleet(ranks=2, steps=60, outer_ops=4, stragglers=[slow]).write(folder / "fleets", "fleet")
    other = Fleet(ranks=2, steps=60, outer_ops=4, seed=1).write(folder / "fleets", "other")
    return {
        "RUNS": str(folder / "fleets"),
        "TRACE": str(folder / "trace.parquet"),
        "OPERATOR": str(folder / "operator.parquet"),
        "FLEET": str(fleet),
        "OTHER": str(other),
    }


@pytest.fixture(autouse=True)
def chinese_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")


def strings(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON document, without the sentences that it contains in English."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in NAMED and isinstance(item, dict):
                yield from item
            if key not in {"text", "code", "state"}:
                yield from strings(item)


def known_words(*data: str) -> set[str]:
    """Return the Latin words of the data and of the Chinese texts."""
    fixed = (re.sub(r"\{[^{}]*\}", " ", text) for text in texts("zh").values())
    return {word for text in (*data, *fixed, "unified-profiler") for word in LATIN.findall(text)} | UNITS


def foreign(printed: str, *data: str) -> set[str]:
    """Return the words that are neither Chinese nor data."""
    lines = (line.partition("unified-profiler ")[0] for line in printed.splitlines())  # a command to copy is English
    return {word for line in lines for word in LATIN.findall(line)} - known_words(*data)


@pytest.mark.parametrize("command", WITH_JSON, ids=" ".join)
def test_a_table_in_chinese_has_no_english_words(
    invoke: Invoke, paths: dict[str, str], command: tuple[str, ...]
) -> None:
    arguments = [paths.get(argument, argument) for argument in command]
    document = json.loads(invoke(*arguments, "--json").stdout)
    names = document[0] if command[0] == "query" else ()
    result = invoke(*arguments)
    assert HAN.search(result.stdout)
    assert not foreign(result.output, *strings(document), *arguments, *names)


@pytest.mark.parametrize("command", WITHOUT_JSON, ids=" ".join)
def test_lines_in_chinese_have_no_english_words(
    invoke: Invoke, paths: dict[str, str], command: tuple[str, ...]
) -> None:
    arguments = [paths.get(argument, argument) for argument in command]
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert not foreign(result.output, *arguments, "report.html")


@pytest.mark.parametrize("command", [*WITH_JSON, *WITHOUT_JSON], ids=" ".join)
def test_what_is_printed_in_english_has_no_chinese(
    invoke: Invoke, paths: dict[str, str], command: tuple[str, ...]
) -> None:
    result = invoke(*(paths.get(argument, argument) for argument in command), "--language", "en")
    assert result.output
    assert not HAN.search(result.output)


def test_the_run_that_is_read_is_named_in_chinese(invoke: Invoke, paths: dict[str, str]) -> None:
    result = invoke("summary", paths["RUNS"])
    assert HAN.search(result.stderr)
    assert not foreign(result.stderr, paths["RUNS"], paths["FLEET"], paths["OTHER"])


def test_columns_that_do_not_fit_are_named_in_chinese(
    invoke: Invoke, paths: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    printed = invoke("steps", paths["FLEET"]).stdout
    assert "未显示的列" in printed
    assert not foreign(printed, "load_data")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_viewer_speaks_one_language(
    invoke: Invoke, paths: dict[str, str], monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setattr(view, "_wait_for_signal", lambda: os.kill(os.getpid(), signal.SIGINT))
    result = invoke("view", paths["FLEET"], "--no-open", "--language", language)
    lines = [line for line in result.stdout.splitlines() if line and not line.startswith("http")]
    assert len(lines) == 3, result.output
    if language == "zh":
        assert not foreign("\n".join(lines))
    else:
        assert not HAN.search(result.output)


SCRIPT = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_run_speaks_one_language(tmp_path: Path, language: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "unified_profiler", "run", "--language", language, "--api", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = done.stdout + done.stderr
    if language == "en":
        assert not HAN.search(printed)
        return
    names = {word for line in done.stdout.splitlines() for word in LATIN.findall(line.partition("  ")[0])}
    assert not foreign(printed, str(tmp_path / "profile"), "optimizer", *names)
