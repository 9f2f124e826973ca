from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unified_profiler import installation
from unified_profiler.installation import install_command

Install = Callable[[dict[str, Any] | None], None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Pretend that this package was installed, with the given record of its origin."""

    def install(origin: dict[str, Any] | None) -> None:
        folder = tmp_path / "unified_profiler-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: unified-profiler\nVersion: 1\n")
        if origin is not None:
            (folder / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(tmp_path)

    installation._clone.cache_clear()
    yield install
    installation._clone.cache_clear()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    path = tmp_path / "a clone"
    path.mkdir()
    return path


@pytest.mark.parametrize(("editable", "option"), [(False, ""), (True, "-e ")])
def test_a_package_from_a_clone_gets_its_extras_from_there(
    installed: Install, clone: Path, editable: bool, option: str
) -> None:
    installed({"url": clone.as_uri(), "dir_info": {"editable": editable}})
    assert install_command("view") == f'pip install {option}"{clone}[view]"'


@pytest.mark.parametrize(
    "origin",
    [
        None,
        {"url": "file:///tmp/unified_profiler-1-py3-none-any.whl", "archive_info": {}},
        {"url": "file:///no/such/clone", "dir_info": {}},
        {"url": "https://example.org/unified_profiler.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
    ],
)
def test_any_other_package_gets_them_from_the_index(installed: Install, origin: dict[str, Any] | None) -> None:
    installed(origin)
    assert install_command("view") == 'pip install "unified-profiler[view]"'
