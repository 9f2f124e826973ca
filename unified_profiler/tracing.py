"""`trace_api`: the calls of the frameworks' API, without a schedule and without the native profilers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from unified_profiler._delivery import Handler
from unified_profiler.keywords import checked_keywords
from unified_profiler.profiler import Profiler


@checked_keywords
def trace_api(
    *,
    inside: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    arguments: bool = True,
    synchronise: bool = False,
    with_modules: bool | None = None,
    backend: str | Sequence[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    on_trace_ready: Handler | Sequence[Handler] | None = None,
) -> Profiler:
    """Record the calls of the public API of every imported framework, nothing else.

    Use what it returns with `with`, as a decorator, or by `start()` and `stop()`; everything is undone at the end, and
    the calls are in its `run`: `api_table(tracer.run)`. With `output_dir` they are written as they come, in parts, so
    that memory stays bounded.

    Args:
        inside: Whether to record the calls that the frameworks make themselves, too, not only those of user code.
        include: Patterns of names to record, such as `torch.nn.functional.*`; all if not given.
        exclude: Patterns of names not to record.
        arguments: Whether to keep a short text of the arguments, `Tensor[4,16] float32 cpu`; never the values.
        synchronise: Whether to wait, at the end of a call, for the work that it queued.
        with_modules: Whether to record calls of modules (layers, Cells) with their paths in the model.
        backend: "auto" (every imported framework), or one or several names.
        output_dir: Where the run is written; without it the calls stay in memory.
        on_trace_ready: A function, or several, called with each finished Trace.

    Raises:
        ConfigurationError: An option is wrong. A pattern that matches nothing is told when tracing begins.
    """
    return Profiler(
        api={
            "inside": inside,
            "include": include,
            "exclude": exclude,
            "arguments": arguments,
            "synchronise": synchronise,
        },
        operators=False,
        hardware_hz=0,
        with_modules=with_modules,
        backend=backend,
        output_dir=output_dir,
        on_trace_ready=on_trace_ready,
    )
