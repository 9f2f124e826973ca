"""Writes traces and runs as files: Chrome/Perfetto JSON, Parquet, CSV, reports, and the file layouts of other tools."""

from __future__ import annotations

from unified_profiler.export.chrome import ChromeExporter
from unified_profiler.export.compat.api_calls import write_api_calls
from unified_profiler.export.compat.models_layout import write_models_layout
from unified_profiler.export.overlays import Overlay
from unified_profiler.export.parquet import ParquetExporter
from unified_profiler.export.tabular import CsvExporter
from unified_profiler.export.writing import EXPORTERS, Exporter, suffix_of, write, writing_to

__all__ = [
    "EXPORTERS",
    "ChromeExporter",
    "CsvExporter",
    "Exporter",
    "Overlay",
    "ParquetExporter",
    "suffix_of",
    "write",
    "write_api_calls",
    "write_models_layout",
    "writing_to",
]
