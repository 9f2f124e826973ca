"""Writes the file layouts of other profilers: TorchWrapper, apitimewrapper and the TensorFlow Models Profiler."""

from __future__ import annotations
