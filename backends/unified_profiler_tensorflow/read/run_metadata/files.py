"""Names and finds the files in which the recorder stores the RunMetadata of session runs."""

from __future__ import annotations

from pathlib import Path

RUN_METADATA = "run_metadata"
"""The folder of these files, beside that of the XPlane files."""
INDEX_NAME = "runs.json"
"""In that folder: the graph, step, times and thread of each run, which RunMetadata does not contain."""


def run_metadata_files(directory: Path) -> list[Path]:
    """Return the RunMetadata files that the recorder stored in a directory."""
    folder = directory if directory.name == RUN_METADATA else directory / RUN_METADATA
    return sorted(folder.glob("run-*.pb")) if folder.is_dir() else []
