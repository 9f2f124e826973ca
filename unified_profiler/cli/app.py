"""Assembles the command `unified-profiler` and prints our errors as messages.

Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from unified_profiler._version import __version__
from unified_profiler.cli.critical_path import critical_path
from unified_profiler.cli.devices import devices
from unified_profiler.cli.diff import diff
from unified_profiler.cli.doctor import doctor
from unified_profiler.cli.export import export
from unified_profiler.cli.gate import GateCommand, gate
from unified_profiler.cli.help import CONTEXT, CompactCommand, CompactGroup
from unified_profiler.cli.query import QueryCommand, query
from unified_profiler.cli.ranks import ranks
from unified_profiler.cli.report import report
from unified_profiler.cli.run import RUN_CONTEXT, run
from unified_profiler.cli.runs import runs
from unified_profiler.cli.steps import steps
from unified_profiler.cli.summary import summary
from unified_profiler.cli.table import table
from unified_profiler.cli.usage import UsageError, reword
from unified_profiler.cli.view import view
from unified_profiler.errors import UnifiedProfilerError

BAD_INPUT = 2
"""Exit code for errors that the user can fix, unless a command has its own `bad_input`."""


class _Commands(CompactGroup):
    """Treats a script as `run` of that script, and prints errors of this package as one message on stderr."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and args[0].endswith(".py"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UnifiedProfilerError as error:
            if ctx.params.get("debug"):
                raise
            typer.secho("Error: ", fg="red", bold=True, err=True, nl=False)
            typer.echo(self._with_options(str(error), ctx), err=True)
            raise typer.Exit(self._bad_input(ctx)) from None
        except UsageError as error:
            reword(error)
            error.exit_code = self._bad_input(ctx)
            raise

    def _with_options(self, text: str, ctx: Any) -> str:
        """Return a message with the names of options instead of those of arguments in Python."""
        command = self.commands.get(ctx.invoked_subcommand or "")
        options = [option for parameter in (command.params if command else ()) for option in parameter.opts]
        names = {option.removeprefix("--").replace("-", "_"): option for option in options if option.startswith("--")}
        names["output_dir"] = "--output"
        return re.sub(r"`(\w+)`", lambda match: f"`{names.get(match[1], match[1])}`", text)

    def _bad_input(self, ctx: Any) -> int:
        code: int = getattr(self.commands.get(ctx.invoked_subcommand or ""), "bad_input", BAD_INPUT)
        return code


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unified-profiler {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Profile all deep-learning frameworks of a process with one profiler.

    Each framework is recorded by its own native profiler. The result is one table of events for all of them.

    Examples:
      unified-profiler run train.py -- --epochs 1
      python -m unified_profiler train.py --epochs 1
      unified-profiler report --open
      unified-profiler table --sort-by self_cpu_time_total
      unified-profiler diff torch_run mindspore_run
    """


app.command(cls=CompactCommand, context_settings=RUN_CONTEXT)(run)
app.command(cls=CompactCommand)(runs)
app.command(cls=CompactCommand)(report)
app.command(cls=CompactCommand)(summary)
app.command(cls=CompactCommand)(table)
app.command(cls=CompactCommand)(steps)
app.command(cls=CompactCommand)(ranks)
app.command(cls=CompactCommand)(devices)
app.command(cls=CompactCommand)(critical_path)
app.command(cls=CompactCommand)(export)
app.command(cls=QueryCommand)(query)
app.command(cls=CompactCommand)(diff)
app.command(cls=GateCommand)(gate)
app.command(cls=CompactCommand)(view)
app.command(cls=CompactCommand)(doctor)


def main() -> None:
    """Run the command line."""
    app()
