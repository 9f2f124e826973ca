"""Reasons why a backend lacks a behavior of the others; each one is a strict expected failure of its test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Divergence:
    """The reason of a missing behavior. Once the behavior exists, its test fails until this is removed."""

    reason: str


def never(reason: str) -> Divergence:
    """Mark a behavior that the framework cannot support."""
    return Divergence(f"never: {reason}")


def notyet(reason: str) -> Divergence:
    """Mark a behavior that the framework does not support yet."""
    return Divergence(f"not yet: {reason}")


def notimpl(reason: str) -> Divergence:
    """Mark a behavior that the framework supports, but the backend does not implement."""
    return Divergence(f"not implemented: {reason}")
