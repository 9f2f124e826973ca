"""Traces single runs of v1 sessions: passes tracing options to TensorFlow and keeps the RunMetadata it returns."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

if TYPE_CHECKING:
    from typing_extensions import Self

    from unified_profiler_tensorflow.record.session_collector import SessionCollector


class Run(NamedTuple):
    """A run that succeeded."""

    metadata: bytes
    graph: str | None
    step: int | None
    start_ns: int
    end_ns: int
    thread: int

    @property
    def has_nodes(self) -> bool:
        """Whether any node was executed."""
        stats = tf.compat.v1.RunMetadata.FromString(self.metadata).step_stats
        return any(device.node_stats for device in stats.dev_stats)

    def entry(self) -> dict[str, Any]:
        """Return the fields that RunMetadata does not contain."""
        entry = self._asdict()
        del entry["metadata"]
        return {**entry, "pid": os.getpid()}


class _TracedRun(ABC):
    """Provides the options and metadata of one run in place of the user's, and keeps the run if it succeeds.

    Errors in tracing are reported and suppressed, so that the run is made exactly once, untraced if necessary.
    """

    def __init__(self, collector: SessionCollector, options: Any, metadata: Any) -> None:
        self.options, self.metadata = options, metadata
        self._collector = collector
        self._step = collector.step
        self._start_ns: int | None = None
        self._buffers = ExitStack()

    @abstractmethod
    def _request_trace(self) -> None:
        """Replace options and metadata with ones that trace the run."""

    @abstractmethod
    def _recorded(self) -> tuple[bytes, Any]:
        """Return RunMetadata and graph of the run."""

    def __enter__(self) -> Self:
        """Request a trace."""
        self._collector.count_running(1)
        try:
            self._request_trace()
        except Exception as error:  # noqa: BLE001  the user's run goes on
            self._collector.report_failure(error)
        else:
            self._start_ns = time.time_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Keep the run if it succeeded."""
        try:
            with self._buffers:
                if kind is None and self._start_ns is not None:
                    metadata, graph = self._recorded()
                    self._collector.keep(metadata, graph, step=self._step, start_ns=self._start_ns)
        except Exception as failure:  # noqa: BLE001  the user's run has succeeded
            self._collector.report_failure(failure)
        finally:
            self._collector.count_running(-1)


class TracedSessionRun(_TracedRun):
    """A run through TensorFlow's C interface (`native`), whose buffers hold options and metadata.

    `options` and `metadata` are None where the user passed none.
    """

    def __init__(self, collector: SessionCollector, native: Any, session: Any, options: Any, metadata: Any) -> None:
        super().__init__(collector, options, metadata)
        self._native = native
        self._session = session

    def _request_trace(self) -> None:
        user_options = None
        if self.options is not None:
            user_options = tf.compat.v1.RunOptions.FromString(self._native.TF_GetBuffer(self.options))
        encoded = self._collector.tracing_options(user_options).SerializeToString()
        options = self._delete_at_exit(self._native.TF_NewBufferFromString(encoded))
        self.metadata = self._delete_at_exit(self._native.TF_NewBuffer()) if self.metadata is None else self.metadata
        self.options = options

    def _delete_at_exit(self, buffer: Any) -> Any:
        self._buffers.callback(self._native.TF_DeleteBuffer, buffer)
        return buffer

    def _recorded(self) -> tuple[bytes, Any]:
        return self._native.TF_GetBuffer(self.metadata), self._session.graph


class TracedKerasFunction(_TracedRun):
    """A call of a tf_keras function in graph mode, which stores options and metadata as messages."""

    def __init__(self, collector: SessionCollector, function: Any) -> None:
        super().__init__(collector, function.run_options, function.run_metadata)
        self._function = function

    def _request_trace(self) -> None:
        self.options = self._collector.tracing_options(self.options)
        self.metadata = tf.compat.v1.RunMetadata() if self.metadata is None else self.metadata

    def _recorded(self) -> tuple[bytes, Any]:
        return self.metadata.SerializeToString(), self._function.outputs[0].graph
