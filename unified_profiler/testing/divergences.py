"""Reasons why a backend does not show a behavior that others show: strict expected failures, each with its meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Divergence:
    """Why something is missing. Should it be there one day, its test fails until this is removed."""

    reason: str


def never(reason: str) -> Divergence:
    """Return that the framework cannot give it."""
    return Divergence(f"never: {reason}")


def notyet(reason: str) -> Divergence:
    """Return that the framework lacks it so far."""
    return Divergence(f"not yet: {reason}")


def notimpl(reason: str) -> Divergence:
    """Return that the framework has it, but the backend does not use it."""
    return Divergence(f"not implemented: {reason}")
