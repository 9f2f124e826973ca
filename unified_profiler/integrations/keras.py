"""A callback for `fit`, `evaluate` and `predict` of Keras 3, on whichever backend it runs, and of tf_keras.

It inherits from neither and imports nothing of them: it has what their lists of callbacks call.
"""

# ruff: noqa: ARG002  the signatures are those of Keras

from __future__ import annotations

from typing import Any, Literal

from unified_profiler.integrations._callback import StepCallback
from unified_profiler.model.records import StepSignal
from unified_profiler.profiler import Profiler

By = Literal["batch", "epoch"]


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each batch or epoch.

    In `fit` the training batches are the steps; the validation in it is a region called "evaluate". `evaluate` and
    `predict` have their own batches as steps. Where a model is compiled with `steps_per_execution=n`, Keras tells only
    every n-th batch, so that a step is n batches: `batches_per_step` says so, and so does the trace's `step_signal`.

    A Profiler which is not running is started when `fit` begins, follows its schedule from there, and is stopped at the
    end; step numbers go on from one call of `fit` to the next. A Profiler which is running is left running.

    Args:
        profiler: The Profiler to drive.
        by: What a step is. By "epoch" a whole `evaluate` or `predict` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or a wrong value.

    Example:
        >>> model.fit(x, y, callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    async_safe = False  # Keras 3: call us on the thread that trains, when the batch is done
    _supports_tf_logs = False  # tf_keras: the batch is done when its numbers are there
    _chief_worker_only = None
    validation_data = None

    UNITS = ("batch", "epoch")

    def __init__(
        self,
        profiler: Profiler | None = None,
        *,
        by: By = "batch",
        steps: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)
        self.params: dict[str, Any] | None = None
        self.model: Any = None

    @property
    def batches_per_step(self) -> int | None:
        """How many batches a step is; None by epoch."""
        return _batches_per_execution(self.model) if self.by == "batch" else None

    # --- what lists of callbacks call -------------------------------------------------------------------------

    def set_params(self, params: dict[str, Any] | None) -> None:
        """Take the trainer's parameters."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take the model of a trainer that is about to begin."""
        self._driver.abandon()
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to follow `fit`."""
        self._begin("fit")

    def on_train_end(self, logs: Any = None) -> None:
        """End with `fit`."""
        self._driver.end("fit")

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin to follow `evaluate`, unless it is the validation of a `fit`."""
        self._begin("evaluate")

    def on_test_end(self, logs: Any = None) -> None:
        """End with `evaluate`."""
        self._end_whole("evaluate")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Begin to follow `predict`."""
        self._begin("predict")

    def on_predict_end(self, logs: Any = None) -> None:
        """End with `predict`."""
        self._end_whole("predict")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Do nothing."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End a step, by epoch."""
        if self.by == "epoch":
            self._driver.step("fit")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Do nothing."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step, by batch."""
        if self.by == "batch":
            self._driver.step("fit")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Do nothing."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step of `evaluate`, by batch."""
        if self.by == "batch":
            self._driver.step("evaluate")

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Do nothing."""

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step of `predict`, by batch."""
        if self.by == "batch":
            self._driver.step("predict")

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Do nothing: an older name, which the lists ask for."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Do nothing: an older name, which the lists ask for."""

    def _implements_train_batch_hooks(self) -> bool:
        return self.by == "batch"

    def _implements_test_batch_hooks(self) -> bool:
        return self.by == "batch"

    def _implements_predict_batch_hooks(self) -> bool:
        return self.by == "batch"

    # --- ours -------------------------------------------------------------------------------------------------

    def _begin(self, phase: str) -> None:
        if self._driver.phase is None and self.profiler.level:
            self.profiler.step_signal = StepSignal(name=self._signal())
        self._driver.begin(phase)

    def _end_whole(self, phase: str) -> None:
        if self.by == "epoch":
            self._driver.step(phase)
        self._driver.end(phase)

    def _signal(self) -> str:
        count = self.batches_per_step
        return f"keras {self.by}" if count in {None, 1} else f"keras execution of {count} batches"


def _batches_per_execution(model: Any) -> int:
    """Return `steps_per_execution`: a number in Keras 3, a variable in tf_keras, which in graph mode has none."""
    try:
        return int(getattr(model, "steps_per_execution", None) or 1)
    except (TypeError, ValueError, RuntimeError):
        return 1
