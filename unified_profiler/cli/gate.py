"""`unified-profiler gate`: a verdict that a build can act upon."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from unified_profiler.cli.language import Language, LanguageOption
from unified_profiler.cli.op_map import OpMapOption, mapped
from unified_profiler.cli.output import show_table, write_or_print
from unified_profiler.cli.traces import RankOption, read_selected, working
from unified_profiler.errors import UnifiedProfilerError

if TYPE_CHECKING:
    from unified_profiler.gating import Gate

BAD_INPUT = 3
"""Exit code for what the user can put right; 1 and 2 are verdicts here."""
_SEVERAL = ("--baseline", "--candidate")


class GateFormat(str, Enum):
    """What a verdict is written as."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    JUNIT = "junit"


class GateCommand(TyperCommand):
    """Takes several values after one `--baseline` or `--candidate`, as well as the option several times."""

    bad_input = BAD_INPUT

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments with the option before each of its values."""
        return super().parse_args(ctx, list(_spread(args)))


def _spread(args: Sequence[str]) -> Iterator[str]:
    """Repeat the option before each of its values."""
    option: str | None = None
    waiting = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        if arg.startswith("-") and arg != "-":
            option = name if name in _SEVERAL else None
            waiting = not equals
        elif option is not None and not waiting:
            yield option
        else:
            waiting = False
        yield arg


def gate(
    *,
    baseline: Annotated[list[Path], typer.Option(metavar="RUN...", help="Runs before the change.")],
    candidate: Annotated[list[Path], typer.Option(metavar="RUN...", help="Runs with it, in the same order.")],
    max_regression: Annotated[str, typer.Option(help="How much slower is still accepted.")] = "5%",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="What is judged: step, op:NAME, region:NAME, api:NAME or memory; repeatable.", show_default="step"
        ),
    ] = None,
    form: Annotated[
        GateFormat | None,
        typer.Option("--format", help="How it is written.", show_default="by the suffix of -o, else table"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; else it is printed.")] = None,
    op_map: OpMapOption = None,
    rank: RankOption = None,
    language: LanguageOption = None,
) -> None:
    """Say whether a program got slower by more than is allowed, and end with 0, 1, 2 or 3.

    0 is within bounds, 1 a regression, 2 too noisy or too few steps to tell, 3 wrong input.

    [bold]Examples[/bold]

      unified-profiler gate --baseline before --candidate after

      unified-profiler gate --baseline a1 a2 a3 a4 a5 a6 --candidate b1 b2 b3 b4 b5 b6 --max-regression 2%

      unified-profiler gate --baseline before --candidate after --metric op:aten::mm --metric memory

      unified-profiler gate --baseline before --candidate after --format junit -o gate.xml
    """
    try:
        found = _judged(baseline, candidate, max_regression, metric or ["step"], rank=rank, op_map=op_map)
        _deliver(found, form, out, (language or Language.ENGLISH).value)
    except UnifiedProfilerError:
        raise
    except Exception:  # noqa: BLE001  Python's own exit code, 1, would look like a regression
        traceback.print_exc()
        raise typer.Exit(BAD_INPUT) from None
    raise typer.Exit(found.verdict.exit_code)


def _judged(
    baseline: list[Path],
    candidate: list[Path],
    max_regression: str,
    metric: list[str],
    *,
    rank: int | None,
    op_map: Path | None,
) -> Gate:
    from unified_profiler.gating import gate as judge

    with working("Reading and judging"):
        before, after = ([mapped(read_selected(path), op_map) for path in paths] for paths in (baseline, candidate))
        found = judge(before, after, max_regression=max_regression, metric=metric, rank=rank)
    names = {"baseline": baseline, "candidate": candidate}
    return found.model_copy(
        update={
            side: getattr(found, side).model_copy(update={"names": tuple(map(str, paths))})
            for side, paths in names.items()
        }
    )


def _deliver(found: Gate, form: GateFormat | None, out: Path | None, language: str) -> None:
    suffixes = {".md": GateFormat.MARKDOWN, ".json": GateFormat.JSON, ".xml": GateFormat.JUNIT}
    chosen = form or suffixes.get("" if out is None else out.suffix.lower(), GateFormat.TABLE)
    if chosen is GateFormat.TABLE and out is None:
        _print(found, language)
        return
    write_or_print(_text(found, chosen, language), out)


def _text(found: Gate, form: GateFormat, language: str) -> str:
    from unified_profiler.gating.junit import junit
    from unified_profiler.gating.markdown import markdown
    from unified_profiler.gating.text import as_text

    if form is GateFormat.JSON:
        return found.model_dump_json(indent=2) + "\n"
    if form is GateFormat.MARKDOWN:
        return markdown(found, language=language)
    if form is GateFormat.JUNIT:
        return junit(found, language=language)
    return as_text(found, language=language) + "\n"


def _print(found: Gate, language: str) -> None:
    from unified_profiler.gating.text import contributions_of, contributions_title, headlines, table_of

    for line in (*headlines(found, language=language), ""):
        typer.echo(line)
    show_table(table_of(found, language=language), most_rows=None)
    for judgment in found.judgments:
        if judgment.contributions:
            typer.echo("\n" + contributions_title(judgment, language=language))
            show_table(contributions_of(judgment, language=language), most_rows=None)
