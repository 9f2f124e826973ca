"""The user's script or module, run as `__main__` as Python itself would run it."""

from __future__ import annotations

import builtins
import runpy
import sys
import traceback
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended."""


@dataclass(frozen=True)
class Program:
    """What to run, and with which arguments.

    Attributes:
        target: Path of a script (or of a directory or zip file with a `__main__.py`), or name of a module.
        arguments: What the program finds in `sys.argv` after its own name.
        is_module: Whether `target` is the name of a module, as after `python -m`.
    """

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    def run(self) -> int:
        """Run it to its end and return its exit code; what it raises is shown as Python shows it."""
        try:
            self._execute()
        except SystemExit as error:
            return _exit_code(error)
        except KeyboardInterrupt as error:
            _show(error)
            return INTERRUPTED
        except BaseException as error:  # noqa: BLE001  the script's own error: shown to its user, then its exit code
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
    def _set_first_path(folder: Path) -> None:
        if not getattr(sys.flags, "safe_path", False):  # python -P puts no folder there
            sys.path[0] = str(folder)


def _is_bundle(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".pyc" or zipfile.is_zipfile(path)


def _run_file(path: Path) -> None:
    """Run a script; `runpy.run_path` would change `sys.argv[0]` and take `__main__` away while threads still run."""
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__.update(__builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  running what the user gave is what this module is for


def _exit_code(error: SystemExit) -> int:
    """Do with the argument of `sys.exit` what the interpreter does."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  the script's own last words
    return 1


def _show(error: BaseException) -> None:
    """Show an exception through the script's own hook, without the frames that are only there because of us."""
    error = error.with_traceback(_own_frames(error.__traceback__))
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:  # noqa: BLE001  a hook of the script's that fails must not cost the result
        traceback.print_exception(error)


def _own_frames(tb: TracebackType | None) -> TracebackType | None:
    frames = []
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    while frames and _leads_to_script(frames[0]):
        frames.pop(0)
    kept: TracebackType | None = None
    for frame in reversed(frames):
        if ".step_hooks" not in _module_of(frame):
            kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def _leads_to_script(tb: TracebackType) -> bool:
    name = _module_of(tb)
    return name == "runpy" or name == __name__ or name.startswith("importlib.")


def _module_of(tb: TracebackType) -> str:
    return str(tb.tb_frame.f_globals.get("__name__", ""))
