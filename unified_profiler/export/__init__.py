"""Traces as files for other tools: chrome/Perfetto JSON, Parquet, CSV, lists of API calls. No reports for people."""

from __future__ import annotations

from unified_profiler.export.api_calls import write_api_calls
from unified_profiler.export.chrome import ChromeExporter
from unified_profiler.export.parquet import ParquetExporter
from unified_profiler.export.tabular import CsvExporter
from unified_profiler.export.write import EXPORTERS, Exporter, suffix_of, write, writing_to

__all__ = [
    "EXPORTERS",
    "ChromeExporter",
    "CsvExporter",
    "Exporter",
    "ParquetExporter",
    "suffix_of",
    "write",
    "write_api_calls",
    "writing_to",
]
