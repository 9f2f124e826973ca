"""A framework of a few operators on numpy arrays, with a native profiler of its own.

It does not use unified_profiler. `train_toy.py` is a training in it.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__version__ = "0.1"

Result = TypeVar("Result")


class Array:
    """Numbers in rows and columns."""

    def __init__(self, values: npt.ArrayLike) -> None:
        self.values = np.asarray(values, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, columns and so on."""
        return self.values.shape


class Profiler:
    """The native profiler, of which one at a time can run. Times in its file are nanoseconds since its start.

    Args:
        shapes: Whether to record the shapes of the arguments.
    """

    running: Profiler | None = None

    def __init__(self, *, shapes: bool = False) -> None:
        self.shapes = shapes
        self.events: list[dict[str, Any]] = []
        self._epoch_ns = self._origin_ns = 0

    def start(self) -> None:
        """Start recording."""
        if Profiler.running is not None:
            msg = "another profiler of toy_framework is running"
            raise RuntimeError(msg)
        self._epoch_ns, self._origin_ns = time.time_ns(), time.perf_counter_ns()
        Profiler.running = self

    def stop(self) -> None:
        """Stop recording, if it is this one that records."""
        if Profiler.running is self:
            Profiler.running = None

    def save(self, path: Path) -> None:
        """Write the events as JSON."""
        head = {"toy_trace": 1, "version": __version__, "epoch_ns": self._epoch_ns, "process": os.getpid()}
        path.write_text(json.dumps({**head, "events": self.events}), encoding="utf-8")

    def timed(self, name: str, call: Callable[[], Result], arguments: Sequence[object]) -> Result:
        """Make a call and record it."""
        start_ns = time.perf_counter_ns()
        try:
            return call()
        finally:
            event: dict[str, Any] = {"name": name, "start": start_ns - self._origin_ns}
            event |= {"duration": time.perf_counter_ns() - start_ns, "thread": threading.get_native_id()}
            if self.shapes:
                event["shapes"] = [each.shape for each in arguments if isinstance(each, Array)]
            self.events.append(event)


def _operator(function: Callable[..., Result]) -> Callable[..., Result]:
    """Let a running profiler time the calls of a function."""

    @functools.wraps(function)
    def operator(*arguments: Any) -> Result:
        profiler = Profiler.running
        if profiler is None:
            return function(*arguments)
        return profiler.timed(function.__name__, lambda: function(*arguments), arguments)

    return operator


@_operator
def add(left: Array, right: Array) -> Array:
    """Return the sum of two arrays."""
    return Array(left.values + right.values)


@_operator
def matmul(left: Array, right: Array) -> Array:
    """Return the product of two matrices."""
    return Array(left.values @ right.values)


@_operator
def matmul_backward(left: Array, gradient: Array) -> Array:
    """Return the gradient of the right factor of a product."""
    return Array(left.values.T @ gradient.values)


@_operator
def relu(values: Array) -> Array:
    """Return the values, and zero for negative ones."""
    return Array(np.maximum(values.values, 0))


@_operator
def relu_backward(gradient: Array, values: Array) -> Array:
    """Return the gradient of the argument of `relu`."""
    return Array(gradient.values * (values.values > 0))


@_operator
def sgd_step(weight: Array, gradient: Array, learning_rate: float) -> None:
    """Move a weight against its gradient."""
    weight.values -= learning_rate * gradient.values


class SGD:
    """The optimizer.

    Args:
        weights: What is to be trained.
        learning_rate: How far each step goes.
    """

    def __init__(self, weights: Sequence[Array], *, learning_rate: float) -> None:
        self.weights = weights
        self.learning_rate = learning_rate

    def step(self, gradients: Sequence[Array]) -> None:
        """Update all weights, given the gradient of each."""
        for weight, gradient in zip(self.weights, gradients, strict=True):
            sgd_step(weight, gradient, self.learning_rate)
