"""The command line: one module per command. Nothing here computes; printing is all it does."""

from __future__ import annotations
