from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "toy_backend"
INSTALL = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation")

sys.path.append(os.fspath(EXAMPLE))  # a conformance suite names its backend while it is collected, before any fixture


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the package, so that its entry point is known here and in child processes; other tests do not see it."""
    folder = os.fspath(tmp_path_factory.mktemp("installed"))
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "toy")  # pip builds in the source tree
    subprocess.run([sys.executable, "-m", "pip", *INSTALL, "--target", folder, source], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        yield
