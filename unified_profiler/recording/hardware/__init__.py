"""Samples CPU, memory, disk, network and GPU counters while a cycle is recorded."""

from __future__ import annotations
