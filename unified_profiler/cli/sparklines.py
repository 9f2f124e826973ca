"""Draws series of times as lines of block characters, where the terminal can show these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.console import Console

from unified_profiler.cli.terminal import encodable, is_fitted
from unified_profiler.report.thinning import thin_keeping_maxima

Floats = npt.NDArray[np.float64]

_BLOCKS = "▁▂▃▄▅▆▇█"
_LARGEST_RATIO, _SMALLEST_RATIO = 2.0, 1.25


def room_for_sparklines(console: Console) -> int:
    """Return the width of a terminal that can show sparklines, else 0: text for other programs has none."""
    shows_blocks = encodable(_BLOCKS, console.encoding) == _BLOCKS
    return console.width if is_fitted(console) and shows_blocks else 0


def sparklines(series: Sequence[Floats], width: int) -> list[str]:
    """Draw each series in at most `width` characters, all on one scale, with a space where a value is missing (nan).

    Of longer series, the maxima are drawn. The scale begins at the minimum. It ends at the maximum, but at most at
    twice the median, so that one long first step does not flatten the others, and at least a quarter above the minimum,
    so that noise remains flat.
    """
    known = np.concatenate([values[np.isfinite(values)] for values in series] or [np.zeros(0)])
    if not len(known):
        return [" " * min(len(values), width) for values in series]
    low = known.min()
    high = max(min(known.max(), _LARGEST_RATIO * np.median(known)), _SMALLEST_RATIO * low, low + 1)
    return [_line((values[thin_keeping_maxima(values, width)] - low) / (high - low)) for values in series]


def _line(heights: Floats) -> str:
    levels = np.clip(np.nan_to_num(heights) * len(_BLOCKS), 0, len(_BLOCKS) - 1).astype(int)
    return "".join(_BLOCKS[level] if known else " " for level, known in zip(levels, np.isfinite(heights), strict=True))
