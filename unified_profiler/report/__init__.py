"""Documents for people: the summary of a run, as JSON or Markdown, and the HTML report. Numbers are from `analysis`."""

from __future__ import annotations

from unified_profiler.report.records import Summary
from unified_profiler.report.summary import summarize

__all__ = ["Summary", "summarize"]
