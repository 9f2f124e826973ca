from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # else the processor decides which kernels TensorFlow takes


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_of_this_run_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Faults leave native files behind on purpose: let them, and what killed processes leave, go with the test run."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", os.fspath(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield
