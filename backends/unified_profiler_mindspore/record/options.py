"""Checks the names and values of native options for `mindspore.profiler.profile` before recording starts.

MindSpore itself replaces a wrong value by its default and only logs that.
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
"""Arguments that this package sets itself, or whose parts are options of their own."""

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
"""Meaning of the numbers of `aicore_metrics` in earlier versions."""


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with names of enumeration members replaced: `"Level1"` by `ProfilerLevel.Level1`.

    `hccl` and `aicore_metrics`, options of earlier versions, are translated to those that replaced them.

    Raises:
        ConfigurationError: An option does not exist, or its value is not allowed.
    """
    options = _translate_old_options(options)
    names = _parameters(profiler.profile) | _parameters(profiler._ExperimentalConfig)
    for name in options:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            msg = f"MindSpore's profiler has no option {name!r}.{hint} Its options are {', '.join(sorted(names))}."
            raise ConfigurationError(msg)
    return {name: _value(name, value) for name, value in options.items()}


def _translate_old_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate options of earlier versions, unless the new option is given, too."""
    translated = dict(options)
    metrics = translated.pop("aicore_metrics", None)
    if metrics is not None:
        translated.setdefault("aic_metrics", _AIC_METRICS.get(metrics, metrics))
    if translated.pop("hccl", False):  # collectives are recorded from this level on
        translated.setdefault("profiler_level", "Level1")
    return translated


def profile_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for `profile`: its own options, and the others in its experimental config."""
    own = _parameters(profiler.profile)
    rest = {name: value for name, value in options.items() if name not in own}
    config = {"experimental_config": profiler._ExperimentalConfig(**rest)} if rest else {}
    return {name: value for name, value in options.items() if name in own} | config


def _parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - OWNED


def _value(name: str, value: Any) -> Any:
    if name not in _CHOICES:
        return value
    return [_choice(name, item) for item in value] if isinstance(value, list) else _choice(name, value)


def _choice(name: str, value: Any) -> Enum:
    for choice in _CHOICES[name]:
        if value in (choice, choice.name, choice.value):
            return choice
    names = ", ".join(choice.name for choice in _CHOICES[name])
    msg = f"The option {name!r} of MindSpore's profiler is one of {names}; found {value!r}."
    raise ConfigurationError(msg)
