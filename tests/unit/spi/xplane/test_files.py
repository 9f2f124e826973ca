from __future__ import annotations

from pathlib import Path

import pytest

from unified_profiler.spi.xplane.files import newest_run, profiles_in


@pytest.mark.parametrize(
    ("folder", "is_profile"),
    [
        ("a/b", True),
        ("a/b/c", False),
        ("plugins/profile/run", True),
        ("a/plugins/profile/run", True),
        ("a/b/plugins/profile/run", False),
        ("tests/golden/data/plugins/profile/run", False),
    ],
)
def test_files_deep_in_a_tree_are_not_profiles(folder: str, is_profile: bool, tmp_path: Path) -> None:
    path = tmp_path / folder / "host.xplane.pb"
    path.parent.mkdir(parents=True)
    path.touch()
    assert list(profiles_in(tmp_path)) == ([path] if is_profile else [])


def test_the_newest_run_has_a_file_per_host() -> None:
    older, *newest = (Path(name) for name in ("2025_01_01/a", "2025_01_02/a", "2025_01_02/b"))
    assert newest_run([newest[1], older, newest[0]]) == (newest, ["2025_01_01"])
