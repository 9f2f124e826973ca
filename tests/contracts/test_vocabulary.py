"""Words that hide what a name or a sentence means do not come back into the package, the backends and the pages.

Code and data do not tell, say or know: they return, contain, report, record or describe. `found`, `place` and `thing`
name nothing: the specific noun does. docs/glossary.md has the terms to use instead.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "unified_profiler").rglob("*.py"), *(ROOT / "backends").rglob("*.py")])

NAMES = frozenset(
    {
        "chance", "drawn", "found", "knows", "learnt", "meeting", "meetings", "place", "places", "said", "say",
        "saying", "says", "settle", "settled", "settles", "sorts", "such", "tell", "tells", "thing", "things", "told",
    }
)  # fmt: skip
PROSE = re.compile(
    r"\b(tell|tells|told|telling|say|says|said|saying|learnt|knows|meetings?|settles?|settled|things?|sorts? of|at hand"
    r"|so many|be rid of)\b",
    re.IGNORECASE,
)
TEXT_TOKENS = {"STRING", "COMMENT", "FSTRING_MIDDLE"}


def words_of(identifier: str) -> set[str]:
    """Return the words of an identifier in either case style."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every name that a module defines, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of all comments, docstrings and messages, with their numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if tokenize.tok_name[token.type] in TEXT_TOKENS:
            yield from enumerate(token.string.split("\n"), token.start[0])


def test_identifiers_name_what_they_hold() -> None:
    unclear = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in FILES
        for line, name in identifiers(ast.parse(path.read_text(encoding="utf-8")))
        if words_of(name) & NAMES
    ]
    assert not unclear, "\n".join(unclear)


def test_docstrings_comments_and_messages_are_plain() -> None:
    unclear = [
        f"{path.relative_to(ROOT)}:{line} [{match[0]}] {text.strip()}"
        for path in FILES
        for line, text in prose(path.read_text(encoding="utf-8"))
        if (match := PROSE.search(text))
    ]
    assert not unclear, "\n".join(unclear)


def test_pages_are_plain() -> None:
    pages = [ROOT / "README.md", ROOT / "backends" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    unclear = [
        f"{page.relative_to(ROOT)}:{number} [{match[0]}] {text.strip()}"
        for page in pages
        for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if (match := PROSE.search(text))
    ]
    assert not unclear, "\n".join(unclear)


def test_every_module_begins_with_a_statement_of_what_it_does() -> None:
    opening = re.compile(r"(What|Which|How|Where|When|Who|Whose|Why)\b")
    unclear = [
        f"{path.relative_to(ROOT)}: {documentation.splitlines()[0] if documentation else 'no docstring'}"
        for path in FILES
        if opening.match(documentation := ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
        or not documentation
    ]
    assert not unclear, "\n".join(unclear)


@pytest.mark.parametrize(
    ("source", "line"),
    [("def f(found_rows): pass", 1), ("class StepTold: pass", 1), ("x = 1\nself.place = 2", 2), ("def say(): pass", 1)],
)
def test_a_forbidden_name_is_noticed(source: str, line: int) -> None:
    assert [number for number, name in identifiers(ast.parse(source)) if words_of(name) & NAMES] == [line]


@pytest.mark.parametrize("source", ['"""What it says."""', "x = 1  # told by the backend", 'msg = f"it {x} knows"'])
def test_a_forbidden_word_in_a_text_is_noticed(source: str) -> None:
    assert any(PROSE.search(text) for _, text in prose(source))
