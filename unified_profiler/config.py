"""Settings: keyword over environment over pyproject.toml over default.

Switches for code that stays are the exceptions: the level variable, where set, always wins; `start`, which no keyword
can set, comes next.
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
from unified_profiler.schedule import Schedule
from unified_profiler.spi import RecordOptions
from unified_profiler.toml_files import TomlError, parse_toml

LEVEL_VARIABLE = "UNIFIED_PROFILER_LEVEL"
OPTIONS_VARIABLE = "UNIFIED_PROFILER_OPTIONS"
TABLE = "unified-profiler"
MINDSPORE_WORDS = {"output_path": "output_dir", "memory": "profile_memory"}
"""Options that MS_PROFILER_OPTIONS has, too, under another name."""
MINDSPORE_OPTIONS = frozenset(
    {
        "activities", "aic_metrics", "aicore_metrics", "data_process", "data_simplification", "export_type", "hbm_ddr",
        "hccl", "host_sys", "l2_cache", "mstx", "mstx_domain_exclude", "mstx_domain_include", "parallel_strategy",
        "pcie", "profiler_level", "sync_enable", "sys_interconnection", "sys_io",
    }
)  # fmt: skip
"""Options that MS_PROFILER_OPTIONS has and that only MindSpore's profiler knows."""


class ApiOptions(BaseModel):
    """Which calls of the frameworks' API are recorded, and what of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inside: bool = False
    """Whether calls that the frameworks make themselves are recorded, too, or only those of user code."""
    include: tuple[str, ...] = ()
    """Patterns of names, such as `torch.nn.functional.*`; nothing stands for all."""
    exclude: tuple[str, ...] = ()
    arguments: bool = True
    """Whether to keep a short text of the arguments."""
    synchronize: bool = False
    """Whether a call ends only when the work that it queued is done."""

    @field_validator("include", "exclude", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class Settings(BaseModel):
    """What a Profiler does, apart from its handlers."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    start: bool = True
    """False switches everything off, as level 0 does."""
    level: Literal[0, 1, 2] = 2
    """0 off, 1 application layer only, 2 with the native profilers."""
    backend: tuple[str, ...] = ("auto",)
    output_dir: Path | None = None
    schedule: Schedule | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    """Whether calls of modules are recorded, so that operators carry the path of theirs."""
    api: ApiOptions | None = None
    """Whether calls of the frameworks' API are recorded, and how."""
    operators: bool = True
    """False leaves the native profilers off; what the facade records itself remains."""
    hardware_hz: float = Field(default=10.0, ge=0, le=1000, allow_inf_nan=False)
    """How often a second CPU, memory, traffic and GPUs are read while recording; 0 for never."""
    keep_native: bool = False
    max_events: int | None = Field(default=None, ge=0)
    """How many operators, kernels and calls a trace may hold; 0, and None where nobody asked, for any number."""
    record_command: bool = True
    """Whether the command line is written into the run, with the secrets in it masked."""
    deliver: Literal["immediate", "deferred"] = "immediate"
    """Whether a trace is made at the end of its cycle, or of all cycles at the end of the run."""
    strict: bool = False
    native_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By the name of the backend."""

    @field_validator("backend", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("api", mode="before")
    @classmethod
    def _on_or_off(cls, value: Any) -> Any:
        return {True: {}, False: None}[value] if isinstance(value, bool) else value

    def recorded(self) -> dict[str, Any]:
        """Return the settings as plain data with secrets masked, as they are written into a run."""
        native = {"native_options": self.native_options}  # of any kind: pydantic may not be able to dump them
        values: dict[str, Any] = mask_values(plain(self.model_dump(exclude=set(native)) | native))
        return values

    @property
    def record_options(self) -> RecordOptions:
        """What recorders need to know of these settings."""
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
"""Options that have options of their own."""
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic calls names that do not exist."""


def resolve(
    given: Mapping[str, Any], *, environ: Mapping[str, str] = os.environ, directory: Path | None = None
) -> Settings:
    """Merge what was given in code with environment and pyproject.toml.

    Args:
        given: Keywords; None stands for "not given".
        environ: The environment.
        directory: Where the search for a pyproject.toml starts; the working directory by default.

    Raises:
        ConfigurationError: A value is wrong; the message says where it comes from.
    """
    level = _level(environ)
    if level == 0:
        return Settings(level=0)
    settings = _merged({}, _from_file(directory or Path.cwd()))
    settings = _merged(settings, (f"the variable {OPTIONS_VARIABLE}", _from_options(environ)))
    settings = _merged(settings, ("Profiler(...)", {key: value for key, value in given.items() if value is not None}))
    resolved = _validated("Profiler(...)", settings)
    if resolved.keep_native and resolved.output_dir is None:
        msg = "`keep_native` needs `output_dir`: there is no place to keep the native files in."
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
        first = min(error.errors(), key=lambda each: each["type"] not in _UNKNOWN)  # a misspelt one may be missing, too
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
        found = mask_text(repr(text))
        msg = f"{OPTIONS_VARIABLE} must be a JSON object such as '{{\"record_shapes\": true}}'; found {found}: {error}"
        raise ConfigurationError(msg) from error
    if not isinstance(values, dict):
        msg = f"{OPTIONS_VARIABLE} must be a JSON object; found {mask_text(repr(text))}."
        raise ConfigurationError(msg)
    return _from_mindspore_words(values)


def _from_mindspore_words(values: dict[str, Any]) -> dict[str, Any]:
    """Put options in the words of MS_PROFILER_OPTIONS where they belong here."""
    own = {name: value for name, value in values.items() if name not in MINDSPORE_WORDS.keys() | MINDSPORE_OPTIONS}
    translated = {MINDSPORE_WORDS[name]: value for name, value in values.items() if name in MINDSPORE_WORDS}
    native = {name: value for name, value in values.items() if name in MINDSPORE_OPTIONS}
    if native:
        translated["native_options"] = {"mindspore": native}
    for name in translated.keys() & own.keys():
        msg = f"{OPTIONS_VARIABLE} sets {name!r} twice, once in the words of MS_PROFILER_OPTIONS. Keep one of the two."
        raise ConfigurationError(msg)
    return own | translated


def _from_file(directory: Path) -> tuple[str, dict[str, Any]]:
    for folder in (directory, *directory.parents):
        file = folder / "pyproject.toml"
        if _is_there(file):
            return f"{file} [tool.{TABLE}]", _table(file)
    return "pyproject.toml", {}


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # in a directory that may not be entered
        return False


def _table(file: Path) -> dict[str, Any]:
    try:
        tools = parse_toml(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, TomlError) as error:
        msg = f"{file} cannot be read as TOML: {error}"
        raise ConfigurationError(msg) from error
    return {key.replace("-", "_"): value for key, value in tools.get(TABLE, {}).items()}
