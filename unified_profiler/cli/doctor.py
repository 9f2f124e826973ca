"""`unified-profiler doctor`: reports what can be recorded in this environment, and what is missing.

No framework is imported: versions come from the metadata of installed packages, accelerators from the device files of
their drivers.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from unified_profiler._version import __version__
from unified_profiler.cli.language import LanguageOption, Words, language_of
from unified_profiler.cli.output import DocumentFormat, JsonOption

if TYPE_CHECKING:
    from rich.table import Table

    from unified_profiler.registry import Entry

LIBRARIES = ("pyarrow", "duckdb", "numpy", "msgspec", "pydantic", "pandas", "viztracer")
ACCELERATORS = {"cuda": "/dev/nvidia[0-9]*", "rocm": "/dev/kfd", "ascend": "/dev/davinci[0-9]*"}
"""Device files of accelerators that have a driver."""
NUMPY_1_MINDSPORE = (2, 10)
"""The newest MindSpore known to be compiled against NumPy 1, although its metadata allow NumPy 2."""


class FrameworkFinding(BaseModel):
    """The state of one backend and its framework."""

    backend: str
    framework: str | None = None
    version: str | None = None
    """None if the framework is not installed."""
    records: list[str] = []
    """The capabilities of its native profiler."""
    install: str = ""
    problem: str | None = None


class Findings(BaseModel):
    """The result of `doctor`."""

    profiler: str = __version__
    python: str = platform.python_version()
    platform: str = platform.platform()
    libraries: dict[str, str | None]
    """Version of each library, null if it is not installed."""
    frameworks: list[FrameworkFinding]
    accelerators: list[str]
    output_dir: Path
    notes: list[str] = []
    """Problems that do not prevent recording."""
    problems: list[str]


def doctor(
    *,
    output_dir: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Directory for runs, checked for write access.")
    ] = Path("profile"),
    form: Annotated[DocumentFormat, typer.Option("--format", help="Output format.")] = DocumentFormat.TABLE,
    as_json: JsonOption = False,
    language: LanguageOption = None,
) -> None:
    """Show which frameworks can be recorded in this environment, what each can record, and what is missing.

    The exit code is 1 if there is a problem.

    Examples:
      unified-profiler doctor
      unified-profiler doctor -o /data/profiles --json
    """
    wants_json = as_json or form is DocumentFormat.JSON
    words = Words("doctor", "en" if wants_json else language_of(language))
    findings = examine(output_dir, words)
    if wants_json:
        typer.echo(findings.model_dump_json(indent=2))
    else:
        _print(findings, words)
    if findings.problems:
        raise typer.Exit(1)


def examine(output_dir: Path, words: Words) -> Findings:
    """Examine this machine and this environment; notes and problems are in the language of the words."""
    from unified_profiler.registry import known

    frameworks = [_examine_backend(entry) for entry in known()]
    problems = [finding.problem for finding in frameworks if finding.problem]
    if not any(finding.version for finding in frameworks):
        commands = words("or").join(finding.install for finding in frameworks)
        problems.append(words("no_framework", commands=commands))
    problems += [problem for problem in (_settings_problem(), _directory_problem(output_dir)) if problem]
    return Findings(
        libraries={name: _version(name) for name in LIBRARIES},
        frameworks=frameworks,
        accelerators=[name for name, pattern in ACCELERATORS.items() if any(Path("/").glob(pattern.lstrip("/")))],
        output_dir=output_dir,
        notes=[note for note in (_numpy_note(words),) if note],
        problems=problems,
    )


def _examine_backend(entry: Entry) -> FrameworkFinding:
    from unified_profiler.errors import BackendError
    from unified_profiler.registry import get

    finding = FrameworkFinding(backend=entry.name, framework=entry.module, install=entry.install_hint)
    try:
        backend = get(entry.name)
    except BackendError as error:
        return finding.model_copy(update={"problem": str(error)})
    records = sorted(capability.value for capability in backend.capabilities)
    version = _framework_version(backend.module)
    return finding.model_copy(update={"framework": backend.module, "version": version, "records": records})


def _framework_version(module: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return None
    version = _version(module)
    if version is not None:
        return version
    packages = importlib.metadata.packages_distributions().get(module, [])  # such as tensorflow-cpu for tensorflow
    return (_version(packages[0]) if packages else None) or "unknown version"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numpy_note(words: Words) -> str | None:
    mindspore, numpy = _version("mindspore"), _version("numpy")
    if mindspore is None or numpy is None or _release(mindspore) > NUMPY_1_MINDSPORE or _release(numpy) < (2,):
        return None
    return words("numpy", mindspore=mindspore, numpy=numpy)


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _settings_problem() -> str | None:
    from unified_profiler.config import LEVEL_VARIABLE, OPTIONS_VARIABLE, TABLE, resolve
    from unified_profiler.errors import ConfigurationError

    try:
        settings = resolve({})
    except ConfigurationError as error:
        return str(error)
    if settings.level:
        return None
    if settings.start:
        return f"{LEVEL_VARIABLE} is 0: profiling is disabled. Unset it to record."
    return (
        f"`start` is false in {OPTIONS_VARIABLE} or in pyproject.toml [tool.{TABLE}]: profiling is disabled. "
        "Set it to true to record."
    )


def _directory_problem(directory: Path) -> str | None:
    from unified_profiler.delivery.run_writer import check_output_dir
    from unified_profiler.errors import OutputDirectoryError

    try:
        check_output_dir(directory)
    except OutputDirectoryError as error:
        return str(error)
    return None


def _print(findings: Findings, words: Words) -> None:
    from rich.text import Text

    from unified_profiler.cli.terminal import console_on

    console = console_on(None)
    console.print(f"unified-profiler {findings.profiler}, Python {findings.python}, {findings.platform}")
    console.print()
    console.print(_framework_table(findings.frameworks, words))
    console.print()
    versions = (f"{name} {version or words('not_installed')}" for name, version in findings.libraries.items())
    separator = words("separator")
    console.print(words("libraries", versions=separator.join(versions)))
    console.print(words("accelerators", names=separator.join(findings.accelerators) or words("no_accelerator")))
    for finding in findings.frameworks:
        if not finding.version and not finding.problem:
            line = words("install", backend=finding.backend, command=finding.install)
            console.print(line, soft_wrap=True)
    for note in findings.notes:
        console.print(Text.assemble((words("note"), "yellow"), note), soft_wrap=True)
    for problem in findings.problems:
        console.print(Text.assemble((words("problem"), "red"), problem), soft_wrap=True)
    if not findings.problems:
        ready = words("runs_go_to", directory=findings.output_dir)
        console.print(Text.assemble((words("ready"), "green"), ready), soft_wrap=True)
        console.print(words("next", command="unified-profiler run train.py"), soft_wrap=True)


def _framework_table(frameworks: list[FrameworkFinding], words: Words) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in frameworks:
        version = Text(finding.version) if finding.version else Text(words("not_installed"), "yellow")
        records = words("records", capabilities=words("separator").join(finding.records)) if finding.version else ""
        table.add_row(Text(finding.backend, "bold"), version, Text(records, overflow="fold"))
    return table
