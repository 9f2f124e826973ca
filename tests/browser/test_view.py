"""`unified-profiler view` shows what was really recorded, in the real Perfetto UI, and nothing leaves this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from unified_profiler.model.run import Run
from unified_profiler.readers import read

pytestmark = pytest.mark.browser

TORCH = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU())
def train(): model(torch.ones(4, 16)).sum().backward()
"""
TENSORFLOW = """
import tensorflow as tf
weight = tf.Variable(tf.ones([16, 8]))
@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.relu(tf.ones([4, 16]) @ weight))
    weight.assign_sub(tape.gradient(loss, weight))
"""
MINDSPORE = """
import contextlib
import mindspore as ms, numpy as np
from mindspore import nn
with contextlib.suppress(SystemError):  # with NumPy 2, the first operator of a process fails in MindSpore 2.10
    ms.Tensor([1.0]) * ms.Tensor([1.0])
dense = nn.Dense(16, 8)
gradient = ms.value_and_grad(lambda x: dense(x).sum(), None, dense.trainable_params())
def train(): gradient(ms.Tensor(np.ones((4, 16), np.float32)))
"""
LOOP = """
import unified_profiler as up
train()
with up.Profiler(backend=BACKEND, output_dir="profile", profile_memory=BACKEND == "torch", strict=True) as prof:
    for _ in range(2):
        with prof.region("train"):
            train()
        prof.step()
"""
PROGRAMS = {"torch": TORCH, "tensorflow": TENSORFLOW, "mindspore": MINDSPORE}


@dataclass
class Viewed:
    """A run, the page that shows it, and what the page asked for: with which status, or why not."""

    framework: str
    run: Run
    address: str
    page: Any
    asked: list[str] = field(default_factory=list)
    answered: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def record(framework: str, folder: Path) -> None:
    """Record in a process and a directory of its own: MindSpore leaves files where it is started."""
    script = f"BACKEND = {framework!r}\n{PROGRAMS[framework]}\n{LOOP}"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module", params=PROGRAMS)
def viewed(request: pytest.FixtureRequest, tmp_path_factory: Any, browser: Any, perfetto_at: Any) -> Iterator[Viewed]:
    """What the command shows of a run that was just recorded."""
    folder = tmp_path_factory.mktemp(request.param)
    record(request.param, folder)
    command = [sys.executable, "-m", "unified_profiler", "view", "profile", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if line.startswith("http"))
        page = browser.new_page()
        shown = Viewed(request.param, read(folder / "profile"), address, page)
        page.on("request", lambda request: shown.asked.append(request.url))
        page.on("response", lambda response: shown.answered.update({response.url: response.status}))
        page.on("requestfailed", lambda request: shown.refused.update({request.url: request.failure}))
        shown.page = perfetto_at(page, address)
        assert shown.run.path is not None
        shown.page.wait_for_trace(f"{shown.run.path.name}.json.gz")
        yield shown
        page.close()
        process.terminate()
        assert process.wait(timeout=600) == 0


def test_every_recorded_event_is_a_slice(viewed: Viewed) -> None:
    (trace,) = viewed.run.traces
    spans = pc.sum(pc.not_equal(trace.events.column("kind"), "counter")).as_py()
    assert spans > 10
    assert viewed.page.value("select count(*) from slice") == spans


def test_the_operators_of_the_framework_are_there(viewed: Viewed) -> None:
    (trace,) = viewed.run.traces
    found = pc.and_(pc.equal(trace.events["framework"], viewed.framework), pc.equal(trace.events["kind"], "op"))
    names = {as_shown(name) for name in trace.events.filter(found.fill_null(False))["name"].to_pylist()}
    assert names
    assert names <= {row[0] for row in viewed.page.query("select distinct name from slice")}


def as_shown(name: str) -> str:
    """Perfetto leaves JSON's escape of the backslash as it is."""
    return name.replace("\\", "\\\\")


def test_perfetto_has_nothing_to_complain_of(viewed: Viewed) -> None:
    assert viewed.page.info == {"type": "gzip", "errors": 0}
    assert viewed.page.complaints == {}


def test_the_first_step_is_in_view(viewed: Viewed) -> None:
    start, end = viewed.page.window
    ((ts, duration),) = viewed.page.query("select ts, dur from slice where name like 'step %' order by ts limit 1")
    assert (start, end) == (ts, ts + duration)


def test_nothing_is_asked_of_any_other_address_but_what_the_browser_refuses(viewed: Viewed) -> None:
    server = viewed.address.partition("?")[0]
    elsewhere = {url for url in viewed.asked if not url.startswith((server, "data:", "blob:"))}
    assert {url: viewed.refused.get(url) for url in elsewhere} == dict.fromkeys(elsewhere, "csp")


def test_everything_asked_of_the_server_is_there(viewed: Viewed) -> None:
    server = viewed.address.partition("?")[0]
    statuses = [status for url, status in viewed.answered.items() if url.startswith(server)]
    assert len(statuses) > 5
    assert set(statuses) == {200}
