"""Reads what MindSpore records of kernels on the host (FRAMEWORK directories)."""

from __future__ import annotations
