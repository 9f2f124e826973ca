"""A callback for `train`, `evaluate` and `predict` of the Hugging Face Trainer.

The class is completed with the library's own TrainerCallback when the first one is made, so that it has every event
there is: by then the program has imported the library, and nothing is imported here.
"""

# ruff: noqa: ARG002  the signatures are those of the Trainer

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from unified_profiler.integrations._bases import completed
from unified_profiler.integrations._callback import StepCallback
from unified_profiler.model.records import StepSignal
from unified_profiler.profiler import Profiler

if TYPE_CHECKING:
    from typing_extensions import Self

By = Literal["step", "batch", "epoch"]


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each step, batch or epoch of a Trainer.

    In `train` a step is what the Trainer calls one: an update of the weights, with all batches whose gradients were
    accumulated for it. The evaluation in it is a region called "evaluate". `evaluate` and `predict` by themselves have
    their own batches as steps. Of these the Trainer tells nothing before the first batch is done, so that the second
    one is step 0, unless a Profiler is running already.

    A Profiler which is not running is started when `train` begins, follows its schedule from there, and is stopped at
    the end; step numbers go on from one call of `train` to the next. A Profiler which is running is left running.

    Args:
        profiler: The Profiler to drive.
        by: What a step is. By "epoch" a whole `evaluate` or `predict` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or a wrong value.
        UsageError: transformers has not been imported.

    Example:
        >>> Trainer(model, callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    UNITS = ("step", "batch", "epoch")

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Make an instance that is one of the library's callbacks as well."""
        return super().__new__(completed(cls, _callback_classes(), library="transformers"))

    def __init__(
        self,
        profiler: Profiler | None = None,
        *,
        by: By = "step",
        steps: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)
        self._evaluating = False
        self._loader: Any = None

    # --- what a Trainer calls in `train` ----------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """Begin to follow `train`."""
        batches = args.gradient_accumulation_steps if self.by == "step" else 1
        self._begin("train", unit=self.by if batches == 1 else f"step of {batches} batches")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End an evaluation that was announced and then called off."""
        self._end_evaluation()

    def on_substep_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End a step, by batch: the gradients of this one are only accumulated."""
        if self.by == "batch":
            self._driver.step("train")

    def on_step_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End a step, unless by epoch."""
        if self.by != "epoch":
            self._driver.step("train")
        self._expect_evaluation(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End a step, by epoch."""
        if self.by == "epoch":
            self._driver.step("train")
        self._expect_evaluation(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End with `train`."""
        self._driver.end("train")

    # --- what a Trainer calls in evaluations ------------------------------------------------------------------

    def on_prediction_step(self, args: Any, state: Any, control: Any, **trainer: Any) -> None:
        """End a step of `evaluate` or `predict`; its first batch is the first sign of it, unless it was announced."""
        loader = trainer.get("eval_dataloader")
        if self._driver.phase == "train":
            self._begin_evaluation()
        elif self._driver.phase is None or loader is not self._loader:  # another one, which raised, had the old loader
            self._begin_alone(loader)
        elif self.by != "epoch":
            self._driver.step("evaluate")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End with `evaluate`."""
        self._end_evaluation()

    def on_predict(self, args: Any, state: Any, control: Any, **_trainer: Any) -> None:
        """End with `predict`."""
        self._end_evaluation()

    # --- ours -------------------------------------------------------------------------------------------------

    def _begin(self, phase: str, *, unit: str) -> bool:
        """Begin to follow a phase; return whether the Profiler was running already."""
        self._driver.abandon()  # the Trainer does not tell when it raises
        self._evaluating = False
        running = self.profiler.running
        if self.profiler.level:
            self.profiler.step_signal = StepSignal(name=f"transformers {unit}")
        self._driver.begin(phase)
        return running

    def _begin_alone(self, loader: Any) -> None:
        """Begin to follow an evaluation that is not part of a training, and whose first batch is over."""
        self._loader = loader
        running = self._begin("evaluate", unit="epoch" if self.by == "epoch" else "batch")
        if running and self.by != "epoch":
            self._driver.step("evaluate")

    def _expect_evaluation(self, control: Any) -> None:
        if control.should_evaluate and self._driver.phase == "train":
            self._begin_evaluation()

    def _begin_evaluation(self) -> None:
        if not self._evaluating:
            self._evaluating = True
            self._driver.begin("evaluate")

    def _end_evaluation(self) -> None:
        if self.by == "epoch":
            self._driver.step("evaluate")
        self._driver.end("evaluate")
        self._evaluating, self._loader = False, None


def _callback_classes() -> tuple[type[Any], ...]:
    """Return TrainerCallback, which transformers itself imports when it is asked for."""
    module = sys.modules.get("transformers")
    return () if module is None else (module.TrainerCallback,)
