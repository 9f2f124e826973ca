"""Runs commands quickly: each in a fork of a process that has the heavy imports behind it, but has used none of them.

A command comes on stdin as a line of JSON: `argv`, `cwd`, `env` and the file that its `output` goes to. Its process id
is answered when it has begun, its exit code when it has ended.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import sys
import traceback
from typing import Any

import duckdb  # noqa: F401
import pandas as pd  # noqa: F401
import torch._dynamo  # noqa: F401  which the first optimizer would import

import unified_profiler.cli.app
import unified_profiler.cli.terminal
import unified_profiler.export
import unified_profiler.launch.launcher
import unified_profiler.report


def serve() -> None:
    """Take commands until stdin ends."""
    gc.freeze()  # so that children leave the memory that they share alone
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            end(result_of(**json.loads(line)))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def result_of(*, argv: list[str], cwd: str, env: dict[str, str], output: str) -> int | str | None:
    """Do what the command does, in this process, and return what it exits with."""
    os.chdir(cwd)
    os.environ.update(env)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, stream in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, stream)
    name, *sys.argv[1:] = argv
    try:
        {"unified-profiler": unified_profiler.cli.app.main, "python": python}[name]()
    except SystemExit as error:
        return error.code
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
        return 1
    return 0


def python() -> Any:
    """Run the script or, after `-m`, the module in `sys.argv`, as the interpreter does."""
    sys.argv.pop(0)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  a text
    if sys.argv[0] == "-m":
        sys.argv.pop(0)
        return runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    return runpy.run_path(sys.argv[0], run_name="__main__")


def end(result: int | str | None) -> None:
    """Exit at once: to take down everything that was imported would take longer than the command."""
    if isinstance(result, str):
        print(result, file=sys.stderr)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if isinstance(result, str) else result or 0)


if __name__ == "__main__":
    serve()
    end(0)
