"""Watching for imports: once, right after the module ran, and without a trace afterwards."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.spi import is_imported

NAMES = ("watched_pack", "watched_pack.deep", "watched_pack.broken")


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "watched_pack"
    folder.mkdir()
    (folder / "__init__.py").write_text("from watched_pack.deep import VALUE\nREADY = True\n")
    (folder / "deep.py").write_text("VALUE = 7\ndef function():\n    return 1\n")
    (folder / "broken.py").write_text("raise RuntimeError('broken on purpose')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in NAMES:
        sys.modules.pop(name, None)


def test_the_callback_comes_once_and_after_the_module_ran() -> None:
    seen: list[int] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack.deep", lambda module: seen.append(module.VALUE))
        importlib.import_module("watched_pack.deep")
        importlib.reload(sys.modules["watched_pack.deep"])
    assert seen == [7]


def test_a_package_calls_back_when_all_of_it_has_run() -> None:
    seen: list[bool] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack", lambda module: seen.append(module.READY))
        importlib.import_module("watched_pack.deep")
    assert seen == [True]


def test_a_module_counts_as_imported_when_it_calls_back() -> None:
    seen: list[bool] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack", lambda module: seen.append(is_imported("watched_pack")))
        importlib.import_module("watched_pack")
    assert seen == [True]


def test_an_imported_module_calls_back_at_once() -> None:
    module = importlib.import_module("watched_pack.deep")
    seen: list[ModuleType] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack.deep", seen.append)
    assert seen == [module]


def test_a_module_in_the_middle_of_its_import_is_waited_for(package: Path) -> None:
    seen: list[bool] = []
    with ImportWatch() as watch:
        sys.modules["watched_pack_watch"] = watch  # type: ignore[assignment]
        sys.modules["watched_pack_seen"] = seen  # type: ignore[assignment]
        (package / "__init__.py").write_text(
            "import sys\n"
            "sys.modules['watched_pack_watch'].when_imported('watched_pack', lambda m: "
            "sys.modules['watched_pack_seen'].append(m.READY))\n"
            "READY = True\n"
        )
        watch.when_imported("watched_pack", lambda module: None)
        importlib.import_module("watched_pack")
    del sys.modules["watched_pack_watch"], sys.modules["watched_pack_seen"]
    assert seen == [True]


def test_several_callbacks_come_in_their_order() -> None:
    seen: list[int] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack", lambda _: seen.append(1))
        watch.when_imported("watched_pack", lambda _: seen.append(2))
        importlib.import_module("watched_pack")
    assert seen == [1, 2]


def test_the_real_loader_is_back_afterwards() -> None:
    with ImportWatch() as watch:
        watch.when_imported("watched_pack.deep", lambda _: None)
        module = importlib.import_module("watched_pack.deep")
    spec = importlib.util.find_spec("watched_pack.deep")
    assert spec is not None
    assert module.__spec__ is not None
    assert type(module.__loader__) is type(module.__spec__.loader) is type(spec.loader)
    assert "def function" in inspect.getsource(module.function)


def test_nothing_is_left_on_the_meta_path() -> None:
    before = list(sys.meta_path)
    with ImportWatch():
        assert len(sys.meta_path) == len(before) + 1
    assert sys.meta_path == before


def test_a_failing_import_fails_as_before_and_calls_nobody() -> None:
    seen: list[ModuleType] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack.broken", seen.append)
        with pytest.raises(RuntimeError, match="on purpose"):
            importlib.import_module("watched_pack.broken")
    assert not seen


def test_a_missing_module_is_missed_as_before() -> None:
    with ImportWatch() as watch:
        watch.when_imported("watched_pack.nowhere", lambda _: None)
        with pytest.raises(ModuleNotFoundError, match="nowhere"):
            importlib.import_module("watched_pack.nowhere")


def test_a_failing_callback_does_not_break_the_import(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: ModuleType) -> None:
        raise ValueError("callback")  # noqa: EM101

    with ImportWatch() as watch:
        watch.when_imported("watched_pack", fail)
        assert importlib.import_module("watched_pack").READY
    assert "watched_pack" in caplog.text


def test_callbacks_after_the_end_do_not_come() -> None:
    seen: list[ModuleType] = []
    with ImportWatch() as watch:
        watch.when_imported("watched_pack", seen.append)
    importlib.import_module("watched_pack")
    assert not seen
