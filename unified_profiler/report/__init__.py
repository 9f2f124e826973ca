"""Documents for people: the summary of a run, as JSON or Markdown, and the HTML report. Numbers are from `analysis`."""

from __future__ import annotations

from unified_profiler.report.models_layout import write_models_layout
from unified_profiler.report.ranks import RankTable, rank_table
from unified_profiler.report.records import Summary
from unified_profiler.report.summary import summarise

__all__ = ["RankTable", "Summary", "rank_table", "summarise", "write_models_layout"]
