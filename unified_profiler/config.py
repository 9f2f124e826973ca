"""Settings of a Profiler: keywords override the environment, which overrides pyproject.toml and the defaults.

One exception lets users switch off a Profiler without editing code: `start: false` in the environment or in
pyproject.toml means level 0, and the variable UNIFIED_PROFILER_LEVEL overrides `start` and every `level`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import did_you_mean
from unified_profiler.masking import mask_text, mask_values
from unified_profiler.model.plain import plain
from unified_profiler.registry import backends
from unified_profiler.schedule import Schedule
from unified_profiler.spi import RecordOptions
from unified_profiler.toml_files import TomlError, parse_toml

LEVEL_VARIABLE = "UNIFIED_PROFILER_LEVEL"
OPTIONS_VARIABLE = "UNIFIED_PROFILER_OPTIONS"
TABLE = "unified-profiler"


class ApiOptions(BaseModel):
    """Options of API tracing: which calls are recorded, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inside: bool = False
    """Record calls that the frameworks make internally too, not only calls from user code."""
    include: tuple[str, ...] = ()
    """Name patterns such as `torch.nn.functional.*`; empty means all names."""
    exclude: tuple[str, ...] = ()
    arguments: bool = True
    """Store a short description of the arguments."""
    synchronize: bool = False
    """Wait at the end of each call for the device work it queued."""

    @field_validator("include", "exclude", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class Settings(BaseModel):
    """All options of a Profiler except its handlers."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    start: bool = True
    """False means level 0. The same switch under the name that MindSpore's environment variable uses."""
    level: Literal[0, 1, 2] = 2
    """0 off, 1 steps, regions and hardware only, 2 native operators too."""
    backend: tuple[str, ...] = ("auto",)
    output_dir: Path | None = None
    schedule: Schedule | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    """Record calls of modules, and the module path of each operator."""
    api: ApiOptions | None = None
    """None records no API calls."""
    operators: bool = True
    """False leaves the native profilers off at level 2: steps, regions, API calls and modules are still recorded."""
    hardware_hz: float = Field(default=10.0, ge=0, le=1000, allow_inf_nan=False)
    """Hardware samples per second while recording; 0 for none."""
    keep_native: bool = False
    max_events: int | None = Field(default=None, ge=0)
    """Maximum number of operators, kernels and calls in a trace. 0 means no limit, None not set."""
    record_command: bool = True
    """Store the command line, with secrets masked."""
    deliver: Literal["immediate", "deferred"] = "immediate"
    """Make each trace at the end of its cycle, or all traces at the end of the run."""
    strict: bool = False
    native_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options for the native profilers, by backend name."""

    @field_validator("backend", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("api", mode="before")
    @classmethod
    def _on_or_off(cls, value: Any) -> Any:
        return {True: {}, False: None}[value] if isinstance(value, bool) else value

    def recorded(self) -> dict[str, Any]:
        """Return the settings as plain data with secrets masked, for the manifest of a run."""
        native = {"native_options": self.native_options}  # values of any type, which pydantic may not be able to dump
        values: dict[str, Any] = mask_values(plain(self.model_dump(exclude=set(native)) | native))
        return values

    @property
    def record_options(self) -> RecordOptions:
        """The settings that recorders need."""
        return RecordOptions(
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            keep_native=self.keep_native,
            native_options=self.native_options,
        )


_PARTS: dict[str, Collection[str]] = {"api": ApiOptions.model_fields, "schedule": Schedule.__dataclass_fields__}
"""Options with nested options."""
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Pydantic's error types for unknown names."""


def resolve(
    given: Mapping[str, Any], *, environ: Mapping[str, str] = os.environ, directory: Path | None = None
) -> Settings:
    """Merge keywords with the environment and pyproject.toml.

    Args:
        given: Keywords; None means not given.
        environ: The environment.
        directory: Directory in which the search for pyproject.toml starts; the working directory by default.

    Raises:
        ConfigurationError: A value is wrong; the message names its source.
    """
    level = _level(environ)
    if level == 0:
        return Settings(level=0)
    settings = _merged({}, _from_file(directory or Path.cwd()))
    settings = _merged(settings, (f"the variable {OPTIONS_VARIABLE}", _from_options(environ)))
    settings = _merged(settings, ("Profiler(...)", {key: value for key, value in given.items() if value is not None}))
    resolved = _validated("Profiler(...)", settings)
    if resolved.keep_native and resolved.output_dir is None:
        msg = "`keep_native` needs `output_dir`: without it there is no directory for the native files."
        raise ConfigurationError(msg)
    if level is None:
        level = resolved.level if resolved.start else 0
    return resolved.model_copy(update={"level": level})


def _merged(base: dict[str, Any], source: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    where, values = source
    _validated(where, dict(values))
    return {**base, **values}


def _validated(where: str, values: dict[str, Any]) -> Settings:
    unknown = [key for key in values if key not in Settings.model_fields]
    if unknown:
        hint = did_you_mean(unknown[0], Settings.model_fields)
        options = ", ".join(Settings.model_fields)
        msg = f"{where} has an unknown option {unknown[0]!r}.{hint} Options are: {options}."
        raise ConfigurationError(msg)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        # A misspelled name is reported twice: as unknown, and its right name as missing.
        first = min(error.errors(), key=lambda each: each["type"] not in _UNKNOWN)
        name = ".".join(str(part) for part in first["loc"][:2])
        hint = did_you_mean(first["loc"][-1], _PARTS.get(str(first["loc"][0]), ())) if first["type"] in _UNKNOWN else ""
        msg = f"{where}: option {name!r} is wrong. {first['msg']}; found {mask_text(repr(first['input']))}.{hint}"
        raise ConfigurationError(msg) from error


def _level(environ: Mapping[str, str]) -> int | None:
    text = environ.get(LEVEL_VARIABLE, "").strip()
    if not text:
        return None
    if text not in {"0", "1", "2"}:
        msg = f"{LEVEL_VARIABLE} must be 0 (off), 1 (application layer) or 2 (native operators); found {text!r}."
        raise ConfigurationError(msg)
    return int(text)


def _from_options(environ: Mapping[str, str]) -> dict[str, Any]:
    text = environ.get(OPTIONS_VARIABLE, "").strip()
    if not text:
        return {}
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        value = mask_text(repr(text))
        msg = f"{OPTIONS_VARIABLE} must be a JSON object such as '{{\"record_shapes\": true}}'; found {value}: {error}"
        raise ConfigurationError(msg) from error
    if not isinstance(values, dict):
        msg = f"{OPTIONS_VARIABLE} must be a JSON object; found {mask_text(repr(text))}."
        raise ConfigurationError(msg)
    return values if values.keys() <= Settings.model_fields.keys() else _translated(values)


def _translated(values: dict[str, Any]) -> dict[str, Any]:
    """Replace the option names of the frameworks' own environment variables with the names used here."""
    for name, backend in backends().items():
        names = backend.abilities.environment_options
        translated = {names.aliases[key]: values[key] for key in values.keys() & names.aliases.keys()}
        native = {key: values[key] for key in values.keys() & names.native}
        if native:
            translated["native_options"] = {name: native}
        values = {key: value for key, value in values.items() if key not in names.aliases.keys() | names.native}
        for key in translated.keys() & values.keys():
            msg = f"{OPTIONS_VARIABLE} sets {key!r} twice, once in the words of {names.variable}. Remove one of them."
            raise ConfigurationError(msg)
        values |= translated
    return values


def _from_file(directory: Path) -> tuple[str, dict[str, Any]]:
    for folder in (directory, *directory.parents):
        file = folder / "pyproject.toml"
        if _exists(file):
            return f"{file} [tool.{TABLE}]", _table(file)
    return "pyproject.toml", {}


def _exists(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # no permission to enter the directory
        return False


def _table(file: Path) -> dict[str, Any]:
    try:
        tools = parse_toml(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, TomlError) as error:
        msg = f"{file} cannot be read as TOML: {error}"
        raise ConfigurationError(msg) from error
    return {key.replace("-", "_"): value for key, value in tools.get(TABLE, {}).items()}
