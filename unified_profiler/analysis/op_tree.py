"""Builds the tree of operator calls of one trace and sums times and memory over its branches.

Unlike in the tree of all events, the facade's spans, API calls and memory records are not nodes, so that self times are
those of the native profiler. Device time counts for the operator that launched the work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows, self_time, within
from unified_profiler.analysis.columns import Codes, Flags, coded, ints
from unified_profiler.analysis.devices.work import launches_of
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer


@dataclass(frozen=True)
class Branch:
    """A quantity of each node: its own, and the total including its descendants."""

    own: Ints
    total: Ints


@dataclass(frozen=True)
class OpTree:
    """One entry per event of the trace; zero or false where the event is not a node."""

    node: Flags
    on_device: Flags
    """Work of an accelerator, which is outside the tree of its host."""
    launcher: Ints
    """Row of the operator that launched this work of an accelerator, -1 if unknown."""
    cpu: Branch
    device: Branch
    cpu_memory: Branch
    device_memory: Branch


def op_tree(events: EventTable, *, regions: bool = False, merge_duplicates: bool = True) -> OpTree:
    """Build the tree of one trace.

    Args:
        events: The events of one trace, nested.
        regions: Whether the facade's steps and regions are nodes too. Those of native profilers always are, since
            they are in the native profilers' own tables.
        merge_duplicates: Whether a call that is the only child of a call of the same name is merged into that call,
            as in torch. Calls of the runtime always are.
    """
    kinds = _Kinds(events, regions=regions)
    node, parent = kinds.node, parent_rows(events)
    parent = nearest(parent, parent=parent, wanted=node)
    merged = _duplicates(coded(events, "name").codes, parent, node)
    node = node & ~(merged if merge_duplicates else merged & kinds.runtime)
    parent = nearest(parent, parent=parent, wanted=node)
    launcher = _launchers(events, kinds, parent=parent, wanted=node & kinds.launches)
    duration = ints(events, "duration_ns")
    size = np.where(kinds.memory, ints(events, "bytes", null=0), 0)
    return OpTree(
        node=node,
        on_device=kinds.on_device,
        launcher=launcher,
        cpu=Branch(own=self_time(duration, parent, node), total=np.where(node, duration, 0)),
        device=_branch(np.where(kinds.on_device, duration, 0), launcher, parent),
        cpu_memory=_branch(np.where(kinds.foreign, 0, size), parent, parent),
        device_memory=_branch(np.where(kinds.foreign, size, 0), parent, parent),
    )


class _Kinds:
    """Flags of the events of one trace, by kind and device."""

    def __init__(self, events: EventTable, *, regions: bool) -> None:
        kind = coded(events, "kind")

        def is_kind(*wanted: Kind) -> Flags:
            return kind.where({k.value for k in wanted}.__contains__)

        self.foreign = coded(events, "device").where(lambda name: not name.startswith("cpu"))
        self.on_device = self.foreign & is_kind(Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE)
        self.runtime = is_kind(Kind.RUNTIME) & ~self.foreign
        self.memory = is_kind(Kind.MEMORY)
        calls = is_kind(Kind.OP, Kind.COLLECTIVE, Kind.KERNEL, Kind.COPY) & ~self.on_device
        calls |= self.runtime | is_kind(Kind.COMPILE)
        self.launches = calls & ~self.runtime
        spans = is_kind(Kind.REGION, Kind.STEP, Kind.MODULE) & ~self.foreign
        spans &= ~coded(events, "layer").where(Layer.API.value.__eq__)
        if not regions:
            spans &= coded(events, "framework").codes >= 0
        self.node = calls | spans


def _duplicates(name: Codes, parent: Ints, node: Flags) -> Flags:
    children = np.flatnonzero(node & (parent >= 0))
    parents = parent[children]
    is_only = np.bincount(parents, minlength=len(name))[parents] == 1
    flags = np.zeros(len(name), np.bool_)
    flags[children] = is_only & (name[parents] == name[children])
    return flags


def _launchers(events: EventTable, kinds: _Kinds, *, parent: Ints, wanted: Flags) -> Ints:
    """Find the operator that launched each piece of device work: it encloses the call of the same correlation id."""
    launcher = np.full(len(parent), -1, np.int64)
    work = np.flatnonzero(kinds.on_device)
    launcher[work] = launches_of(events, work, calls=kinds.node, is_runtime=kinds.runtime)
    return nearest(launcher, parent=parent, wanted=wanted)


def _branch(amount: Ints, owner: Ints, parent: Ints) -> Branch:
    """Add each amount to its owner and, for the total, to all ancestors of the owner."""
    own = np.zeros(len(amount), np.int64)
    owned = np.flatnonzero((amount != 0) & (owner >= 0))
    if not len(owned):
        return Branch(own=own, total=own)
    np.add.at(own, owner[owned], amount[owned])
    return Branch(own=own, total=own + within(own, parent))
