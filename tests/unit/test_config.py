from __future__ import annotations

import json
from pathlib import Path

import pytest

from unified_profiler.config import resolve
from unified_profiler.errors import ConfigurationError
from unified_profiler.schedule import Schedule


def write_pyproject(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.unified-profiler]\n{text}\n")


def test_defaults(tmp_path: Path) -> None:
    settings = resolve({}, environ={}, directory=tmp_path)
    assert (settings.level, settings.backend, settings.output_dir) == (2, ("auto",), None)


def test_keyword_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    write_pyproject(tmp_path, "record-shapes = true\nwith-stack = true\nprofile-memory = true")
    environ = {"UNIFIED_PROFILER_OPTIONS": '{"record_shapes": false, "with_stack": false}'}
    settings = resolve({"with_stack": True, "strict": None}, environ=environ, directory=tmp_path)
    assert (settings.profile_memory, settings.record_shapes, settings.with_stack) == (True, False, True)


def test_a_pyproject_above_the_working_directory_counts(tmp_path: Path) -> None:
    write_pyproject(tmp_path, "record-shapes = true")
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    assert resolve({}, environ={}, directory=folder).record_shapes


def test_the_level_variable_beats_everything(tmp_path: Path) -> None:
    environ = {"UNIFIED_PROFILER_LEVEL": "1", "UNIFIED_PROFILER_OPTIONS": '{"level": 2}'}
    assert resolve({"level": 2}, environ=environ, directory=tmp_path).level == 1


def test_switched_off_nothing_else_is_looked_at(tmp_path: Path) -> None:
    environ = {"UNIFIED_PROFILER_LEVEL": "0", "UNIFIED_PROFILER_OPTIONS": "not json"}
    assert resolve({"backend": "x"}, environ=environ, directory=tmp_path).level == 0


def test_a_schedule_may_stand_in_the_environment(tmp_path: Path) -> None:
    environ = {"UNIFIED_PROFILER_OPTIONS": '{"schedule": {"wait": 1, "warmup": 1, "active": 2}}'}
    assert resolve({}, environ=environ, directory=tmp_path).schedule == Schedule(wait=1, warmup=1, active=2)


@pytest.mark.parametrize("wrong", [-1, 1001, "often", float("nan")])
def test_how_often_hardware_is_read_is_checked(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="option 'hardware_hz' is wrong"):
        resolve({"hardware_hz": wrong}, environ={}, directory=tmp_path)


def test_how_often_hardware_is_read_may_stand_in_the_environment_or_the_file(tmp_path: Path) -> None:
    assert resolve({}, environ={}, directory=tmp_path).hardware_hz == 10
    write_pyproject(tmp_path, "hardware-hz = 2.5")
    assert resolve({}, environ={}, directory=tmp_path).hardware_hz == 2.5
    environ = {"UNIFIED_PROFILER_OPTIONS": '{"hardware_hz": 0}'}
    assert resolve({}, environ=environ, directory=tmp_path).hardware_hz == 0


SWITCHES = {
    "off": ({"UNIFIED_PROFILER_OPTIONS": '{"start": false}'}, 0),
    "on": ({"UNIFIED_PROFILER_OPTIONS": '{"start": true}'}, 1),
    "the level variable beats it": ({"UNIFIED_PROFILER_OPTIONS": '{"start": false}', "UNIFIED_PROFILER_LEVEL": "2"}, 2),
}


@pytest.mark.parametrize(("environ", "level"), SWITCHES.values(), ids=SWITCHES.keys())
def test_start_switches_code_that_stays(tmp_path: Path, environ: dict[str, str], level: int) -> None:
    assert resolve({"level": 1}, environ=environ, directory=tmp_path).level == level


def test_a_project_may_be_off_until_the_environment_starts_it(tmp_path: Path) -> None:
    write_pyproject(tmp_path, "start = false")
    assert resolve({}, environ={}, directory=tmp_path).level == 0
    assert resolve({}, environ={"UNIFIED_PROFILER_OPTIONS": '{"start": true}'}, directory=tmp_path).level == 2


def test_the_words_of_mindspore_are_understood(tmp_path: Path) -> None:
    options = {"start": True, "output_path": "here", "profile_memory": True, "activities": ["CPU"], "l2_cache": False}
    settings = resolve({}, environ={"UNIFIED_PROFILER_OPTIONS": json.dumps(options)}, directory=tmp_path)
    assert (settings.output_dir, settings.profile_memory) == (Path("here"), True)
    assert settings.native_options == {"mindspore": {"activities": ["CPU"], "l2_cache": False}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{"strat": true}', "Did you mean 'start'"),
        ('{"start": "perhaps"}', "option 'start' is wrong.*found 'perhaps'"),
        ('{"output_path": "a", "output_dir": "b"}', "sets 'output_dir' twice"),
        ('{"pcie": true, "native_options": {}}', "sets 'native_options' twice"),
        ('{"schedule": {"wait": 1, "warmup": 1}}', r"option 'schedule\.active' is wrong\. Field required"),
        ("{", "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        ('{"record_shape": true}', "Did you mean 'record_shapes'"),
        ('{"record_shapes": "perhaps"}', "option 'record_shapes' is wrong.*found 'perhaps'"),
        ('{"level": 5}', "option 'level' is wrong.*found 5"),
        ('{"schedule": {"wait": -1, "warmup": 1, "active": 1}}', "`wait` must be"),
    ],
)
def test_a_wrong_environment_says_what_and_where(options: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        resolve({}, environ={"UNIFIED_PROFILER_OPTIONS": options}, directory=tmp_path)
    assert "UNIFIED_PROFILER_OPTIONS" in str(caught.value)


def test_a_wrong_level_variable_says_what_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"UNIFIED_PROFILER_LEVEL must be 0.*found 'on'"):
        resolve({}, environ={"UNIFIED_PROFILER_LEVEL": "on"}, directory=tmp_path)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    write_pyproject(tmp_path, "level = 'high'")
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml \[tool\.unified-profiler\].*'level'"):
        resolve({}, environ={}, directory=tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    write_pyproject(tmp_path, "level = ")
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml cannot be read as TOML"):
        resolve({}, environ={}, directory=tmp_path)


def test_native_files_cannot_be_kept_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="`keep_native` needs `output_dir`"):
        resolve({"keep_native": True}, environ={}, directory=tmp_path)


def test_native_options_are_not_touched(tmp_path: Path) -> None:
    thing = object()
    settings = resolve({"native_options": {"torch": {"x": thing}}}, environ={}, directory=tmp_path)
    assert settings.native_options["torch"]["x"] is thing


def test_native_options_are_by_backend(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'native_options.with_modules' is wrong.*dictionary; found True"):
        resolve({"native_options": {"with_modules": True}}, environ={}, directory=tmp_path)


def test_delivery_is_immediate_unless_it_is_asked_to_be_deferred(tmp_path: Path) -> None:
    assert resolve({}, environ={}, directory=tmp_path).deliver == "immediate"
    environ = {"UNIFIED_PROFILER_OPTIONS": '{"deliver": "deferred"}'}
    assert resolve({}, environ=environ, directory=tmp_path).deliver == "deferred"
    with pytest.raises(
        ConfigurationError, match=r"option 'deliver' is wrong.*'immediate' or 'deferred'; found 'later'"
    ):
        resolve({"deliver": "later"}, environ={}, directory=tmp_path)
