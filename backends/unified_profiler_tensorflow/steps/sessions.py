"""Hooks the runs of v1 sessions to detect steps, and distinguishes runs that train from others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from unified_profiler.spi.patching import Report, SharedPatch, Undo, replace, undo_all
from unified_profiler_tensorflow.steps.training import CALL_BEGINS, CallSignal, TrainingEvidence


def _wrap_runs(module: ModuleType, listeners: Mapping[CallSignal, Report]) -> Undo:
    run = _wrap_run(module.BaseSession, listeners)
    return undo_all(*(replace(owner, "run", run) for owner in (module.Session, module.InteractiveSession)))


RUNS: SharedPatch[CallSignal] = SharedPatch(_wrap_runs)
"""Session runs, by the evidence that they train."""


def _wrap_run(base: Any, listeners: Mapping[CallSignal, Report]) -> Callable[..., Any]:
    """Return a wrapper that looks up the inherited `run` at each call.

    It therefore stays the outer wrapper when a recorder wraps `BaseSession.run` later: the step ends after the recorder
    has seen the run.
    """
    cache: WeakKeyDictionary[Any, dict[int, TrainingEvidence]] = WeakKeyDictionary()

    @functools.wraps(base.run)
    def run(self: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        if (report := listeners.get(CALL_BEGINS)) is not None:
            report(id(self))
        result = base.run(self, fetches, *args, **kwargs)
        leaves = list(_leaves(fetches))
        key = hash(tuple(leaf if isinstance(leaf, str) else id(leaf) for leaf in leaves))
        evidence = cache.setdefault(self.graph, {})
        if key not in evidence:
            evidence[key] = _find_evidence(self.graph, leaves)
        report = listeners.get(evidence[key])
        if report is not None:
            report(key)
        return result

    return run


def _leaves(fetches: Any) -> Iterator[Any]:
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        for item in fetches:
            yield from _leaves(item)
    else:
        yield fetches


def _find_evidence(graph: Any, leaves: list[Any]) -> TrainingEvidence:
    """Search all operators that the fetches depend on for an optimizer's update."""
    pending = [op for op in (_op_of(graph, leaf) for leaf in leaves) if op is not None]
    seen = set(pending)
    while pending:
        op = pending.pop()
        if op.type.startswith(_UPDATES):
            return TrainingEvidence.OPTIMIZER
        inputs = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
        pending += inputs - seen
        seen |= inputs
    return TrainingEvidence.NONE


_UPDATES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
"""Prefixes of the types of operators that update a variable by an optimizer's rule."""


def _op_of(graph: Any, leaf: Any) -> Any:
    try:
        element = graph.as_graph_element(leaf)
    except (TypeError, ValueError, KeyError):  # a composite value, such as a SparseTensor: a result, not an update
        return None
    return getattr(element, "op", element)
