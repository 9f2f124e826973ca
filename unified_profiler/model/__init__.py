"""The data: event schema, nesting, traces, runs. Knows neither frameworks nor profilers."""

from __future__ import annotations
