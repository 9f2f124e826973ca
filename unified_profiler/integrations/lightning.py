"""A callback for `fit`, `validate`, `test` and `predict` of Lightning's Trainer.

The class is completed with Lightning's own Callback when the first one is made, be it that of `lightning.pytorch` or
that of `pytorch_lightning`: by then the program has imported it, and nothing is imported here.
"""

# ruff: noqa: ARG002  the signatures are those of Lightning

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from unified_profiler.integrations._bases import completed
from unified_profiler.integrations._callback import StepCallback
from unified_profiler.model.records import StepSignal
from unified_profiler.profiler import Profiler

if TYPE_CHECKING:
    from typing_extensions import Self

By = Literal["batch", "epoch"]

_MODULES = ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each batch or epoch of a Trainer.

    In `fit` the training batches are the steps, also those after which gradients are only accumulated; the validation
    in it is a region called "validate". `validate`, `test` and `predict` have their own batches as steps. The sanity
    check that Lightning makes before a training is neither a step nor recorded.

    A Profiler which is not running is started when the Trainer begins, follows its schedule from there, and is stopped
    at the end; step numbers go on from one call of `fit` to the next. A Profiler which is running is left running. If
    the Trainer raises, what was recorded until then is delivered, marked incomplete.

    Args:
        profiler: The Profiler to drive.
        by: What a step is. By "epoch" a whole `validate`, `test` or `predict` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or a wrong value.
        UsageError: Lightning has not been imported.

    Example:
        >>> Trainer(callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    UNITS = ("batch", "epoch")

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Make an instance that is one of Lightning's callbacks as well."""
        return super().__new__(completed(cls, _callback_classes(), library="Lightning"))

    def __init__(
        self,
        profiler: Profiler | None = None,
        *,
        by: By = "batch",
        steps: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)

    # --- what a Trainer calls ---------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to follow `fit`: its sanity check is over."""
        self._begin("fit")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step, by batch."""
        self._end_batch("fit")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """End a step, by epoch."""
        if self.by == "epoch":
            self._driver.step("fit")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End with `fit`."""
        self._driver.end("fit")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to follow `validate`, unless it is part of a `fit`."""
        if not trainer.sanity_checking:
            self._begin("validate")

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step of `validate`, by batch."""
        self._end_batch("validate")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End with `validate`."""
        self._end_whole("validate")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to follow `test`."""
        self._begin("test")

    def on_test_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step of `test`, by batch."""
        self._end_batch("test")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """End with `test`."""
        self._end_whole("test")

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to follow `predict`."""
        self._begin("predict")

    def on_predict_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step of `predict`, by batch."""
        self._end_batch("predict")

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        """End with `predict`."""
        self._end_whole("predict")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Deliver what there is: the Trainer raises, or was interrupted."""
        self._driver.abandon()

    # --- ours -------------------------------------------------------------------------------------------------

    def _begin(self, phase: str) -> None:
        if self._driver.phase is None and self.profiler.level:
            self.profiler.step_signal = StepSignal(name=f"lightning {self.by}")
        self._driver.begin(phase)

    def _end_batch(self, phase: str) -> None:
        if self.by == "batch":
            self._driver.step(phase)

    def _end_whole(self, phase: str) -> None:
        if self.by == "epoch":
            self._driver.step(phase)
        self._driver.end(phase)


def _callback_classes() -> tuple[type[Any], ...]:
    """Return the Callback of each Lightning that the program has imported."""
    return tuple(sys.modules[name].Callback for name in _MODULES if name in sys.modules)
