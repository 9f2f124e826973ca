"""Running a program as Python itself would: each test compares with `python script.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = (
    "import sys; from unified_profiler.launch.program import Program; "
    "sys.exit(Program({target!r}, {args!r}, {m}).run())"
)

SCRIPTS = {
    "normal end": "print('out')",
    "exit code": "import sys; sys.exit(3)",
    "exit without a code": "import sys; sys.exit()",
    "exit with words": "import sys; sys.exit('last words')",
    "exit with a large code": "raise SystemExit(256 + 7)",
    "exception": "def f():\n    raise ValueError('wrong')\nf()",
    "exception group of causes": "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "syntax error": "x = = 1",
    "arguments": "import sys; print(sys.argv[1:], __name__, sys.argv[0] == __file__)",
    "own folder on the path": "import neighbor; print(neighbor.NAME)",
    "encoding": "# coding: latin-1\nprint(len('\xe9'))",
    "multiprocessing by spawn": (
        "import multiprocessing as m\ndef f(q):\n    q.put(__name__)\nif __name__ == '__main__':\n"
        "    c = m.get_context('spawn')\n    q = c.SimpleQueue()\n    p = c.Process(target=f, args=(q,))\n"
        "    p.start()\n    print(q.get())\n    p.join()"
    ),
    "pickle of its own class": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
    "main module": "import sys; print(sys.modules['__main__'].__dict__ is globals(), __spec__, __package__)",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__)\n1/0",
    "standard input": "print(input())",
    "atexit": "import atexit\natexit.register(print, 'bye')\n1/0",
}


def run(*command: str, folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, input="typed\n", capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "neighbor.py").write_text("NAME = 'next door'")
    return tmp_path


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_script_behaves_as_under_python_itself(folder: Path, text: str) -> None:
    (folder / "code" / "script.py").write_text(text, encoding="utf-8")
    plain = run("code/script.py", "-x", "--y=1", folder=folder)
    ours = run("-c", RUNNER.format(target="code/script.py", args=("-x", "--y=1"), m=False), folder=folder)
    assert ours == plain


def test_a_module_behaves_as_under_python_itself(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").touch()
    (folder / "pack" / "__main__.py").write_text(
        "import sys, os\nprint(sys.argv, __name__, __package__, sys.path[0] == os.getcwd())\nraise OSError('x')"
    )
    plain = run("-m", "pack", "a", folder=folder)
    ours = run("-c", RUNNER.format(target="pack", args=("a",), m=True), folder=folder)
    assert ours[:2] == plain[:2]
    assert ours[2].splitlines()[-2:] == plain[2].splitlines()[-2:]
    assert "unified_profiler" not in ours[2]


def test_a_folder_with_a_main_behaves_as_under_python_itself(folder: Path) -> None:
    (folder / "code" / "__main__.py").write_text("import sys, neighbor\nprint(sys.argv, __name__, neighbor.NAME)")
    plain = run("code", "a", folder=folder)
    ours = run("-c", RUNNER.format(target="code", args=("a",), m=False), folder=folder)
    assert ours == plain


def test_ctrl_c_gives_exit_code_130(folder: Path) -> None:
    (folder / "script.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    code, _, errors = run("-c", RUNNER.format(target="script.py", args=(), m=False), folder=folder)
    assert code == 130
    assert errors.endswith("KeyboardInterrupt\n")


def test_a_failing_excepthook_does_not_get_out(folder: Path) -> None:
    (folder / "script.py").write_text("import sys\nsys.excepthook = None\nraise ValueError('shown all the same')")
    code, _, errors = run("-c", RUNNER.format(target="script.py", args=(), m=False), folder=folder)
    assert code == 1
    assert "shown all the same" in errors
