"""Records calls of the frameworks' public API."""

from __future__ import annotations
