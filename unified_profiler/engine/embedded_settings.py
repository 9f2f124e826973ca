"""Settings of every embedded DuckDB database: what they may not do, and how much memory they may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unified_profiler.presentation.units import parse_bytes

if TYPE_CHECKING:
    import duckdb

RESTRICTED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see the variables of its caller
    "temp_directory": "",  # by default a large query spills into the working directory
}


def default_memory(connection: duckdb.DuckDBPyConnection) -> int:
    """Return half of DuckDB's own limit, which is 80 % of the memory of the machine or container."""
    ((text,),) = connection.execute("select current_setting('memory_limit')").fetchall()
    return parse_bytes(text.replace(" ", ""), option="memory_limit") // 2
