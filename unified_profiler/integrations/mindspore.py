"""A callback for `train`, `fit` and `eval` of MindSpore's Model.

Model accepts only subclasses of MindSpore's Callback, which becomes a base of the class when the first one is created:
by then the program has imported MindSpore, and nothing is imported here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from unified_profiler.integrations._bases import with_bases
from unified_profiler.integrations._callback import StepCallback
from unified_profiler.profiler import Profiler

if TYPE_CHECKING:
    from typing_extensions import Self

By = Literal["step", "epoch"]


class ProfilerCallback(StepCallback):
    """Calls `Profiler.step()` at the end of each step or epoch of a Model.

    In `train` and `fit` the training steps are the steps; the evaluation in `fit` is a region called "eval". `eval` has
    its own steps. With data sinking in graph mode MindSpore reports only the end of each sink, which is a step then: an
    epoch, or `sink_size` steps.

    A Profiler that is not running is started when the Model begins, follows its schedule from there, and is stopped at
    the end; step numbers continue from one call of `train` to the next. A running Profiler is left running. If the
    Model raises, the recording so far is delivered.

    Args:
        profiler: The Profiler to drive.
        by: The unit of a step. By "epoch", a whole `eval` is one step.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or a wrong value.
        UsageError: MindSpore has not been imported.

    Example:
        >>> model.train(1, data, callbacks=[ProfilerCallback(steps=(10, 12), output_dir="profile")])  # doctest: +SKIP
    """

    UNITS = ("step", "epoch")

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Create an instance that is also a callback of MindSpore."""
        return super().__new__(with_bases(cls, _callback_classes(), library="MindSpore"))

    def __init__(
        self, profiler: Profiler | None = None, *, by: By = "step", steps: tuple[int, int] | None = None, **options: Any
    ) -> None:
        super().__init__(profiler, by=by, steps=steps, **options)

    # --- called by a Model ------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Do nothing: Model enters its callbacks first."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_error: object) -> None:
        """Deliver the recording so far if the Model raised."""
        if exc_type is not None:
            self._driver.abandon()

    def on_train_begin(self, run_context: Any) -> None:
        """Begin `train` or `fit`."""
        self._begin("train", self._signal(run_context))

    def on_train_step_end(self, run_context: Any) -> None:  # noqa: ARG002  the signature is MindSpore's
        """End a step, by step."""
        self._end_unit("train", "step")

    def on_train_epoch_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End a step, by epoch."""
        self._end_unit("train", "epoch")

    def on_train_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End `train` or `fit`."""
        self._driver.end("train")

    def on_eval_begin(self, run_context: Any) -> None:
        """Begin `eval`, or the evaluation of a `fit`."""
        self._begin("eval", self._signal(run_context))

    def on_eval_step_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End a step of `eval`, by step."""
        self._end_unit("eval", "step")

    def on_eval_end(self, run_context: Any) -> None:  # noqa: ARG002
        """End `eval`, which is one step by epoch."""
        self._end_whole("eval")

    def _signal(self, run_context: Any) -> str:
        sinking = self.by == "step" and run_context.original_args().get("dataset_sink_mode")
        return f"mindspore {self.by}{', data sinking' if sinking else ''}"


def _callback_classes() -> tuple[type[Any], ...]:
    """Return MindSpore's Callback, if the program has imported it."""
    module = sys.modules.get("mindspore.train.callback")
    return () if module is None else (module.Callback,)
