"""One run of a session: how it is called so that TensorFlow traces it, and what is kept of it."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import tensorflow as tf

if TYPE_CHECKING:
    from typing_extensions import Self


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

    def keep(self, metadata: bytes, graph: Any, *, step: int | None, start_ns: int) -> None:
        """Keep a run that ended well."""
        ...

    def failed(self, error: Exception) -> None:
        """Tell that a run could not be traced."""
        ...


class Run(NamedTuple):
    """A run that ended well."""

    metadata: bytes
    graph: str | None
    step: int | None
    start_ns: int
    end_ns: int
    thread: int

    @property
    def computed(self) -> bool:
        """Whether there was anything to compute."""
        stats = tf.compat.v1.RunMetadata.FromString(self.metadata).step_stats
        return any(device.node_stats for device in stats.dev_stats)

    def entry(self) -> dict[str, Any]:
        """Return what RunMetadata does not say."""
        entry = self._asdict()
        del entry["metadata"]
        return {**entry, "pid": os.getpid()}


class _Traced(ABC):
    """One run: what it is called with instead of the user's own, and what is kept of it when it ended well.

    What goes wrong here is told and forgotten, so that the run is made exactly once, as the user wrote it if need be.
    """

    def __init__(self, collector: Collector, options: Any, metadata: Any) -> None:
        self.options, self.metadata = options, metadata
        self._collector = collector
        self._step = collector.step
        self._start_ns: int | None = None
        self._taken = ExitStack()

    @abstractmethod
    def _ask(self) -> None:
        """Replace options and metadata by such as trace the run."""

    @abstractmethod
    def _told(self) -> tuple[bytes, Any]:
        """Return RunMetadata and graph of the run."""

    def __enter__(self) -> Self:
        """Ask for a trace."""
        self._collector.begin()
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001  the user's run goes on
            self._collector.failed(error)
        else:
            self._start_ns = time.time_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Keep the run if it ended well."""
        try:
            with self._taken:
                if kind is None and self._start_ns is not None:
                    metadata, graph = self._told()
                    self._collector.keep(metadata, graph, step=self._step, start_ns=self._start_ns)
        except Exception as failure:  # noqa: BLE001  the user's run has ended well
            self._collector.failed(failure)
        finally:
            self._collector.end()


class TracedCall(_Traced):
    """A run through TensorFlow's C interface, whose buffers hold options and metadata."""

    def __init__(self, collector: Collector, native: Any, session: Any, options: Any, metadata: Any) -> None:
        """Prepare a run.

        Args:
            collector: Whoever collects it.
            native: The module of TensorFlow's C functions.
            session: The session that runs.
            options: The user's, None without.
            metadata: The user's, None without.
        """
        super().__init__(collector, options, metadata)
        self._native = native
        self._session = session

    def _ask(self) -> None:
        given = None
        if self.options is not None:
            given = tf.compat.v1.RunOptions.FromString(self._native.TF_GetBuffer(self.options))
        wanted = self._collector.options_for(given).SerializeToString()
        options = self._take(self._native.TF_NewBufferFromString(wanted))
        self.metadata = self._take(self._native.TF_NewBuffer()) if self.metadata is None else self.metadata
        self.options = options

    def _take(self, buffer: Any) -> Any:
        self._taken.callback(self._native.TF_DeleteBuffer, buffer)
        return buffer

    def _told(self) -> tuple[bytes, Any]:
        return self._native.TF_GetBuffer(self.metadata), self._session.graph


class TracedFunction(_Traced):
    """A call of a function of tf_keras in graph mode, which keeps options and metadata as messages."""

    def __init__(self, collector: Collector, function: Any) -> None:
        super().__init__(collector, function.run_options, function.run_metadata)
        self._function = function

    def _ask(self) -> None:
        self.options = self._collector.options_for(self.options)
        self.metadata = tf.compat.v1.RunMetadata() if self.metadata is None else self.metadata

    def _told(self) -> tuple[bytes, Any]:
        return self.metadata.SerializeToString(), self._function.outputs[0].graph
