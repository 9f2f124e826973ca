"""Lists the functions and methods of TensorFlow's public API that can be traced."""

from __future__ import annotations
