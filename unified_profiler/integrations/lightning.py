"""A callback for `fit`, `validate`, `test` and `predict` of Lightning's Trainer.

The class gets Lightning's own Callback as a base when the first one is created, that of `lightning.pytorch` or of
`pytorch_lightning`: by then the program has imported it, and nothing is imported here.
"""

# ruff: noqa: ARG002  the signatures are those of Lightning

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from unified_profiler.integrations._bases import with_bases
from unified_profiler.integrations._callback import StepCallback
from unified_profiler.profiler import Profiler

if TYPE_CHECKING:
    from typing_extensions import Self

By = Literal["batch", "epoch"]

_MODULES = ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each batch or epoch of a Trainer.

    In `fit` the training batches are the steps, including those whose gradients are only accumulated; the validation in
    it is a region called "validate". `validate`, `test` and `predict` have their own batches as steps. The sanity check
    of Lightning before a training is neither a step nor recorded.

    A Profiler that is not running is started when the Trainer begins, follows its schedule from there, and is stopped
    at the end; step numbers continue from one call of `fit` to the next. A running Profiler is left running. If the
    Trainer raises, the recording so far is delivered and marked incomplete.

    Args:
        profiler: The Profiler to drive.
        by: The unit of a step. By "epoch", a whole `validate`, `test` or `predict` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or a wrong value.
        UsageError: Lightning has not been imported.

    Example:
        >>> Trainer(callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    UNITS = ("batch", "epoch")

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Create an instance that is also a callback of Lightning."""
        return super().__new__(with_bases(cls, _callback_classes(), library="Lightning"))

    def __init__(
        self,
        profiler: Profiler | None = None,
        *,
        by: By = "batch",
        steps: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)

    # --- called by a Trainer ----------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin `fit`, after its sanity check."""
        self._begin("fit", f"lightning {self.by}")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step, by batch."""
        self._end_unit("fit", "batch")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """End a step, by epoch."""
        self._end_unit("fit", "epoch")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End `fit`."""
        self._driver.end("fit")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin `validate`, or the validation of a `fit`."""
        if not trainer.sanity_checking:
            self._begin("validate", f"lightning {self.by}")

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step of `validate`, by batch."""
        self._end_unit("validate", "batch")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End `validate`."""
        self._end_whole("validate")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin `test`."""
        self._begin("test", f"lightning {self.by}")

    def on_test_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step of `test`, by batch."""
        self._end_unit("test", "batch")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """End `test`."""
        self._end_whole("test")

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin `predict`."""
        self._begin("predict", f"lightning {self.by}")

    def on_predict_batch_end(self, trainer: Any, pl_module: Any, *_batch: Any) -> None:
        """End a step of `predict`, by batch."""
        self._end_unit("predict", "batch")

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        """End `predict`."""
        self._end_whole("predict")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Deliver the recording so far: the Trainer raises, or was interrupted."""
        self._driver.abandon()


def _callback_classes() -> tuple[type[Any], ...]:
    """Return the Callback of each Lightning that the program has imported."""
    return tuple(sys.modules[name].Callback for name in _MODULES if name in sys.modules)
