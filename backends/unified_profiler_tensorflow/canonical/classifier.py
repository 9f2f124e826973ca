"""Classifies the nodes of a graph, once for all nodes that differ only in numbers and in names without a meaning.

`dense_1/MatMul` and `dense_2/MatMul`, `block1/attention/add` and `block2/attention/add` have the same operator, origin
and direction, and their layers are at the same position of the path. A graph of thousands of nodes has a few dozen of
these forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from unified_profiler.model.columns import Index
from unified_profiler_tensorflow.canonical.assignment import layer_of, lookup_path
from unified_profiler_tensorflow.canonical.live_names import LiveNames
from unified_profiler_tensorflow.canonical.path import (
    STRUCTURE,
    NodePath,
    class_stem,
    creator_of,
    forward_scope,
    forward_type,
    scope_stem,
)
from unified_profiler_tensorflow.canonical.table import table

_PLAIN = re.compile(r"[\w.-]+")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")

Classification = tuple[str | None, str | None, str | None, str | None]
"""Operator, origin, direction and module of a node: a plain tuple, since there is one for each node."""

_UNKNOWN: Classification = (None, None, None, None)


class _Form(NamedTuple):
    """What the nodes of one form have in common."""

    op: str | None
    origin: str | None
    direction: str | None
    layer: Callable[[Sequence[str]], Iterable[str]] | None
    """Returns the scopes that lead to the layer, given all scopes in the name of a node."""


@dataclass(frozen=True)
class NodeClassifier:
    """Classifies nodes by the live objects of the recorded process, where these are known."""

    live: LiveNames
    _forms: dict[tuple[Hashable, ...], _Form] = field(default_factory=dict, repr=False, compare=False)

    def classify(self, node: str, op_type: str) -> Classification:
        """Return operator, origin, direction and layer of a node, all None if the type is empty, which is unknown."""
        if not op_type:
            return _UNKNOWN
        parts = node.split("/")
        facts = self._live_facts(node) if self._has_facts else None
        key = (op_type, facts, *map(self._scopes.__getitem__, parts))
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = _form(NodePath(node, self.live), op_type)
        op, origin, direction, layer = form
        module = None if layer is None else "/".join(layer(parts))
        return op, origin, direction, module

    def _live_facts(self, node: str) -> Hashable:
        """Return what the live graphs contain about this very node."""
        return creator_of(node, self.live), forward_type(node, self.live)

    @cached_property
    def _has_facts(self) -> bool:
        return bool(self.live.roots or self.live.gradients)

    @cached_property
    def _scopes(self) -> _ScopeForms:
        return _ScopeForms(self.live)


def _form(path: NodePath, op_type: str) -> _Form:
    canonical, layer = lookup_path(path, op_type), layer_of(path)
    scopes = None if layer is None else _getter(path.positions()[layer])
    return _Form(canonical.op, canonical.origin, canonical.direction, scopes)


def _getter(positions: Sequence[int]) -> Callable[[Sequence[str]], Iterable[str]]:
    first, end = positions[0], positions[-1] + 1
    return itemgetter(slice(first, end)) if end - first == len(positions) else itemgetter(*positions)


class _ScopeForms(dict[str, int]):
    """Numbers the forms of scopes: scopes have the same form if no rule distinguishes them."""

    def __init__(self, live: LiveNames) -> None:
        super().__init__()
        self._live = live
        self._forms = Index()
        self._meanings: dict[str, bool] = {}
        classes = {owner.class_name for owner in live.names.values()}
        self._live_classes = classes | {class_stem(name) for name in live.names}

    def __missing__(self, part: str) -> int:
        name, _, suffix = part.rpartition("_")
        first = f"{name}_0"
        # numbers at the end distinguish no scopes, unless a live object has such a name
        is_numbered = suffix.isdecimal() and part != first and not self._live.names
        self[part] = number = self[first] if is_numbered else self._forms[self._form(part)]
        return number

    def _form(self, part: str) -> Hashable:
        if not _PLAIN.fullmatch(part):
            return part
        stem, owner = scope_stem(part), self._live.get(forward_scope(part))
        suffix = _NUMBER.sub("0", part.removeprefix(stem))
        if owner is not None or self._has_meaning(stem, part):
            return owner, stem, suffix
        # all that the patterns for paths distinguish in a name that they do not contain
        return stem.startswith("_"), _WORD.fullmatch(stem) is not None, suffix

    def _has_meaning(self, stem: str, part: str) -> bool:
        """Return whether a rule is about the name; the same for all scopes with this stem."""
        if stem not in self._meanings:
            class_name = class_stem(part)
            is_class = class_name in self._live_classes
            self._meanings[stem] = stem in STRUCTURE or is_class or table().has_meaning(stem, class_name)
        return self._meanings[stem]
