"""No module imports itself by way of others, within its package either; the layers are in pyproject.toml."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "unified_profiler": ROOT,
    **{f"unified_profiler_{name}": ROOT / "backends" for name in ("torch", "tensorflow", "mindspore")},
}


def modules(package: str) -> dict[str, Path]:
    """Return the files of a package by the names of their modules."""
    root = PACKAGES[package]
    files = (root / package).rglob("*.py")
    names = {".".join(file.relative_to(root).with_suffix("").parts): file for file in files}
    return {name.removesuffix(".__init__"): file for name, file in names.items()}


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported when the module is, or when one of its functions is called; not for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


def graph(package: str) -> dict[str, set[str]]:
    """Return which modules each module imports: of `from a import b`, `a.b` if that is a module, else `a`."""
    files = modules(package)
    found = {name: set(imports(ast.parse(file.read_text(encoding="utf-8")))) for name, file in files.items()}
    return {
        name: {part for target in targets if (part := _module(target, files)) and part != name}
        for name, targets in found.items()
    }


def _module(target: str, files: dict[str, Path]) -> str | None:
    return next((part for part in (target, target.rpartition(".")[0]) if part in files), None)


def cycles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Take away, again and again, modules that import nothing that is left; what remains is in or above a cycle."""
    left = {name: set(targets) for name, targets in edges.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    while free := [name for name in left if not any(name in targets for targets in left.values())]:
        for name in free:
            del left[name]
    return [set(left)] if left else []


@pytest.mark.parametrize("package", PACKAGES)
def test_there_are_no_import_cycles(package: str) -> None:
    assert cycles(graph(package)) == []


def test_a_cycle_would_be_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]
    assert cycles({"a": {"b"}, "b": set()}) == []
