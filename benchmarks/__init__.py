"""Speed and memory as ratios within one run: `make bench`."""

from __future__ import annotations
