"""Marks the Chinese pages of the site as Chinese, for the fonts of browsers and for screen readers.

The theme has one language for all pages.
"""

from __future__ import annotations

from typing import Any


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Return the HTML of a page with its language."""
    return output.replace('<html lang="en"', '<html lang="zh-CN"', 1) if page.file.src_uri.startswith("zh/") else output
