"""A callback for `train`, `evaluate` and `predict` of the Hugging Face Trainer.

The class gets the library's own TrainerCallback as a base when the first one is created, so that it has a method for
every event: by then the program has imported the library, and nothing is imported here.
"""

# ruff: noqa: ARG002  the signatures are those of the Trainer

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from unified_profiler.integrations._bases import with_bases
from unified_profiler.integrations._callback import StepCallback
from unified_profiler.profiler import Profiler

if TYPE_CHECKING:
    from typing_extensions import Self

By = Literal["step", "batch", "epoch"]


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each step, batch or epoch of a Trainer.

    In `train` a step is that of the Trainer: an update of the weights, with all batches whose gradients it accumulates.
    The evaluation in it is a region called "evaluate". `evaluate` and `predict` outside `train` have their own batches
    as steps. The Trainer reports these only after the first batch, so that the second one is step 0, unless a Profiler
    is already running.

    A Profiler that is not running is started when `train` begins, follows its schedule from there, and is stopped at
    the end; step numbers continue from one call of `train` to the next. A running Profiler is left running.

    Args:
        profiler: The Profiler to drive.
        by: The unit of a step. By "epoch", a whole `evaluate` or `predict` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or a wrong value.
        UsageError: transformers has not been imported.

    Example:
        >>> Trainer(model, callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    UNITS = ("step", "batch", "epoch")

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Create an instance that is also a callback of transformers."""
        return super().__new__(with_bases(cls, _callback_classes(), library="transformers"))

    def __init__(
        self, profiler: Profiler | None = None, *, by: By = "step", steps: tuple[int, int] | None = None, **options: Any
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)
        self._evaluating = False
        self._loader: Any = None

    # --- called by a Trainer in `train` -----------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """Begin `train`."""
        batches = args.gradient_accumulation_steps if self.by == "step" else 1
        self._begin_outermost("train", unit=self.by if batches == 1 else f"step of {batches} batches")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End an evaluation that was expected but did not take place."""
        self._end_evaluation()

    def on_substep_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End a step, by batch: the gradients of this batch are only accumulated."""
        self._end_unit("train", "batch")

    def on_step_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End a step, unless by epoch."""
        if self.by != "epoch":
            self._driver.step("train")
        self._expect_evaluation(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End a step, by epoch."""
        self._end_unit("train", "epoch")
        self._expect_evaluation(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End `train`."""
        self._driver.end("train")

    # --- called by a Trainer in evaluations -------------------------------------------------------------------

    def on_prediction_step(self, args: Any, state: Any, control: Any, **trainer: Any) -> None:
        """End a step of `evaluate` or `predict`, or begin these after their first batch."""
        loader = trainer.get("eval_dataloader")
        if self._driver.stage == "train":
            self._begin_evaluation()
        elif self._driver.stage is None or loader is not self._loader:  # a new loader: the last evaluation raised
            self._begin_standalone(loader)
        elif self.by != "epoch":
            self._driver.step("evaluate")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End `evaluate`."""
        self._end_evaluation()

    def on_predict(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End `predict`."""
        self._end_evaluation()

    # --- helpers ----------------------------------------------------------------------------------------------

    def _begin_outermost(self, stage: str, *, unit: str) -> bool:
        """Begin an outermost stage; return whether the Profiler was already running."""
        self._driver.abandon()  # the Trainer does not report that it raises
        self._evaluating = False
        was_running = self.profiler.running
        self._begin(stage, f"transformers {unit}")
        return was_running

    def _begin_standalone(self, loader: Any) -> None:
        """Begin an evaluation that is not part of a training, and whose first batch is done."""
        self._loader = loader
        was_running = self._begin_outermost("evaluate", unit="epoch" if self.by == "epoch" else "batch")
        if was_running and self.by != "epoch":
            self._driver.step("evaluate")

    def _expect_evaluation(self, control: Any) -> None:
        if control.should_evaluate and self._driver.stage == "train":
            self._begin_evaluation()

    def _begin_evaluation(self) -> None:
        if not self._evaluating:
            self._evaluating = True
            self._driver.begin("evaluate")

    def _end_evaluation(self) -> None:
        self._end_whole("evaluate")
        self._evaluating, self._loader = False, None


def _callback_classes() -> tuple[type[Any], ...]:
    """Return TrainerCallback, which transformers imports on access."""
    module = sys.modules.get("transformers")
    return () if module is None else (module.TrainerCallback,)
