"""One run of a session: how it is called so that TensorFlow traces it, and what is kept of it."""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import tensorflow as tf

if TYPE_CHECKING:
    from typing_extensions import Self

C_INTERFACE = "tensorflow.python.client.pywrap_tf_session"
"""The module of TensorFlow's C functions for sessions."""


class Collector(Protocol):
    """Whoever collects the runs."""

    step: int | None

    def begin(self) -> None:
        """Count a run that begins."""
        ...

    def end(self) -> None:
        """Count a run that ended."""
        ...

    def options_for(self, given: Any) -> Any:
        """Return a copy of a run's own options that traces it."""
        ...

    def keep(self, metadata: Any, graph: Any, *, step: int | None, start_ns: int) -> None:
        """Keep a run that ended well."""
        ...

    def failed(self, error: Exception) -> None:
        """Tell that a run could not be traced."""
        ...


class Run(NamedTuple):
    """A run that ended well."""

    metadata: Any
    graph: str | None
    step: int | None
    start_ns: int
    end_ns: int
    thread: int

    def entry(self) -> dict[str, Any]:
        """Return what RunMetadata does not say."""
        entry = self._asdict()
        del entry["metadata"]
        return {**entry, "pid": os.getpid()}


class Traced:
    """One run: what it is called with instead of the user's own, and what is kept of it when it ended well.

    What goes wrong here is told and forgotten, so that the run is made exactly once, as the user wrote it if need be.
    """

    def __init__(self, collector: Collector, graph: Callable[[], Any], options: Any, metadata: Any) -> None:
        self.options, self.metadata = options, metadata
        self._collector = collector
        self._theirs = metadata is not None
        self._graph = graph
        self._step = collector.step
        self._start_ns: int | None = None

    def __enter__(self) -> Self:
        """Ask for a trace."""
        self._collector.begin()
        try:
            self.options = self._collector.options_for(self.options)
        except Exception as error:  # noqa: BLE001  the user's run goes on
            self._collector.failed(error)
        else:
            self.metadata = tf.compat.v1.RunMetadata() if self.metadata is None else self.metadata
            self._start_ns = time.time_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Keep the run if it ended well."""
        try:
            if kind is None and self._start_ns is not None:
                metadata = copy.copy(self.metadata) if self._theirs else self.metadata
                self._collector.keep(metadata, self._graph(), step=self._step, start_ns=self._start_ns)
        except Exception as failure:  # noqa: BLE001  the user's run has ended well
            self._collector.failed(failure)
        finally:
            self._collector.end()


class Buffers:
    """Options and metadata of one run as TensorFlow's C interface takes them."""

    def __init__(self, traced: Traced) -> None:
        self._native: Any = sys.modules[C_INTERFACE]
        self.options = self._native.TF_NewBufferFromString(traced.options.SerializeToString())
        self.metadata = self._native.TF_NewBuffer()
        self._message = traced.metadata

    def __enter__(self) -> Self:
        """Do nothing more: they are there."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Read the metadata of a run that ended well, and free the memory."""
        if kind is None:
            self._message.ParseFromString(self._native.TF_GetBuffer(self.metadata))
        self._native.TF_DeleteBuffer(self.metadata)
        self._native.TF_DeleteBuffer(self.options)
