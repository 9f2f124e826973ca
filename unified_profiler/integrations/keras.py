"""A callback for `fit`, `evaluate` and `predict` of Keras 3 on any backend, and of tf_keras.

It imports neither and inherits from neither: it implements the methods that their lists of callbacks call.
"""

# ruff: noqa: ARG002  the signatures are those of Keras

from __future__ import annotations

from typing import Any, Literal

from unified_profiler.integrations._callback import StepCallback
from unified_profiler.profiler import Profiler

By = Literal["batch", "epoch"]


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each batch or epoch.

    In `fit` the training batches are the steps; the validation in it is a region called "evaluate". `evaluate` and
    `predict` have their own batches as steps. If a model is compiled with `steps_per_execution=n`, Keras reports only
    every n-th batch, so that a step is n batches; `batches_per_step` and the trace's `step_signal` show this.

    A Profiler that is not running is started when `fit` begins, follows its schedule from there, and is stopped at the
    end; step numbers continue from one call of `fit` to the next. A running Profiler is left running.

    Args:
        profiler: The Profiler to drive.
        by: The unit of a step. By "epoch", a whole `evaluate` or `predict` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or a wrong value.

    Example:
        >>> model.fit(x, y, callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    async_safe = False  # Keras 3: call on the training thread, when the batch is done
    _supports_tf_logs = False  # tf_keras: wait for the metrics, so that the batch is done
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
        """Number of batches in a step; None by epoch."""
        return _batches_per_execution(self.model) if self.by == "batch" else None

    # --- called by lists of callbacks -------------------------------------------------------------------------

    def set_params(self, params: dict[str, Any] | None) -> None:
        """Store the trainer's parameters."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Store the model of a trainer that is about to begin."""
        self._driver.abandon()
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin `fit`."""
        self._begin("fit", self._signal())

    def on_train_end(self, logs: Any = None) -> None:
        """End `fit`."""
        self._driver.end("fit")

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin `evaluate`, or the validation of a `fit`."""
        self._begin("evaluate", self._signal())

    def on_test_end(self, logs: Any = None) -> None:
        """End `evaluate`."""
        self._end_whole("evaluate")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Begin `predict`."""
        self._begin("predict", self._signal())

    def on_predict_end(self, logs: Any = None) -> None:
        """End `predict`."""
        self._end_whole("predict")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End a step, by epoch."""
        self._end_unit("fit", "epoch")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step, by batch."""
        self._end_unit("fit", "batch")

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step of `evaluate`, by batch."""
        self._end_unit("evaluate", "batch")

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step of `predict`, by batch."""
        self._end_unit("predict", "batch")

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Do nothing; this and `on_batch_end` are older names that the lists call."""

    on_batch_end = on_epoch_begin = on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = on_batch_begin

    def _implements_train_batch_hooks(self) -> bool:
        return self.by == "batch"

    _implements_test_batch_hooks = _implements_predict_batch_hooks = _implements_train_batch_hooks

    def _signal(self) -> str:
        count = self.batches_per_step
        return f"keras {self.by}" if count in {None, 1} else f"keras execution of {count} batches"


def _batches_per_execution(model: Any) -> int:
    """Return `steps_per_execution`: a number in Keras 3, a variable in tf_keras, which has no value in graph mode."""
    try:
        return int(getattr(model, "steps_per_execution", None) or 1)
    except (TypeError, ValueError, RuntimeError):
        return 1
