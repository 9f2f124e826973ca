"""Reports of a run: the summary as JSON or Markdown, and the HTML page. All numbers come from `analysis`."""

from __future__ import annotations

from unified_profiler.report.summary import Summary, summarize

__all__ = ["Summary", "summarize"]
