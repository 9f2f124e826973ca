"""Every example of the documentation runs: a page is executed from top to bottom, in a directory of its own.

| fence | what is done with it |
|---|---|
| `python` | executed, whatever its title; a page's blocks share their names |
| `python title="train.py"` | saved under that name instead |
| `ipython` | executed as a cell of a notebook; a page's cells share their names |
| `console` | each line is run as a command, and has to succeed; of `gate` any verdict will do |
| `json`, `toml`, `yaml` | must be valid; entry points in it are known from then on |
| `py title="before: ..."` | what people come from: must be Python, is not executed |
| `text` | output and drawings: nothing |

A command may name what the page has not made: a training (train.py, script.py, package.train), recorded runs of two
ranks (profile, before, after), traces of torch's, without and with a GPU (kineto.pt.trace.json.gz,
gpu.pt.trace.json.gz), and those of two ranks (traces) are there for all.

Chinese pages have the same code, which test_chinese_pages.py checks.
"""

from __future__ import annotations

import builtins
import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import symtable
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]
from IPython.core.interactiveshell import InteractiveShell

import unified_profiler as up

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
ENGLISH = (page for page in (ROOT / "docs").rglob("*.md") if ROOT / "docs" / "zh" not in page.parents)
PAGES = [ROOT / "README.md", ROOT / "backends" / "README.md", *sorted(ENGLISH)]
FENCE = re.compile(r"^( *)```(\w*)(?: title=\"(.*?)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("make ", "pip install ", "ssh ", "torchrun ")
"""Commands that need a network, another machine or minutes; torchrun is in tests/backends/torch/test_ranks.py."""
ELSEWHERE = ("spark://", "hdfs://")
"""What a command names that needs a cluster; tests/unit/engine/test_spark.py has Spark on this machine."""
LOOKS_LIKE_AN_EXAMPLE = re.compile(r"^(unified-profiler|python|pip|import|from \w+ import) (?!\d)", re.MULTILINE)
PROGRAM = re.compile(r"^import (torch|tensorflow|keras|mindspore)\b", re.MULTILINE)
"""What an example begins with that readers copy alone."""
FAILS_ON_PURPOSE = {"docs/reference/errors.md"}
FRAMEWORKS = {"mindspore": "mindspore", "tensorflow": "tensorflow|keras|tf[.]", "torch": "torch|lightning|transformers"}
"""What code names that uses a framework; where nothing does, it is not to be recorded, though imported before."""
TRAINING = """\
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
Run = Callable[[str, Path], str]


class Block(NamedTuple):
    kind: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(kind, title, textwrap.dedent(text)) for _, kind, title, text in found]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# --- commands -----------------------------------------------------------------------------------------------------


class Commands:
    """Runs commands in forks of one warm process."""

    def __init__(self, standing: Path) -> None:
        self.standing = standing
        command = [sys.executable, str(Path(__file__).with_name("warm_python.py"))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, command: str, folder: Path) -> str:
        """Run it, say what it printed; it has to succeed, and may not speak of a failure."""
        variables, argv = taken_apart(command)
        for word in argv:
            self._provide(word.partition(".")[0] if "-m" in argv else word, folder)
        output = folder / f".output-{len(list(folder.glob('.output-*')))}"
        environment = {"BROWSER": "true", **variables}
        task = {"argv": argv, "cwd": str(folder), "env": environment, "output": str(output)}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        child = int(self._answer())
        if argv[1] == "view":
            interrupt(child, output)
        status, said = self._answer(), output.read_text(encoding="utf-8")
        verdicts = {"0", "1", "2"} if argv[1] == "gate" else {"0"}
        assert status in verdicts, f"{command}\n{said}"
        assert not re.search(r"\bfailed\b", said), f"{command}\n{said}"
        return said

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _provide(self, word: str, folder: Path) -> None:
        source, target = self.standing / word, folder / word
        if "/" in word or not word or not source.exists() or target.exists():
            return
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)


def taken_apart(command: str) -> tuple[dict[str, str], list[str]]:
    words = shlex.split(command, comments=True)
    count = next(i for i, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))
    return dict(word.split("=", 1) for word in words[:count]), words[count:]


def interrupt(child: int, output: Path) -> None:
    """Press Ctrl-C as soon as the command says that this ends it."""
    while not output.exists() or "Ctrl-C" not in output.read_text(encoding="utf-8"):
        os.kill(child, 0)  # raises if it has ended by itself
        time.sleep(0.02)
    os.kill(child, signal.SIGINT)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a command in a directory, with what is there for all."""
    standing = tmp_path_factory.mktemp("standing")
    for name in ("train.py", "script.py", "package/train.py"):
        (standing / name).parent.mkdir(exist_ok=True)
        (standing / name).write_text(TRAINING)
    golden = ROOT / "tests" / "golden" / "kineto"
    shutil.copy(golden / "cpu_only_rank34.json.gz", standing / "kineto.pt.trace.json.gz")
    shutil.copy(golden / "nccl_rank.json.gz", standing / "gpu.pt.trace.json.gz")
    (standing / "traces").mkdir()
    for rank in (0, 1):
        shutil.copy(golden / f"filter_rank{rank}.json.gz", standing / "traces" / f"rank{rank}.json.gz")
    commands = Commands(standing)
    try:
        for rank in (0, 1):
            job = f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK={rank} TORCHELASTIC_RUN_ID=example"
            commands.run(f"{job} unified-profiler run --api --with-modules --record-shapes train.py", standing)
        for name in ("before", "after"):
            shutil.copytree(standing / "profile", standing / name)
        yield commands.run
    finally:
        commands.process.communicate()
        assert commands.process.returncode == 0


# --- pages --------------------------------------------------------------------------------------------------------


def execute(block: Block, name: str, namespace: dict[str, Any], run: Run, folder: Path) -> None:
    match block:
        case Block("python", title, text) if title.endswith(".py"):
            (folder / title).write_text(text, encoding="utf-8")
        case Block("python", _, text):
            exec(compile(text, name, "exec", dont_inherit=True), namespace)  # noqa: S102  our own documentation
        case Block("ipython", "", text):
            InteractiveShell.instance().run_cell(text).raise_error()
        case Block("console", "", text):
            run_lines(text, run, folder)
        case Block("json" | "yaml" as kind, _, text):
            assert {"json": json.loads, "yaml": yaml.safe_load}[kind](text)
        case Block("toml", _, text):
            make_known(tomllib.loads(text), folder)
        case Block("py", title, text):
            assert title.startswith("before")
            compile(text, name, "exec", dont_inherit=True)
        case Block("text", _, text):
            assert not LOOKS_LIKE_AN_EXAMPLE.search(text)
        case _:
            pytest.fail(f"{name} has a block of a kind that nothing checks: {block.kind} {block.title}")


def run_lines(text: str, run: Run, folder: Path) -> None:
    """Run each line as a command, unless it needs what is not here."""
    for line in text.replace("\\\n", "").splitlines():
        if not line.startswith(NOT_RUN) and not any(place in line for place in ELSEWHERE):
            run(line, folder)


def make_known(project: dict[str, Any], folder: Path) -> None:
    """Do for the entry points of a project what its installation would do."""
    groups = project.get("project", {}).get("entry-points", {})
    if not groups:
        return
    info = folder / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    points = configparser.ConfigParser()
    points.read_dict(groups)
    with (info / "entry_points.txt").open("w") as file:
        points.write(file)


@pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # torch's own profiler, which we show
@pytest.mark.parametrize("name", [name_of(page) for page in PAGES if blocks(page)])
def test_the_examples_of_a_page_run(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pyproject.toml").touch()  # so that no settings file above is taken
    page = blocks(ROOT / name)
    if any(block.kind == "ipython" for block in page):
        request.getfixturevalue("ipython")
    if any("SparkEngine(" in block.text for block in page) and not (shutil.which("java") and find_spec("pyspark")):
        pytest.skip("THE EXAMPLES WITH SPARK DO NOT RUN: it needs pyspark, and Java 17 or newer")
    for framework, words in FRAMEWORKS.items():
        if not any(re.search(words, block.text) for block in page):
            monkeypatch.delitem(sys.modules, framework, raising=False)
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in page:
        execute(block, name, namespace, run, tmp_path)
    profilers = [value for value in namespace.values() if isinstance(value, up.Profiler)]
    assert name in FAILS_ON_PURPOSE or not [failure for prof in profilers for failure in prof.failures]


def names_from_elsewhere(text: str) -> set[str]:
    """Return the names that code uses and does not define."""
    module = symtable.symtable(text, "example", "exec")
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    return {name for scope in scopes(module) for name in used_globals(scope)} - defined - set(dir(builtins))


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from scopes(child)


def used_globals(scope: symtable.SymbolTable) -> Iterator[str]:
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or scope.get_type() == "module"):
            yield symbol.get_name()


@pytest.mark.parametrize("name", [name_of(page) for page in PAGES])
def test_an_example_that_imports_a_framework_needs_no_other_block(name: str) -> None:
    programs = [block.text for block in blocks(ROOT / name) if block.kind == "python" and PROGRAM.search(block.text)]
    assert [(text, missing) for text in programs if (missing := names_from_elsewhere(text) - {"__name__"})] == []


@pytest.mark.parametrize("name", [name_of(page) for page in PAGES])
def test_no_fence_is_overlooked(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks(ROOT / name))
