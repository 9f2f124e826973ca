"""The demonstration: profiles examples/train_<framework>.py without changing it, then shows what can be done with it.

Several frameworks are compared in the end: the model is the same in all of them.

Every command is printed before it runs, so that it can be typed again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.panel import Panel

EXAMPLES = Path(os.path.relpath(Path(__file__).parent))
QUESTION = (
    "select layer, kind, count(*) as events, sum(self_ns) as self_ns from events group by all order by self_ns desc"
)

console = Console(highlight=False)


OUTPUT = Path("demo-profile")


def main() -> None:
    """Show everything for each framework that is named on the command line, then compare them."""
    frameworks = sys.argv[1:] or ["torch"]
    for framework in frameworks:
        show(framework)
    for other in frameworks[1:]:
        compare(frameworks[0], other)


def compare(framework: str, other: str) -> None:
    """Set the trainings of two frameworks, which are of the same model, side by side."""
    runs = [str(OUTPUT / name / "run") for name in (framework, other)]
    page = str(OUTPUT / f"{framework}-{other}.html")
    _title(f"The same model in two frameworks: {framework} and {other}")
    _command("diff", *runs, "--row-limit", "25")
    _command("diff", *runs, "-o", page)
    console.print(Panel(f"Open [bold]{page}[/bold] in a browser for all of it."))


def show(framework: str) -> None:
    """Show everything for one framework."""
    output = OUTPUT / framework
    shutil.rmtree(output, ignore_errors=True)
    script, quickstart = EXAMPLES / f"train_{framework}.py", EXAMPLES / f"quickstart_{framework}.py"
    run, exported, report = (str(output / name) for name in ("run", "trace.json.gz", "report.html"))

    _title("What can be recorded here")
    _command("doctor", "--output", run)
    _title(f"An unmodified script: {script}")
    _command("run", "--output", run, "--active", "5", "--record-shapes", str(script), "--", "--steps", "16")
    _title("Where the time of each step went")
    _command("steps", run)
    _title("What matters, in one screen")
    _command("summary", run)
    _title("A report for a colleague: one file that opens without a network")
    _command("report", run, "-o", report)
    _title("Any question, in SQL")
    _command("query", run, QUESTION)
    _title("For the Perfetto UI and chrome://tracing")
    _command("export", run, exported)
    if quickstart.is_file():
        _title(f"The Profiler in your own code: {quickstart}")
        _show_and_run(["python", str(quickstart), str(output / "quickstart")], program=[sys.executable])
    shown = (
        f"Open [bold]{report}[/bold] in a browser; `unified-profiler view {run}` shows every event in the Perfetto UI."
    )
    console.print(Panel(shown))


def _title(text: str) -> None:
    console.print()
    console.rule(f"[bold cyan]{text}", align="left")


def _command(*arguments: str) -> None:
    _show_and_run(["unified-profiler", *arguments], program=[str(Path(sys.executable).with_name("unified-profiler"))])


def _show_and_run(shown: list[str], *, program: list[str]) -> None:
    console.print(f"$ {shlex.join(shown)}", style="green", markup=False, soft_wrap=True)
    environment = {**os.environ, "COLUMNS": str(console.width)}
    result = subprocess.run([*program, *shown[1:]], check=False, env=environment)  # noqa: S603  our own commands
    if result.returncode:
        sys.exit(result.returncode)


if __name__ == "__main__":
    main()
