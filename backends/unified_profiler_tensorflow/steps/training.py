"""How a call is known to train."""

from __future__ import annotations

from enum import IntEnum


class Trains(IntEnum):
    """How a call is known to train; the value is the rank of its signal."""

    BY_OPTIMIZER = 0
    BY_GRADIENT = 1
    NOT = 3
