"""Formats values for people: units, sentences in two languages, tables as text, HTML and Markdown."""

from __future__ import annotations
