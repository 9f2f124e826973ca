"""Whoever comes from another profiler finds everything again: on its page, and in numbers that agree with one another.

What each of them does is tested where it is made, by tests/unit/analysis/test_torch_parity.py (torch's tables),
tests/backends/mindspore/test_callback.py (steps and epochs of MindSpore's Model), tests/unit/test_config.py (words of
MS_PROFILER_OPTIONS), tests/backends/tensorflow/test_models_layout.py (the directory of the TensorFlow Models Profiler)
and tests/unit/export/test_api_calls.py (TorchWrapper's files).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import ops

from unified_profiler import api_table, diff, registry, trace_api, write_api_calls
from unified_profiler.comparison.api_names import equal_names

DOCS = Path(__file__).parents[2] / "docs"
WORDS = {
    "apitimewrapper": """
        start_hook_torch_net start_hook_net hook_inside=False hook_inside=True inside=True start_analysis end_analysis
        count total mean min max performance.log print trace_api api_table synchronize diff mean_ratio
    """,
    "torchwrapper": """
        TorchWrapper(config).start(fn) out_dir format json csv file_max_size 10MB 128MB file_name_spec timestamp
        TotalTime(ms) detailedAPIName torch.optim.Adam StartTimestamp CostTime(ms) Arguments args kwargs
        api_name
    """,
    "torch-profiler": """
        activities schedule wait warmup active repeat skip_first on_trace_ready record_shapes profile_memory with_stack
        with_flops with_modules record_function start() stop() key_averages().table(sort_by row_limit
        group_by_input_shape export_chrome_trace tensorboard_trace_handler
    """,
    "mindspore-profiler": """
        MS_PROFILER_OPTIONS start output_path memory hccl aicore_metrics l2_cache start_profile=False start() stop()
        analyse() ProfilerCallback(steps= by="epoch" dataset_sink_mode native_options
    """,
    "tensorflow-models-profiler": """
        UNIFIED_PROFILER_LEVEL activity meta RunOptions run_metadata profiled_session step() ProfilerCallback timeline/
        step_stats/ summary.json summary.md app_stats op_stats duration output total_bytes application framework runtime
        hardware StepStats keep_native
    """,
}
"""What each of these systems has, in its users' words."""


def page_of(system: str, *, folder: Path = DOCS) -> str:
    return (folder / "how-to" / f"coming-from-{system}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", [DOCS, DOCS / "zh"], ids=["english", "chinese"])
@pytest.mark.parametrize("system", WORDS)
def test_the_page_has_everything_that_its_users_know(system: str, folder: Path) -> None:
    page = page_of(system, folder=folder)
    assert not [word for word in WORDS[system].split() if word not in page]


@pytest.mark.parametrize("system", WORDS)
def test_old_and_new_code_stand_side_by_side(system: str) -> None:
    grids = re.findall(r'<div class="grid" markdown>\n\n(.*?)\n\n</div>', page_of(system), re.DOTALL)
    titles = [re.findall(r'^```\w+ title="(before|now)\b.*?"', grid, re.MULTILINE) for grid in grids]
    assert titles
    assert all(pair == ["before", "now"] for pair in titles)


# --- the log of apitimewrapper and the files of TorchWrapper, from one real program -----------------------------------


def in_torch() -> None:
    x = torch.ones(4, 16)
    for _ in range(3):
        torch.nn.functional.relu(x).sum() + 1
    torch.nn.functional.relu(x)


def in_mindspore() -> None:
    x = ms.Tensor(np.ones((4, 16), np.float32))
    for _ in range(3):
        ops.relu(x).sum() + 1
    ops.relu(x)


COUNTS = {
    in_torch: {"torch.ones": 1, "torch.nn.functional.relu": 4, "torch.Tensor.sum": 3, "torch.Tensor.__add__": 3},
    in_mindspore: {"mindspore.ops.relu": 4, "mindspore.Tensor.sum": 3, "mindspore.Tensor.__add__": 3},
}


@pytest.mark.parametrize("program", COUNTS)
def test_the_table_is_what_the_single_calls_add_up_to(program: Callable[[], None], tmp_path: Path) -> None:
    with trace_api(backend=program.__name__.removeprefix("in_")) as tracer:
        program()
    paths = write_api_calls(tracer.run, tmp_path, format="json", file_max_size="1KB")
    assert len(paths) > 1
    costs: dict[str, list[float]] = {}
    for tree in (json.loads(path.read_text()) for path in paths):
        for name, calls in tree.items():
            costs.setdefault(name, []).extend(call["CostTime(ms)"] for key, call in calls.items() if key.isdigit())
    rows = {row.name: row for row in api_table(tracer.run)}
    assert {name: len(found) for name, found in costs.items()} == COUNTS[program]
    for name, found in costs.items():
        row = rows[name]
        expected = (len(found), sum(found), mean(found), min(found), max(found))
        measured = (row.call_count, row.total_ns / 1e6, row.mean_ns / 1e6, row.min_ns / 1e6, row.max_ns / 1e6)
        assert measured == pytest.approx(expected)


@pytest.mark.parametrize("program", COUNTS)
def test_the_log_has_a_line_for_each_call(program: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG, "unified_profiler.api"),
        trace_api(backend=program.__name__.removeprefix("in_")),
    ):
        program()
    names = [line.split()[0] for line in caplog.messages]
    assert {name: names.count(name) for name in names} == COUNTS[program]
    assert all(re.fullmatch(r"\S+ \d+\.\d{3} [um]s", line) for line in caplog.messages)


# --- the comparison that comes with apitimewrapper: one framework's time of an API against the other's ----------------


def known_calls_in_torch() -> None:
    x, layer = torch.ones(4, 16), torch.nn.Linear(16, 16)
    for _ in range(5):
        torch.nn.functional.relu(layer(x)) / 2
        torch.matmul(x, x.t())
    torch.nn.functional.relu(x)


def known_calls_in_mindspore() -> None:
    x, layer = ms.Tensor(np.ones((4, 16), np.float32)), ms.nn.Dense(16, 16)
    for _ in range(5):
        ops.relu(layer(x)) / 2
        x @ x.T
    ops.softsign(x)


def test_the_ratio_of_two_frameworks_is_that_of_their_means() -> None:
    runs = []
    for program in (known_calls_in_torch, known_calls_in_mindspore):
        with trace_api(backend=program.__name__.rpartition("_")[2]) as tracer:
            program()
        runs.append(tracer.run)
    before, after = ({row.name: row for row in api_table(run)} for run in runs)
    found = {row.name: row for row in diff(*runs, by="api").rows}
    pairs = {
        "relu": ("torch.nn.functional.relu", 6, "mindspore.ops.relu", 5),
        "linear": ("torch.nn.Linear", 5, "mindspore.nn.Dense", 5),
        "div": ("torch.Tensor.__truediv__", 5, "mindspore.Tensor.__truediv__", 5),
        "matmul": ("torch.matmul", 5, "mindspore.Tensor.__matmul__", 5),
    }
    for name, (in_torch_name, torch_count, in_mindspore_name, mindspore_count) in pairs.items():
        row = found[name]
        assert row.baseline is not None
        assert row.candidate is not None
        assert (row.baseline.call_count, row.candidate.call_count) == (torch_count, mindspore_count)
        assert row.mean_ratio == pytest.approx(after[in_mindspore_name].mean_ns / before[in_torch_name].mean_ns)
    alone = {name for name, row in found.items() if row.baseline is None or row.candidate is None}
    assert {"ones", "softsign"} <= alone
    assert not alone & pairs.keys()


def test_every_name_in_the_table_of_equal_names_is_one_of_two_frameworks() -> None:
    pytest.importorskip("tensorflow")
    words = {}
    for backend in ("torch", "mindspore", "tensorflow"):
        api_surface = registry.get(backend).abilities.api_surface
        assert api_surface is not None
        surface = api_surface()
        assert surface is not None
        words[backend] = {name.rpartition(".")[2].replace("_", "").lower() for name in surface.names()}
    for word, common in equal_names().items():
        having = {backend for backend, found in words.items() if word in found}
        assert having, word
        assert len(having | {backend for backend, found in words.items() if common in found}) > 1, (word, common)
