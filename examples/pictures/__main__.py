"""Makes all pictures, or those that are named: `python -m examples.pictures report.png schedule.svg`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from examples.pictures import gallery


def main() -> None:
    """Write the pictures to docs/images."""
    names = sys.argv[1:] or list(gallery.PICTURES)
    with tempfile.TemporaryDirectory() as folder, gallery.Studio(Path(folder)) as studio:
        for name in names:
            content = gallery.PICTURES[name](studio)
            (gallery.IMAGES / name).write_bytes(content)
            print(f"{name}: {len(content) // 1000} kB")


if __name__ == "__main__":
    main()
