"""Writes the HTML report: one self-contained file that needs no network."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import secrets
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from unified_profiler.engine import Source
from unified_profiler.model.storage import write_text
from unified_profiler.presentation.texts import texts
from unified_profiler.report.document import document
from unified_profiler.report.records import SummaryRecord
from unified_profiler.report.sections import Sections

SCRIPTS = (
    "texts.js",
    "elements.js",
    "address.js",
    "keys.js",
    "theme.js",
    "colors.js",
    "table.js",
    "slices.js",
    "slices_painter.js",
    "slices_view.js",
    "charts.js",
    "figure_parts.js",
    "step_figures.js",
    "figures.js",
    "rank_figures.js",
    "device_figures.js",
    "hardware.js",
    "overview.js",
    "calls.js",
    "sections.js",
    "operators.js",
    "timeline.js",
    "devices.js",
    "ranks.js",
    "missing.js",
    "reading.js",
    "pages.js",
    "report.js",
)
"""In loading order: each may use the ones before it."""


def write_page(source: Source, path: Path, *, language: str | None = None) -> None:
    """Write the report of a Trace or a Run."""
    write_text(path, page(source, language=language))


def page(source: Source, *, language: str | None = None) -> str:
    """Return the report of a Trace or a Run.

    Args:
        source: The Trace or Run.
        language: Initial language of the page, `en` or `zh`; None for that of the browser.
    """
    from jinja2 import Environment, StrictUndefined

    content = document(source, language=language)
    first = language or "en"
    headline = Sections(SummaryRecord.model_validate(content["summary"]), language=first)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text: str = environment.from_string(asset("page.html.jinja")).render(
        title=headline.title,
        language=first,
        nonce=secrets.token_urlsafe(16),
        style=asset("report.css"),
        scripts=[asset(name) for name in SCRIPTS],
        document=_packed(msgspec.json.encode(content)),
        plotly=_plotly(),
        texts=texts(first),
        headline=headline,
    )
    return text


def asset(name: str, *, package: str = "unified_profiler.report") -> str:
    """Return a style sheet, script or template from the assets of a package."""
    folder = resources.files(package) / "assets"
    return (folder / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """Return the packed script from plotly's wheel, without importing plotly, which would take longer."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None  # noqa: S101  plotly is a dependency of this package
    assert spec.origin is not None  # noqa: S101
    return _packed((Path(spec.origin).parent / "package_data" / "plotly.min.js").read_bytes())


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")
