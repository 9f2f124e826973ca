"""Names the command that installs an extra of this package, from where the package itself came."""

from __future__ import annotations

import importlib.metadata
import json
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PACKAGE = "unified-profiler"


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the clone if the package came from one, else from the index."""
    clone, editable = _clone()
    return f'pip install {"-e " if editable else ""}"{clone or _PACKAGE}[{extra}]"'


@lru_cache(maxsize=1)
def _clone() -> tuple[Path | None, bool]:
    """Return the directory that pip installed this package from (PEP 610), and whether it was installed as editable."""
    try:
        content = importlib.metadata.distribution(_PACKAGE).read_text("direct_url.json")
        origin = json.loads(content or "{}")
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        origin = {}
    folder = Path(unquote(urlsplit(origin.get("url", "")).path))
    if "dir_info" not in origin or not folder.is_dir():
        return None, False
    return folder, bool(origin["dir_info"].get("editable"))
