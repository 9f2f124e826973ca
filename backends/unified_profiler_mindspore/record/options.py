"""The native options: names and values that `mindspore.profiler.profile` takes, checked before anything starts.

MindSpore itself replaces a wrong value by its default and says so in its log.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from enum import Enum
from typing import Any

from mindspore import profiler

from unified_profiler.errors import ConfigurationError

OWNED = frozenset({"self", "schedule", "on_trace_ready", "start_profile", "experimental_config"})
"""Arguments that are the facade's business, or are given by their parts."""

_CHOICES: dict[str, type[Enum]] = {
    "activities": profiler.ProfilerActivity,
    "profiler_level": profiler.ProfilerLevel,
    "aic_metrics": profiler.AicoreMetrics,
    "export_type": profiler.ExportType,
    "host_sys": profiler.HostSystem,
}

_AIC_METRICS = {
    -1: "AiCoreNone",
    0: "ArithmeticUtilization",
    1: "PipeUtilization",
    2: "Memory",
    3: "MemoryL0",
    4: "ResourceConflictRatio",
    5: "MemoryUB",
    6: "L2Cache",
}
"""What the numbers of `aicore_metrics` stood for in earlier versions."""


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with words replaced by MindSpore's enumerations: `"Level1"` for `ProfilerLevel.Level1`.

    `hccl` and `aicore_metrics`, options of earlier versions, become what this one has in their place.

    Raises:
        ConfigurationError: An option does not exist, or has a value that it cannot have.
    """
    options = _of_today(options)
    known = _arguments(profiler.profile) | _arguments(profiler._ExperimentalConfig)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            msg = f"MindSpore's profiler has no option {name!r}.{hint} Its options are {', '.join(sorted(known))}."
            raise ConfigurationError(msg)
    return {name: _value(name, value) for name, value in options.items()}


def _of_today(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate options of earlier versions; one that is given in its new words as well is left to these."""
    found = dict(options)
    metrics = found.pop("aicore_metrics", None)
    if metrics is not None:
        found.setdefault("aic_metrics", _AIC_METRICS.get(metrics, metrics))
    if found.pop("hccl", False):  # collectives are recorded from this level on
        found.setdefault("profiler_level", "Level1")
    return found


def arguments_of_profile(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for `profile`: some options are its own, the others those of its experimental config."""
    own = _arguments(profiler.profile)
    rest = {name: value for name, value in options.items() if name not in own}
    config = {"experimental_config": profiler._ExperimentalConfig(**rest)} if rest else {}
    return {name: value for name, value in options.items() if name in own} | config


def _arguments(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - OWNED


def _value(name: str, value: Any) -> Any:
    choices = _CHOICES.get(name)
    if choices is None:
        return value
    return (
        [_choice(name, word, choices) for word in value] if isinstance(value, list) else _choice(name, value, choices)
    )


def _choice(name: str, value: Any, choices: type[Enum]) -> Enum:
    for choice in choices:
        if value in (choice, choice.name, choice.value):
            return choice
    words = ", ".join(choice.name for choice in choices)
    msg = f"The option {name!r} of MindSpore's profiler is one of {words}; found {value!r}."
    raise ConfigurationError(msg)
