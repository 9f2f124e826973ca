"""Functions that record or log framework API calls only, without a schedule or a native profiler."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from unified_profiler.delivery.delivery import Handler
from unified_profiler.errors import OutputDirectoryError
from unified_profiler.keywords import checked_keywords
from unified_profiler.profiler import Profiler


@checked_keywords
def trace_api(
    *,
    inside: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    arguments: bool = True,
    synchronize: bool = False,
    with_modules: bool | None = None,
    backend: str | Sequence[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    on_trace_ready: Handler | Sequence[Handler] | None = None,
) -> Profiler:
    """Return a Profiler that records only calls of the public API of every imported framework.

    Use it with `with`, as a decorator, or by `start()` and `stop()`; all patches are removed at the end. Read the calls
    with `api_table(tracer.run)`. With `output_dir` they are written in parts while tracing, so that memory stays
    bounded.

    Args:
        inside: Record calls that the frameworks make internally too, not only calls from user code.
        include: Patterns of names to record, such as `torch.nn.functional.*`; all by default.
        exclude: Patterns of names not to record.
        arguments: Store a short description of the arguments, `Tensor[4,16] float32 cpu`; never the values.
        synchronize: Wait at the end of each call for the device work it queued.
        with_modules: Record calls of modules (layers, Cells) with their paths in the model.
        backend: "auto" (every imported framework), or one or several names.
        output_dir: Directory for the run; without it the calls stay in memory.
        on_trace_ready: A function, or several, called with each finished Trace.

    Raises:
        ConfigurationError: An option is wrong. Patterns are checked when tracing starts.
    """
    return Profiler(
        api={
            "inside": inside,
            "include": include,
            "exclude": exclude,
            "arguments": arguments,
            "synchronize": synchronize,
        },
        operators=False,
        hardware_hz=0,
        with_modules=with_modules,
        backend=backend,
        output_dir=output_dir,
        on_trace_ready=on_trace_ready,
    )


@contextmanager
@checked_keywords
def log_api_calls(path: str | os.PathLike[str] | None = None) -> Iterator[logging.Logger]:
    """Print every API call when it ends, and append it to a file.

    This covers tracers that start within the block. The block receives the logger, with which a program can add its
    own lines.

    Args:
        path: The file; without it calls are only printed.

    Raises:
        OutputDirectoryError: The file cannot be opened.

    Example:
        >>> with log_api_calls("performance.log") as log, trace_api() as tracer:
        ...     log.info("epoch 1")
        ...     train()
    """
    logger = logging.getLogger("unified_profiler.api")
    handlers = [logging.StreamHandler(sys.stdout), *_appending_to(path)]
    level = logger.level
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield logger
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.flush()
        for handler in handlers[1:]:
            handler.close()


def _appending_to(path: str | os.PathLike[str] | None) -> list[logging.Handler]:
    if path is None:
        return []
    try:
        return [logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")]
    except (OSError, ValueError) as error:
        msg = f"API calls cannot be logged to {os.fspath(path)!r}: {error}. Choose a file in a directory of your own."
        raise OutputDirectoryError(msg) from error
