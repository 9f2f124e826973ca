"""From a format and a number to the files of a case: a seed and what was done to it."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.mutate_files import mutate_files
from tests.fuzz.mutate_protobuf import mutate_protobuf
from tests.fuzz.mutate_tables import mutate_arrow, mutate_parquet
from tests.fuzz.mutate_text import Mutation, mutate_bytes, mutate_json, mutate_lines, mutate_words
from tests.fuzz.seeds import seeds
from tests.fuzz.trees import Seed, Tree

_BY_NAME: dict[str, tuple[Mutation, ...]] = {
    ".json": (mutate_json, mutate_json, mutate_json, mutate_words, mutate_words, mutate_bytes),
    ".txt": (mutate_words, mutate_words, mutate_lines, mutate_lines, mutate_bytes),
    ".csv": (mutate_words, mutate_words, mutate_lines, mutate_lines, mutate_bytes),
    ".pb": (mutate_protobuf, mutate_protobuf, mutate_protobuf, mutate_bytes),
    ".arrow": (mutate_arrow,),
    ".parquet": (mutate_parquet,),
}
_OF_SEEDS_ONLY = frozenset({mutate_arrow, mutate_parquet})
"""Mutations that read what they mutate as it was meant, which only what is in order allows."""
_FOLDERS = frozenset({"mindspore", "run", "pending"})


@dataclass
class Case:
    """Files to be read."""

    read: str
    """The path that is read, relative to the directory of the case."""
    tree: Tree
    done: list[str] = field(default_factory=list)
    """What was done to the seed, in words."""


def make(name: str, number: int) -> Case:
    """Make a case. The numbers before the first mutation are the seeds themselves."""
    every = seeds(name)
    if number < len(every):
        return Case(every[number].read, dict(every[number].files), ["nothing"])
    rng = Random(f"{name} {number}")
    seed = rng.choice(every)
    case = Case(seed.read, dict(seed.files))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _mutate(rng, case, name, every)
    return case


def _mutate(rng: Random, case: Case, name: str, every: tuple[Seed, ...]) -> None:
    if case.tree and rng.random() < (0.2 if name in _FOLDERS else 0.01):
        before = case.tree.copy()
        mutate_files(rng, case.tree)
        changed = sorted(path for path in before.keys() | case.tree.keys() if before.get(path) != case.tree.get(path))
        case.done.append(f"files: {changed}")
        return
    files = [path for path, entry in case.tree.items() if isinstance(entry, bytes) and not path.endswith(".lock")]
    if not files:
        return
    path = rng.choice(files)
    content = case.tree[path]
    assert isinstance(content, bytes)
    in_order = any(content == seed.files.get(path) for seed in every)
    case.tree[path], done = _mutated(rng, path, content, every, in_order=in_order)
    case.done.append(f"{path}: {done}")


def _mutated(rng: Random, path: str, content: bytes, every: tuple[Seed, ...], *, in_order: bool) -> tuple[bytes, str]:
    if rng.random() < 0.05:
        return _spliced(rng, path, content, every), "splice"
    if content[:2] == b"\x1f\x8b" and rng.random() < 0.85:
        with suppress(OSError, EOFError, zlib.error):
            inner, done = _mutated(rng, path.removesuffix(".gz"), gzip.decompress(content), every, in_order=False)
            return gzip.compress(inner, compresslevel=1, mtime=0), f"{done} in gzip"
    suffix = "." + path.rpartition(".")[2]
    mutation = rng.choice(_BY_NAME.get(suffix, (mutate_bytes,)))
    if mutation in _OF_SEEDS_ONLY and not in_order:
        mutation = mutate_bytes
    return mutation(rng, content), mutation.__name__


def _spliced(rng: Random, path: str, content: bytes, every: tuple[Seed, ...]) -> bytes:
    """Put the beginning of one file before the end of another of its kind."""
    suffix = path.rpartition(".")[2]
    others = [other for seed in every for name, other in seed.files.items() if name.endswith(suffix)]
    other = rng.choice(others or [content])
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]
