"""Runs the user's script or module as `__main__`, in the same way as Python itself."""

from __future__ import annotations

import builtins
import re
import runpy
import sys
import traceback
import zipfile
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from types import ModuleType, TracebackType

INTERRUPTED = 130
"""Exit code of a program ended by Ctrl-C."""
_STEP_HOOKS = re.compile(r"unified_profiler(_\w+\.steps|\.spi\.patching)\b")
"""Modules whose frames are in the traceback only because a method of a framework is hooked."""


@dataclass(frozen=True)
class Program:
    """A script or module with its arguments.

    Attributes:
        target: Path of a script (or of a directory or zip file with a `__main__.py`), or name of a module.
        arguments: The content of `sys.argv` after the program name.
        is_module: Whether `target` is the name of a module, as after `python -m`.
    """

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    def run(self) -> int:
        """Run the program and return its exit code; an exception is shown as Python shows it."""
        try:
            self._execute()
        except SystemExit as error:
            return _exit_code(error)
        except KeyboardInterrupt as error:
            _show(error)
            return INTERRUPTED
        except BaseException as error:  # noqa: BLE001  an error of the script, shown as by Python
            _show(error)
            return 1
        return 0

    def _execute(self) -> None:
        sys.argv[:] = [self.target, *self.arguments]
        if self.is_module:
            self._set_first_path(Path.cwd())
            runpy.run_module(self.target, run_name="__main__", alter_sys=True)
        elif _is_bundle(Path(self.target)):
            runpy.run_path(self.target, run_name="__main__")
        else:
            self._set_first_path(Path(self.target).resolve().parent)
            _run_file(Path(self.target).absolute())

    @staticmethod
    def _set_first_path(directory: Path) -> None:
        if not getattr(sys.flags, "safe_path", False):  # python -P adds no directory
            sys.path[0] = str(directory)


def _is_bundle(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".pyc" or zipfile.is_zipfile(path)


def _run_file(path: Path) -> None:
    """Run a script; `runpy.run_path` would change `sys.argv[0]` and remove `__main__` while threads still run."""
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__.update(__builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  running user code is the purpose of this module


def _exit_code(error: SystemExit) -> int:
    """Return the exit code that Python derives from the argument of `sys.exit`."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  as Python does
    return 1


def _show(error: BaseException) -> None:
    """Show an exception through the script's own hook, without the frames of the profiler."""
    error = error.with_traceback(_script_frames(error.__traceback__))
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:  # noqa: BLE001  a failing hook of the script must not prevent the result
        traceback.print_exception(error)


def _script_frames(tb: TracebackType | None) -> TracebackType | None:
    frames = []
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    kept: TracebackType | None = None
    for frame in reversed(list(dropwhile(_is_before_script, frames))):
        if not _STEP_HOOKS.match(_module_name(frame)):
            kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def _is_before_script(tb: TracebackType) -> bool:
    name = _module_name(tb)
    return name in {"runpy", __name__} or name.startswith("importlib.")


def _module_name(tb: TracebackType) -> str:
    return str(tb.tb_frame.f_globals.get("__name__", ""))
