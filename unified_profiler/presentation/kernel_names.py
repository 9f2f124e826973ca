"""Shortens the names of C++ kernels, whose template arguments fill whole lines."""

from __future__ import annotations

import re

SEPARATOR = " → "
"""Between the kernels of a sequence; it cannot occur in a name, as " > " does between nested template arguments."""


def short_kernel_names(text: str) -> str:
    """Shorten the name of a kernel, or each name in a sequence of kernels."""
    return SEPARATOR.join(map(_short, text.split(SEPARATOR)))


def _short(name: str) -> str:
    """Return the name without arguments and namespaces, with the functors that distinguish it."""
    plain = name.replace("(anonymous namespace)::", "").removeprefix("void ").replace("cutlass::Kernel<", "")
    functors = dict.fromkeys(re.findall(r"\w*[Ff]unctor\w*", plain))
    short = re.split(r"[<>(]", plain, maxsplit=1)[0].rpartition("::")[2].strip()
    return f"{short} [{', '.join(functors)}]" if functors else short or name
