"""Keras on torch: updates, layers and paths are those of Keras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import json

import keras
import numpy as np

import unified_profiler as up

inputs = keras.Input((8, 8, 3))
x = keras.layers.Conv2D(4, 3, activation="relu", name="stem")(inputs)
x = keras.layers.BatchNormalization(name="norm")(x)
inner = keras.Sequential([keras.layers.Dense(6, name="wide"), keras.layers.Dropout(0.1, name="drop")], name="block")
x = inner(keras.layers.Flatten(name="flat")(x))
model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
images, labels = np.ones((16, 8, 8, 3), "float32"), np.zeros(16)
model.fit(images, labels, batch_size=4, verbose=0)
before = keras.optimizers.Optimizer.apply, keras.layers.Layer.forward


class Steps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        profiler.step()


plan = up.schedule(wait=1, warmup=1, active=2, repeat=1)
with up.Profiler(schedule=plan, with_modules=True, backend="torch") as profiler:
    model.fit(images, labels, batch_size=4, verbose=0, callbacks=[Steps()])
after = keras.optimizers.Optimizer.apply, keras.layers.Layer.forward
columns = ["id", "parent_id", "name", "kind", "layer", "op", "origin", "direction", "module", "step"]
events = profiler.traces[0].events.select(columns).to_pylist()
print(json.dumps({"events": events, "failures": len(profiler.failures), "restored": before == after}))
"""


@pytest.fixture(scope="module")
def training() -> dict[str, Any]:
    """What was recorded of a model that Keras trained with torch, in a process of its own."""
    environment = os.environ | {"KERAS_BACKEND": "torch"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (result["failures"], result["restored"]) == (0, True)
    return result


@pytest.fixture
def operators(training: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in training["events"] if row["kind"] == "op"]


def test_what_the_optimizer_does_is_update(training: dict[str, Any], operators: list[dict[str, Any]]) -> None:
    updates = [row for row in operators if row["direction"] == "update"]
    assert {row["origin"] for row in updates} == {"Adam"}
    assert [row["step"] for row in training["events"] if row["name"] == "Optimizer.step#Adam.step"] == [2, 3]
    foreach = [row for row in operators if row["name"].startswith("aten::_foreach")]
    assert foreach
    assert {row["direction"] for row in foreach} == {"update"}


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_pieces_of_a_layer_share_its_origin(operators: list[dict[str, Any]], direction: str) -> None:
    pieces = [row for row in operators if (row["module"], row["direction"]) == ("norm", direction)]
    assert len({row["op"] for row in pieces}) > 3
    assert {row["origin"] for row in pieces} == {"BatchNormalization"}
    for path in ("head", "block.wide"):
        assert {row["origin"] for row in operators if row["module"] == path} == {"Gemm"}


def test_the_activation_of_a_layer_is_an_origin_of_its_own(operators: list[dict[str, Any]]) -> None:
    assert {row["origin"] for row in operators if row["module"] == "stem"} == {"Conv", "Relu"}
    assert {row["origin"] for row in operators if row["name"] == "aten::relu"} == {"Relu"}


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_paths_are_made_of_the_names_of_layers(training: dict[str, Any], direction: str) -> None:
    calls = [row for row in training["events"] if row["kind"] == "module" and row["layer"] == "api"]
    paths = {row["module"] for row in calls if row["direction"] == direction}
    wanted = {"Functional", "stem", "norm", "flat", "block", "block.wide", "block.drop", "head"}
    assert wanted <= paths
    assert not [path for path in paths - {"Functional"} if any(part[:1].isupper() for part in path.split("."))]


def test_annotations_of_layers_are_no_operators(training: dict[str, Any]) -> None:
    kinds = {(row["kind"], row["layer"]) for row in training["events"] if row["name"].startswith("keras.layers.")}
    assert kinds == {("module", "framework")}
