"""Arguments that only some files have are read in the same way as those of the layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read import kineto
from unified_profiler_torch.read.args import ArgsReader
from unified_profiler_torch.read.args_layouts import INPUTS, LEFT_OUT, NUMBERS, ArgsDecoder
from unified_profiler_torch.read.normalizer import KinetoNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "kineto"
Args = dict[str, Any]
Entry = dict[str, Any]

values = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.text(max_size=3), st.booleans(), st.none(), st.just([1, "x"]), st.just("12")
)
keys = st.sampled_from(
    [
        *sorted(NUMBERS), *sorted(LEFT_OUT), *INPUTS,
        *("Fwd thread id", "grid", "cbid", "cid", "context", "kind", "finished", "`$[7]`", "Module Hierarchy"),
    ]
)  # fmt: skip
categories = st.sampled_from(["cpu_op", "python_function", "kernel", "gpu_memcpy", "cuda_runtime", "mtia_ccp_events"])
entries = st.lists(st.tuples(categories, st.dictionaries(keys, values, max_size=6)), max_size=30)


def entry(category: str, args: Args, number: int) -> Entry:
    return {"ph": "X", "cat": category, "name": "n", "pid": 1, "tid": 2, "ts": 10 * number, "dur": 5, "args": args}


def normalized(events: list[Entry], folder: Path) -> list[Args]:
    """Return the rows of a trace, with the attributes as objects."""
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    table = KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))
    return [row | {"attributes": json.loads(row["attributes"] or "{}")} for row in table.to_pylist()]


@settings(max_examples=300)
@given(entries=entries)
def test_layouts_that_grow_read_what_dictionaries_contain(
    entries: list[tuple[str, Args]], tmp_path_factory: Any
) -> None:
    events = [entry(category, args, number) for number, (category, args) in enumerate(entries)]
    folder = tmp_path_factory.mktemp("args")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArgsDecoder, "decode", lambda _, texts: ([], list(range(len(texts)))))
        expected = normalized(events, folder)
    assert normalized(events, folder) == expected


@pytest.mark.parametrize("name", ["mi250_train", "nccl_rank"])
def test_events_of_accelerators_need_no_dictionaries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Args] = []
    read_any = ArgsReader.read_any

    def counting(reader: ArgsReader, args: Any) -> Any:
        rows.extend(args)
        return read_any(reader, args)

    monkeypatch.setattr(ArgsReader, "read_any", counting)
    KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(GOLDEN / f"{name}.json.gz",)))
    assert not [row for row in rows if "correlation" in row]


def test_a_key_with_a_column_that_holds_text_is_an_attribute_only_there(tmp_path: Path) -> None:
    streams: list[Any] = ["0x0", 7, "0x0", 8]
    events = [entry("cuda_runtime", {"stream": stream}, number) for number, stream in enumerate(streams)]
    rows = normalized(events, tmp_path)
    assert [row["stream"] for row in rows] == [None, 7, None, 8]
    assert [row["attributes"] for row in rows] == [{"stream": "0x0"}, {}, {"stream": "0x0"}, {}]


def test_a_file_with_a_new_key_in_every_event_is_read(tmp_path: Path) -> None:
    events = [entry("kernel", {f"key {number}": number, "device": 0, "stream": 1}, number) for number in range(300)]
    rows = normalized(events, tmp_path)
    assert [row["attributes"] for row in rows] == [{f"key {number}": number} for number in range(300)]


def test_blocks_of_a_file_in_another_layout_are_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [entry("kernel", {"device": 0, "stream": number, "kind": "k"}, number) for number in range(50)]
    expected = normalized(events, tmp_path)
    monkeypatch.setattr(kineto, "_EVENTS_PER_BLOCK", 7)
    assert normalized(events, tmp_path) == expected
    assert [row["stream"] for row in expected] == list(range(50))


def test_of_repeated_names_of_a_process_the_last_counts(tmp_path: Path) -> None:
    names = ["first", "second", "first"]
    metadata = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": name}} for name in names
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*metadata, entry("cpu_op", {}, 1)]}))
    table = KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))
    assert json.loads(table.schema.metadata[b"native"])["processes"] == {"1": {"name": "first"}}
