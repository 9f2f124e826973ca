"""Loads `canonical/ops.toml` of a backend, which maps native names to canonical operators.

The format is the same for all backends. These sections list names by operator, `Conv = ["conv1d", "conv2d"]`; a name
may contain the wildcards `*` and `?`:

* `[kernel]`: operators and kernels themselves,
* `[function]`: functions, whose operator is the origin of everything inside,
* `[layer]`: layer classes, whose operator is the origin of everything inside,
* `[optimizer]`: optimizer classes,
* `[more.<name>]`: further sections of this form that a backend needs.

`[lists]` contains named lists of names, and `[patterns]` named regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property

from unified_profiler.toml_files import packaged_toml

FORWARD, BACKWARD, UPDATE, RECOMPUTE = "forward", "backward", "update", "recompute"
DIRECTIONS = (FORWARD, BACKWARD, UPDATE, RECOMPUTE)

OPTIMIZER = "x:Optimizer"
"""An optimizer that ONNX does not define, or that is unknown here."""


@dataclass(frozen=True)
class OperatorNames:
    """A section with a list of names for each operator."""

    by_operator: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def operators(self) -> Mapping[str, str]:
        """The operator of each name."""
        return {name: operator for operator, names in self.by_operator.items() for name in names}

    def find(self, *forms: str) -> str | None:
        """Return the operator of a name, given in one or more forms; an exact entry takes precedence over a pattern."""
        return self.find_exact(*forms) or self.find_wildcard(*forms)

    def find_exact(self, *forms: str) -> str | None:
        """Return the operator of the first form that has an entry."""
        return next((self.operators[form] for form in forms if form in self.operators), None)

    def find_wildcard(self, *forms: str) -> str | None:
        """Return the operator of the first entry with wildcards that matches any form."""
        return next((operator for match, operator in self._patterns if any(map(match, forms))), None)

    @cached_property
    def _patterns(self) -> list[tuple[Callable[[str], object], str]]:
        wildcards = ((name, operator) for name, operator in self.operators.items() if set(name) & {*"*?"})
        return [(re.compile(translate(name)).match, operator) for name, operator in wildcards]


@dataclass(frozen=True, kw_only=True)
class CanonicalTables:
    """The content of `canonical/ops.toml`."""

    kernel: OperatorNames
    function: OperatorNames
    layer: OperatorNames
    optimizer: OperatorNames
    more: Mapping[str, OperatorNames]
    lists: Mapping[str, frozenset[str]]
    patterns: Mapping[str, re.Pattern[str]]


def load_canonical(package: str) -> CanonicalTables:
    """Read the file of a backend.

    Args:
        package: The backend's package, such as `unified_profiler_torch`.

    Raises:
        ValueError: The file has an unknown section.
    """
    sections = packaged_toml(package, "canonical", "ops.toml")
    names = {name: OperatorNames(sections.pop(name, {})) for name in ("kernel", "function", "layer", "optimizer")}
    more, lists, patterns = (sections.pop(name, {}) for name in ("more", "lists", "patterns"))
    if sections:
        msg = f"canonical/ops.toml of {package} has unknown sections: {', '.join(sections)}."
        raise ValueError(msg)
    return CanonicalTables(
        **names,
        more={name: OperatorNames(section) for name, section in more.items()},
        lists={name: frozenset(entries) for name, entries in lists.items()},
        patterns={name: re.compile(pattern) for name, pattern in patterns.items()},
    )
