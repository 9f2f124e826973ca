"""`python -m unified_profiler`: the command line, also for launchers such as torchrun that start modules.

`python -m unified_profiler train.py` is short for its command `run`.
"""

from __future__ import annotations

from unified_profiler.cli.app import main

if __name__ == "__main__":
    main()
