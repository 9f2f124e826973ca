"""Formatting of output: units, sentences in two languages, and tables as text, HTML and Markdown."""

from __future__ import annotations
