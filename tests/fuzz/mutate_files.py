"""Mutations of directories: files that are missing, are no files, lie elsewhere, or have other names."""

from __future__ import annotations

from pathlib import PurePosixPath
from random import Random

from tests.fuzz.trees import OUTSIDE, Entry, Folder, Link, Pipe, Tree, Unreadable

_NAMES = (
    *("rank-00001", "rank-", "rank-x", "rank--1", "rank-99999999999999999999", "rank-00000 copy", "cycle-00000"),
    *("cycle-x", "cycle-99999999999999999999.parquet", "cycle-00001.parquet", "manifest.json", "steps.arrow"),
    *("clocks.json", "pending", "native", "FRAMEWORK", "ASCEND_PROFILER_OUTPUT", "trace_view.json", "run_metadata"),
    *(
        "x",
        ".hidden",
        "new\nline",
        "\udcff\udcfe",
        "x" * 255,
        "*",
        "[a",
        "%s",
        "cpu_framework_99999999999999999999.txt",
    ),
)


def mutate_files(rng: Random, tree: Tree) -> None:
    """Change what is in a directory."""
    name = rng.choice(list(tree))
    entry = tree[name]
    match rng.randrange(7):
        case 0:
            del tree[name]
        case 1:
            tree[name] = _instead(rng, entry, depth=name.count("/"))
        case 2:
            tree[_renamed(rng, name)] = tree.pop(name)
        case 3:
            tree[_renamed(rng, name)] = entry
        case 4:
            _replace_folder(rng, tree, name)
        case 5:
            other = rng.choice(list(tree))
            tree[name], tree[other] = tree[other], tree[name]
        case _:
            _rename_folder(rng, tree, name)


def _instead(rng: Random, entry: Entry, *, depth: int) -> Entry:
    up = "../" * depth
    targets = ("/dev/zero", ".", up or ".", *(f"{up}{OUTSIDE}/{name}" for name in ("secret", "folder", "missing", "")))
    others: list[Entry] = [Folder(), Pipe(), Unreadable(entry if isinstance(entry, bytes) else b"x"), b""]
    return rng.choice([*others, *map(Link, targets)])


def _replace_folder(rng: Random, tree: Tree, name: str) -> None:
    """Put something else in the place of a folder and all that is in it."""
    folder = _folder_of(rng, name)
    if folder is None:
        return
    for inside in [path for path in tree if path.startswith(f"{folder}/")]:
        del tree[inside]
    tree[folder] = _instead(rng, b"{}", depth=folder.count("/"))


def _rename_folder(rng: Random, tree: Tree, name: str) -> None:
    folder = _folder_of(rng, name)
    if folder is None:
        return
    new = _renamed(rng, folder)
    for inside in [path for path in tree if path.startswith(f"{folder}/")]:
        tree[new + inside.removeprefix(folder)] = tree.pop(inside)


def _renamed(rng: Random, name: str) -> str:
    return str(PurePosixPath(name).with_name(rng.choice(_NAMES)))


def _folder_of(rng: Random, name: str) -> str | None:
    folders = [str(folder) for folder in PurePosixPath(name).parents if str(folder) != "."]
    return rng.choice(folders) if folders else None
