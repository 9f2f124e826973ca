"""Reads XPlane files (`*.xplane.pb`)."""

from __future__ import annotations
