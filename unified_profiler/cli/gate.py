"""`unified-profiler gate`: decides for a CI build whether a program became slower."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unified_profiler.cli.help import CompactCommand
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.op_map import OpMapOption, mapped
from unified_profiler.cli.output import JsonOption, OutputOption, format_of, show_lines, show_table, write_or_print
from unified_profiler.cli.traces import RankOption, read_selected, working
from unified_profiler.errors import ConfigurationError, UnifiedProfilerError

if TYPE_CHECKING:
    from unified_profiler.gating import Gate

BAD_INPUT = 3
"""Exit code for errors that the user can fix; 1 and 2 are verdicts here."""
_MULTIPLE = ("--baseline", "--candidate")


class GateFormat(str, Enum):
    """Output format of a verdict."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    JUNIT = "junit"


class GateCommand(CompactCommand):
    """Accepts several values after one `--baseline` or `--candidate`."""

    bad_input = BAD_INPUT

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments with the option before each of its values."""
        return super().parse_args(ctx, list(_repeat_options(args)))


def _repeat_options(args: Sequence[str]) -> Iterator[str]:
    """Repeat the option before each of its values."""
    option: str | None = None
    needs_value = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        if arg.startswith("-") and arg != "-":
            option = name if name in _MULTIPLE else None
            needs_value = not equals
        elif option is not None and not needs_value:
            yield option
        else:
            needs_value = False
        yield arg


def gate(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="BASELINE CANDIDATE", help="A run before the change and one with it."),
    ] = None,
    *,
    baseline: Annotated[
        list[Path] | None, typer.Option(metavar="RUN...", help="Runs before the change, if there are several.")
    ] = None,
    candidate: Annotated[
        list[Path] | None, typer.Option(metavar="RUN...", help="Runs with the change, in the same order.")
    ] = None,
    max_regression: Annotated[str, typer.Option(help="Largest accepted slowdown.")] = "5%",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Metric to check: step, op:NAME, region:NAME, api:NAME or memory; repeatable.", show_default="step"
        ),
    ] = None,
    form: Annotated[
        GateFormat | None,
        typer.Option("--format", help="Output format.", show_default="by the suffix of -o, else table"),
    ] = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    op_map: OpMapOption = None,
    rank: RankOption = None,
    language: LanguageOption = None,
) -> None:
    """Check whether a program became slower by more than is accepted.

    Exit codes: 0 within bounds, 1 regression, 2 inconclusive (too noisy or too few steps), 3 wrong input.

    Examples:
      unified-profiler gate before after
      unified-profiler gate --baseline a1 a2 a3 --candidate b1 b2 b3
      unified-profiler gate before after --metric op:aten::mm --metric memory
      unified-profiler gate before after -o gate.xml
    """
    try:
        chosen = format_of(form, out, default=GateFormat.TABLE, as_json=as_json)
        before, after = _sides(runs or [], baseline or [], candidate or [])
        spoken = language_of(language)
        result = _judge(before, after, max_regression, metric or ["step"], rank=rank, op_map=op_map, language=spoken)
        _write(result, chosen, out, spoken)
        if chosen is GateFormat.TABLE and out is None:
            show_lines(["", next_command("diff", "diff", str(before[0]), str(after[0]), language=spoken)])
    except UnifiedProfilerError:
        raise
    except Exception:  # noqa: BLE001  Python's own exit code, 1, would look like a regression
        traceback.print_exc()
        raise typer.Exit(BAD_INPUT) from None
    raise typer.Exit(result.verdict.exit_code)


def _sides(runs: list[Path], baseline: list[Path], candidate: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return the runs of each side, given as two arguments or by options."""
    if not runs and baseline and candidate:
        return baseline, candidate
    if len(runs) == len(("baseline", "candidate")) and not baseline and not candidate:
        return runs[:1], runs[1:]
    from unified_profiler.presentation.text import counted

    msg = (
        "Give two runs: `gate BASELINE CANDIDATE`; or several of each side: `gate --baseline RUN... --candidate "
        f"RUN...`; found {counted(len(runs), 'run')} without an option, {len(baseline)} of the baseline and "
        f"{len(candidate)} of the candidate."
    )
    raise ConfigurationError(msg)


def _judge(
    baseline: list[Path],
    candidate: list[Path],
    max_regression: str,
    metric: list[str],
    *,
    rank: int | None,
    op_map: Path | None,
    language: str,
) -> Gate:
    from unified_profiler.gating import gate as compare

    with working("comparing", language=language):
        sides = ([read_selected(path, language=language) for path in paths] for paths in (baseline, candidate))
        before, after = ([mapped(run, op_map) for run in side] for side in sides)
        result = compare(before, after, max_regression=max_regression, metric=metric, rank=rank)
    return result.model_copy(
        update={
            "baseline": result.baseline.model_copy(update={"names": tuple(map(str, baseline))}),
            "candidate": result.candidate.model_copy(update={"names": tuple(map(str, candidate))}),
        }
    )


def _write(result: Gate, form: GateFormat, out: Path | None, language: str) -> None:
    if form is GateFormat.TABLE and out is None:
        _print(result, language)
        return
    write_or_print(_text(result, form, language), out)


def _text(result: Gate, form: GateFormat, language: str) -> str:
    from unified_profiler.gating.junit import junit
    from unified_profiler.gating.markdown import markdown
    from unified_profiler.gating.text import as_text

    if form is GateFormat.JSON:
        return result.model_dump_json(indent=2) + "\n"
    if form is GateFormat.MARKDOWN:
        return markdown(result, language=language)
    if form is GateFormat.JUNIT:
        return junit(result, language=language)
    return as_text(result, language=language) + "\n"


def _print(result: Gate, language: str) -> None:
    from unified_profiler.gating.text import contributions_of, contributions_title, headlines, table_of

    show_lines([*headlines(result, language=language), ""])
    show_table(table_of(result, language=language), most_rows=None, language=language)
    for judgment in result.judgments:
        if judgment.contributions:
            show_lines(["", contributions_title(judgment, language=language)])
            show_table(contributions_of(judgment, language=language), most_rows=None, language=language)
