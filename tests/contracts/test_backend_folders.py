"""Every backend has the same folders, and the files that backends/README.md names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BACKENDS = Path(__file__).parents[2] / "backends"
NAMES = ("torch", "tensorflow", "mindspore")


def common_files() -> list[str]:
    """Return the files in the tree of the README, with their folders."""
    tree = (BACKENDS / "README.md").read_text().split("```text\n")[1].split("```")[0]
    found, folder = [], ""
    for indent, name in re.findall(r"^( +)([\w.]+/?)", tree, re.MULTILINE):
        if name.endswith("/"):
            folder = name
        else:
            found.append(name if len(indent) == 2 else folder + name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_backend_has_the_five_folders(name: str) -> None:
    package = BACKENDS / f"unified_profiler_{name}"
    folders = {path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {"record", "read", "canonical", "api", "steps"}
    assert [path.name for path in package.iterdir() if path.is_file()] == ["__init__.py"]


@pytest.mark.parametrize("name", NAMES)
def test_a_backend_has_the_files_that_all_have(name: str) -> None:
    files = common_files()
    assert len(files) == 9
    assert [file for file in files if not (BACKENDS / f"unified_profiler_{name}" / file).is_file()] == []
