"""The data model: event schema, nesting, traces and runs. Independent of frameworks and profilers."""

from __future__ import annotations
