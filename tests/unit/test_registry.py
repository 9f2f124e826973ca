from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.errors import ConfigurationError, FrameworkNotInstalledError, UnknownBackendError
from unified_profiler.testing import FakeBackend

PLUGIN = """
from unified_profiler.testing import FakeBackend
backend = FakeBackend("tiny", module="json")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return install(tmp_path, monkeypatch, name="tiny")


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, source: str = PLUGIN) -> str:
    """Put a package with a backend on the path, as pip would."""
    module = f"plugin_{name}_{folder.name}".replace("-", "_")
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[unified_profiler.backends]\n{name} = {module}:backend\n")
    monkeypatch.syspath_prepend(folder)
    return module


def test_a_third_party_backend_is_found_by_its_entry_point(plugin: str) -> None:
    backend = registry.get("tiny")
    assert backend.module == "json"
    assert backend in registry.detect()


HALFWAY = """
from unified_profiler import registry
from unified_profiler.testing import FakeBackend
found_halfway = registry.detect([FakeBackend(module=__name__)])
"""


def test_a_framework_counts_once_its_import_has_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "framework_halfway.py").write_text(HALFWAY)
    monkeypatch.syspath_prepend(tmp_path)
    framework = importlib.import_module("framework_halfway")
    backend = FakeBackend(module="framework_halfway")
    assert framework.found_halfway == []
    assert registry.detect([backend]) == [backend]


def test_a_framework_whose_import_failed_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "framework_failed.py").write_text("raise SystemExit(143)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit):
        importlib.import_module("framework_failed")
    assert registry.detect([FakeBackend(module="framework_failed")]) == []


def test_a_third_party_backend_records(plugin: str) -> None:
    backend = registry.get("tiny")
    with up.Profiler(backend="tiny", strict=True) as prof:
        backend.op("hello")  # type: ignore[attr-defined]
    assert "hello" in prof.traces[0].events.column("name").to_pylist()


def test_a_name_claimed_twice_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, name="torch")
    with pytest.raises(ConfigurationError, match="Two backends are called 'torch'"):
        registry.known()


def test_an_unknown_backend_suggests_the_nearest() -> None:
    with pytest.raises(UnknownBackendError, match=r"no backend 'troch'\. Did you mean 'torch'"):
        up.Profiler(backend="troch")


def test_a_framework_that_is_not_installed_comes_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = install(tmp_path, monkeypatch, name="absent", source=PLUGIN.replace('"json"', '"no_such_framework"'))
    with pytest.raises(FrameworkNotInstalledError, match=f"not installed. Install it with: pip install .*{module}"):
        up.Profiler(backend="absent")


def test_a_plugin_that_cannot_be_imported_is_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, monkeypatch, name="broken", source="raise RuntimeError('half installed')")
    assert "broken" not in registry.backends()
    assert "half installed" in caplog.text


def test_looking_for_backends_imports_no_framework() -> None:
    code = "import sys; from unified_profiler import registry; registry.detect(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
