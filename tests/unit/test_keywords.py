"""Misspelt keywords are refused with an error of this package that names the nearest one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.config import resolve
from unified_profiler.errors import ArgumentError, ConfigurationError
from unified_profiler.integrations import keras, tensorflow
from unified_profiler.keywords import checked_keywords

MISSPELT: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (up.Profiler, {"record_shape": True}, "record_shapes"),
    (up.Profiler, {"output_path": "out"}, "output_dir"),
    (up.schedule, {"wait": 1, "warmpu": 1, "active": 1}, "warmup"),
    (up.Schedule, {"wait": 1, "warmpu": 1, "active": 1}, "warmup"),
    (up.trace_api, {"inclde": "torch.*"}, "include"),
    (up.op_table, {"source": None, "sort": "self_ns"}, "sort_by"),
    (up.api_table, {"source": None, "row_limt": 3}, "row_limit"),
    (up.diff, {"treshold": 0.1}, "threshold"),
    (up.gate, {"max_regresion": "5%"}, "max_regression"),
    (up.read, {"engin": None}, "engine"),
    (up.write_api_calls, {"file_size": "1MB"}, "file_max_size"),
    (up.SparkEngine, {"session_or_mastr": "local"}, "session_or_master"),
    (keras.ProfilerCallback, {"record_shape": True}, "record_shapes"),
    (keras.ProfilerCallback, {"step": (1, 2)}, "steps"),
    (tensorflow.ProfilerHook, {"grap": "vgg"}, "graph"),
    (tensorflow.profiled_session, {"step_per_runs": True}, "step_per_run"),
]


@pytest.mark.parametrize(("call", "keywords", "meant"), MISSPELT, ids=[f"{c.__name__} {m}" for c, _, m in MISSPELT])
def test_a_misspelt_keyword_is_refused_with_the_nearest_one(
    call: Callable[..., Any], keywords: dict[str, Any], meant: str
) -> None:
    with pytest.raises(ArgumentError, match=rf"{call.__name__}\(\.\.\.\) has no keyword .* Did you mean '{meant}'\?"):
        call(**keywords)


@pytest.mark.parametrize("name", [name for name in up.__all__ if inspect.isfunction(getattr(up, name))])
def test_every_public_function_refuses_keywords_that_it_does_not_have(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"{name}\(\.\.\.\) has no keyword 'qwertz'\. Its keywords are: "):
        getattr(up, name)(qwertz=1)


def test_the_error_is_also_what_python_and_this_package_raise_otherwise() -> None:
    with pytest.raises(TypeError):
        up.Profiler(record_shape=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError):
        up.Profiler(record_shape=True)  # type: ignore[call-arg]


def test_a_misspelt_keyword_is_refused_when_the_profiler_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    with pytest.raises(ArgumentError):
        up.Profiler(record_shape=True)  # type: ignore[call-arg]


def test_signatures_stay_what_they_are() -> None:
    @checked_keywords
    def call(first: int, *, second: str = "b") -> str:
        """Say it."""
        return second * first

    assert str(inspect.signature(call)) == "(first: 'int', *, second: 'str' = 'b') -> 'str'"
    assert (call.__name__, call.__doc__, call(2, second="c")) == ("call", "Say it.", "cc")


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"record_shape": True}, "record_shapes"),
        ({"api": {"insde": True}}, "inside"),
        ({"schedule": {"wait": 1, "warmpu": 1, "active": 1}}, "warmup"),
    ],
)
def test_a_misspelt_option_of_a_file_or_variable_is_refused_with_the_nearest_one(
    options: dict[str, Any], meant: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=rf"Did you mean '{meant}'\?"):
        resolve({}, environ={"UNIFIED_PROFILER_OPTIONS": json.dumps(options)}, directory=tmp_path)


@pytest.mark.parametrize("name", ["activities", "experimental_config"])
def test_a_keyword_of_torchs_profiler_is_refused_with_what_is_here_instead(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"no keyword '{name}'\. .*native_options="):
        up.Profiler(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "instead"), [("key_averages", "op_table"), ("export_chrome_trace", "write")])
def test_a_method_of_torchs_profiler_is_missed_with_what_is_here_instead(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. .*{instead}"):
        getattr(up.Profiler(), name)


def test_other_attributes_are_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"^'Profiler' object has no attribute 'qwertz'\.$"):
        getattr(up.Profiler(), "qwertz")  # noqa: B009
    assert not hasattr(up.Profiler(), "qwertz")
