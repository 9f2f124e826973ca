"""canonical/ops.toml, ready to be asked. What is done with its answers is in `canonical`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import cache
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KERNEL_VARIANT = re.compile(r"^_*(Mkl)?(Native)?(?=\w)|V\d+$")
_HLO_NUMBER = re.compile(r"^wrapped_|(\.(\d+|clone|remat\d*))+$")
_OF_V1 = re.compile(r"(?<=\w)Optimizer$")


class Table:
    """The whole file. Its sections list what an operator stands for, as `operator = [names]`."""

    def __init__(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self._kernels, self._hlo = _inverted(sections["kernel"]), _inverted(sections["hlo"])
        self._kernel_patterns = [(re.compile(translate(n)), op) for n, op in self._kernels.items() if "*" in n]
        self._layers = _by_scope(sections["layer"])
        self._functions = _inverted(sections["function"])
        self._sublayers = {outer: _inverted(inner) for outer, inner in sections["sublayer"].items()}
        self._optimizers = _inverted(sections["optimizer"]) | _by_scope(sections["optimizer"])
        self.containers = frozenset(map(snake_case, sections["container"]["classes"]))
        self.no_layers = frozenset(sections["container"]["no_layers"])
        self.activations = _inverted(sections["activation"]) | _by_scope(sections["activation"])
        self.activation_ops = frozenset(self.activations.values())
        self.folded: Mapping[str, Sequence[str]] = sections["folded"]
        self.with_activation = frozenset(sections["container"]["operators_with_activation"])
        self.told_by_type = frozenset(sections["told_by_type"]["operators"])
        self.gradients_in_update = frozenset(sections["gradients_in_update"]["types"])

    def kernel(self, name: str) -> str | None:
        """Return the operator of a node type or an HLO instruction; variants of a type are the same operator."""
        return self._of_type(name) or self._hlo.get(_HLO_NUMBER.sub("", name)) or self._of_pattern(name)

    def layer(self, scope: str, *, inside: str | None) -> str | None:
        """Return the operator of a layer or a loss; some scopes mean a layer inside certain others only."""
        return self._sublayers.get(inside or "", {}).get(scope) or self._layers.get(scope)

    def function(self, name: str) -> str | None:
        """Return the operator of a scope that is named after a function or, as is the default, after a node type."""
        return self._functions.get(name) or self._of_type(name)

    def is_function(self, name: str) -> bool:
        """Say whether a scope is named after a function or a node type."""
        return (self.function(name) or self._of_pattern(name)) is not None

    def optimizer(self, scope: str) -> str | None:
        """Return the operator of an optimizer, by its class as such or in the spelling of scopes."""
        return self._optimizers.get(scope)

    def optimizer_class(self, name: str) -> str:
        """Return the operator of what is known to be an optimizer; those of tf.compat.v1 end in `Optimizer`."""
        return self.optimizer(name) or self.optimizer(_OF_V1.sub("", name)) or "x:Optimizer"

    def _of_type(self, name: str) -> str | None:
        return self._kernels.get(name) or self._kernels.get(_KERNEL_VARIANT.sub("", name))

    def _of_pattern(self, name: str) -> str | None:
        return next((op for pattern, op in self._kernel_patterns if pattern.match(name)), None)


@cache
def table() -> Table:
    """Read canonical/ops.toml, once."""
    text = (files("unified_profiler_tensorflow") / "canonical" / "ops.toml").read_text(encoding="utf-8")
    return Table(tomllib.loads(text))


def snake_case(name: str) -> str:
    """Write the name of a class as Keras does where it names scopes after classes: LeakyReLU is leaky_re_lu."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _inverted(section: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: op for op, names in section.items() for name in names}


def _by_scope(section: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Key by the scope that is named after each class."""
    return {snake_case(name): op for name, op in _inverted(section).items()}
