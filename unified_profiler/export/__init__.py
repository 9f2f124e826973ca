"""Traces as files for other tools: chrome/Perfetto JSON, Parquet, CSV. Reports for people are not made here."""

from __future__ import annotations

from unified_profiler.export.chrome import ChromeExporter
from unified_profiler.export.parquet import ParquetExporter
from unified_profiler.export.tabular import CsvExporter
from unified_profiler.export.write import EXPORTERS, Exporter, write

__all__ = ["EXPORTERS", "ChromeExporter", "CsvExporter", "Exporter", "ParquetExporter", "write"]
