"""The command line, one module per command. It parses arguments and prints results that other packages compute."""

from __future__ import annotations
