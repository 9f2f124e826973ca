"""A callback for `train`, `fit` and `eval` of MindSpore's Model.

Model takes nothing but subclasses of its own Callback, so that the class is completed when the first one is made: by
then the program has imported MindSpore, and nothing is imported here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from unified_profiler.integrations._bases import completed
from unified_profiler.integrations._callback import StepCallback
from unified_profiler.model.records import StepSignal
from unified_profiler.profiler import Profiler

if TYPE_CHECKING:
    from typing_extensions import Self

By = Literal["step", "epoch"]


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each step or epoch of a Model.

    In `train` and `fit` the training steps are the steps; the evaluation in `fit` is a region called "eval". `eval` has
    its own steps. With data sinking in graph mode MindSpore tells only the end of each sink, an epoch unless
    `sink_size` says otherwise: then that is a step.

    A Profiler which is not running is started when the Model begins, follows its schedule from there, and is stopped at
    the end; step numbers go on from one call of `train` to the next. A Profiler which is running is left running. If
    the Model raises, what was recorded until then is delivered.

    Args:
        profiler: The Profiler to drive.
        by: What a step is. By "epoch" a whole `eval` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or a wrong value.
        UsageError: MindSpore has not been imported.

    Example:
        >>> model.train(1, data, callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    UNITS = ("step", "epoch")

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Make an instance that is one of MindSpore's callbacks as well."""
        return super().__new__(completed(cls, _callback_classes(), library="MindSpore"))

    def __init__(
        self,
        profiler: Profiler | None = None,
        *,
        by: By = "step",
        steps: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)

    # --- what a Model calls -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Do nothing: Model enters its callbacks before it begins."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """Deliver what there is if the Model raised."""
        if kind is not None:
            self._driver.abandon()

    def on_train_begin(self, run_context: Any) -> None:
        """Begin to follow `train` or `fit`."""
        self._begin("train", run_context)

    def on_train_step_end(self, run_context: Any) -> None:  # noqa: ARG002  the signature is MindSpore's
        """End a step, by step."""
        if self.by == "step":
            self._driver.step("train")

    def on_train_epoch_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End a step, by epoch."""
        if self.by == "epoch":
            self._driver.step("train")

    def on_train_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End with `train` or `fit`."""
        self._driver.end("train")

    def on_eval_begin(self, run_context: Any) -> None:
        """Begin to follow `eval`, unless it is part of a `fit`."""
        self._begin("eval", run_context)

    def on_eval_step_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End a step of `eval`, by step."""
        if self.by == "step":
            self._driver.step("eval")

    def on_eval_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End with `eval`; by epoch it was one step."""
        if self.by == "epoch":
            self._driver.step("eval")
        self._driver.end("eval")

    # --- ours -------------------------------------------------------------------------------------------------

    def _begin(self, phase: str, run_context: Any) -> None:
        if self._driver.phase is None and self.profiler.level:
            sinking = self.by == "step" and run_context.original_args().get("dataset_sink_mode")
            self.profiler.step_signal = StepSignal(name=f"mindspore {self.by}{', data sinking' if sinking else ''}")
        self._driver.begin(phase)


def _callback_classes() -> tuple[type[Any], ...]:
    """Return MindSpore's Callback, if the program has imported it."""
    module = sys.modules.get("mindspore.train.callback")
    return () if module is None else (module.Callback,)
