"""What the facade records by itself while a program runs: steps, regions, and who this process is."""

from __future__ import annotations
