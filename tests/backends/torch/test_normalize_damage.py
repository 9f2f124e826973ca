"""Files that are broken, foreign or unusual."""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.normalizer import KinetoNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "kineto" / "mi250_train.json.gz"
ADD = {
    "ph": "X",
    "cat": "cpu_op",
    "name": "aten::add",
    "pid": 1,
    "tid": 2,
    "ts": 5.0,
    "dur": 1.5,
    "args": {"Ev Idx": 1},
}

Normalize = Callable[[bytes], pa.Table]


@pytest.fixture
def normalize(tmp_path: Path) -> Normalize:
    def run(text: bytes) -> pa.Table:
        path = tmp_path / "trace.json"
        path.write_bytes(text)
        return KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))

    return run


def one(entry: dict[str, Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": [entry]}).encode()


@pytest.mark.parametrize("text", [b"", b"  \n "])
def test_an_empty_file_is_named_so(text: bytes, normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match="is empty"):
        normalize(text)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_a_truncated_file_is_named_so(share: float, normalize: Normalize) -> None:
    whole = gzip.decompress(GOLDEN.read_bytes())
    with pytest.raises(TraceFormatError, match="truncated"):
        normalize(whole[: int(len(whole) * share)])


def test_a_broken_gzip_is_named_so(normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match="damaged gzip"):
        normalize(GOLDEN.read_bytes()[:3000])


def test_a_gzip_with_wrong_contents_is_named_so(normalize: Normalize) -> None:
    data = bytearray(GOLDEN.read_bytes())
    data[2000:2100] = bytes(100)
    with pytest.raises(TraceFormatError, match="damaged gzip"):
        normalize(bytes(data))


@pytest.mark.parametrize("text", [b'{"a": 1}', b"3", b'"text"', b'{"traceEvents": 7}'])
def test_foreign_json_is_refused_with_what_is_missing(text: bytes, normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match="not a Kineto trace"):
        normalize(text)


def test_text_that_is_no_json_is_refused_with_the_location(normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match=r"not valid JSON.*hello"):
        normalize(b"hello world")


def test_events_of_another_shape_are_refused(normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match="unexpected structure"):
        normalize(one({"ph": "X", "ts": "yesterday"}))


def test_a_missing_file_is_a_format_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="cannot be read"):
        KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(tmp_path / "none.json",)))


def test_two_files_are_no_capture(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="one Kineto file"):
        KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(tmp_path, tmp_path)))


def test_the_garbage_collector_is_on_after_a_failure(normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError):
        normalize(one({"ph": "X", "ts": "yesterday"}))
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("a.json", b'{"hello": "world"}'),
        ("b.json", b""),
        ("c.json.gz", b"\x1f\x8b broken"),
        ("d.parquet", b"PAR1"),
        ("e.json", b'[{"ph": "X", "name": "some other profiler"}]'),
    ],
)
def test_foreign_files_are_not_recognized(name: str, contents: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(contents)
    assert not KinetoNormalizer().recognizes(path)


def test_neither_directories_nor_missing_files_are_recognized(tmp_path: Path) -> None:
    assert not KinetoNormalizer().recognizes(tmp_path)
    assert not KinetoNormalizer().recognizes(tmp_path / "none.json")


def test_a_trace_without_events_gives_an_empty_table(normalize: Normalize) -> None:
    assert len(normalize(b'{"schemaVersion": 1, "traceEvents": []}')) == 0


def test_a_bare_array_of_events_is_read(normalize: Normalize) -> None:
    assert normalize(json.dumps([ADD]).encode()).column("name").to_pylist() == ["aten::add"]


def test_the_layout_of_the_file_does_not_matter(normalize: Normalize) -> None:
    text = gzip.decompress(GOLDEN.read_bytes())
    rewritten = json.dumps(json.loads(text), indent=None).encode()
    assert normalize(rewritten).equals(normalize(text), check_metadata=True)


def test_many_blocks_give_what_one_gives(normalize: Normalize, monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.decompress(GOLDEN.read_bytes())
    whole = normalize(text)
    monkeypatch.setattr("unified_profiler_torch.read.kineto._BLOCK", 1000)
    assert normalize(text).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize(
    "layout", ['"name": "%s",\n    "pid": 1,\n    "tid": 2,', '"name": "%s", "pid": 1, "tid": 2,\n']
)
@pytest.mark.parametrize("name", ['say "hi"', 'comma", "pid": 3', '"', 'a "b" c\\', "plain", "tab\tand \x01"])
def test_names_that_were_not_escaped_are_repaired(name: str, layout: str, normalize: Normalize) -> None:
    text = '{"schemaVersion": 1,\n  "traceEvents": [\n  {\n    "ph": "X",\n    "cat": "user_annotation",\n    '
    text += layout % name + '\n    "ts": 5.0,\n    "dur": 1.5\n  }\n  ],"traceName": "t" }'
    assert normalize(text.encode()).column("name").to_pylist() == [name]


def test_names_that_are_no_utf8_are_repaired(normalize: Normalize) -> None:
    text = one(ADD).replace(b"aten::add", b"x\xff")
    assert normalize(text).column("name").to_pylist() == ["x\ufffd"]


def test_arguments_that_are_no_utf8_are_refused(normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match="UTF-8"):
        normalize(one(ADD | {"args": {"dtype": "bad"}}).replace(b"bad", b"\xff"))


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "-nan", "NaN", "Infinity"])
def test_numbers_that_json_has_not_become_text(number: str, normalize: Normalize) -> None:
    text = one(ADD | {"cat": "gpu_memcpy", "args": {"memory bandwidth (GB/s)": 7}}).replace(
        b": 7", f": {number}".encode()
    )
    assert json.loads(normalize(text).column("attributes")[0].as_py()) == {"memory bandwidth (GB/s)": number}


def test_unknown_arguments_become_attributes(normalize: Normalize) -> None:
    args = {"Ev Idx": 1, "Sequence number": 4, "New key": [1, {"a": "b"}]}
    event = normalize(one(ADD | {"args": args})).to_pylist()[0]
    assert json.loads(event["attributes"]) == {"New key": [1, {"a": "b"}]}
    assert event["sequence_id"] == 4


def test_unknown_categories_are_kept_as_runtime_events(normalize: Normalize) -> None:
    event = normalize(one(ADD | {"cat": "quantum_op"})).to_pylist()[0]
    assert (event["layer"], event["kind"], event["attributes"]) == ("runtime", "runtime", '{"cat":"quantum_op"}')


def test_unknown_arrows_are_kept(normalize: Normalize) -> None:
    arrow = {"ph": "s", "cat": "news", "name": "n", "id": 3, "pid": 1, "tid": 2, "ts": 1.0}
    event = normalize(one(arrow)).to_pylist()[0]
    assert json.loads(event["attributes"]) == {"ph": "s", "cat": "news", "id": 3}


def test_lanes_named_by_words_get_numbers_of_their_own(normalize: Normalize) -> None:
    lanes = [ADD, ADD | {"pid": "Spans", "tid": "one"}, ADD | {"pid": "Spans", "tid": "two"}, ADD | {"tid": "stream 7"}]
    table = normalize(json.dumps({"schemaVersion": 1, "traceEvents": lanes}).encode())
    assert table.column("pid").to_pylist() == [1, 1, 1, 1]
    assert len(set(table.column("tid").to_pylist())) == 4
    assert table.column("tid")[3].as_py() == 7
    assert table.column("thread").to_pylist() == [None, "one", "two", "stream 7"]


# --- values that no column can hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"ts": 1e300},
        {"ts": -1e300},
        {"ts": 4.7e15},
        {"dur": 1e300},
        {"dur": -1.0},
        {"args": [1]},
    ],
)
def test_times_and_events_that_cannot_be_are_damage(change: dict[str, Any], normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match=r"trace\.json"):
        normalize(one(ADD | change))


@pytest.mark.parametrize("event", [7, "text", None, [], [ADD], True])
def test_an_event_that_is_no_object_is_named_by_its_position(event: Any, normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match=r"unexpected structure .* at `\$\[1\]`"):
        normalize(json.dumps({"schemaVersion": 1, "traceEvents": [ADD, event]}).encode())


def test_an_event_in_a_later_block_is_counted_from_the_first_of_the_block(
    normalize: Normalize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unified_profiler_torch.read.kineto._BLOCK", 200)
    events = ",\n  ".join("{\n    " + json.dumps(ADD | change)[1:-1] + "\n  }" for change in [{}, {}, {"ts": "x"}])
    with pytest.raises(TraceFormatError, match="counted from event 2"):
        normalize(('{"schemaVersion": 1,\n  "traceEvents": [\n  ' + events + "\n  ]}").encode())


@pytest.mark.parametrize("size", [7, 100, 1000, 5000, 1 << 16])
def test_the_size_of_blocks_makes_no_difference(
    size: int, normalize: Normalize, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = gzip.decompress(GOLDEN.read_bytes())
    whole = normalize(text)
    monkeypatch.setattr("unified_profiler_torch.read.kineto._BLOCK", size)
    assert normalize(text).equals(whole)
    assert normalize(gzip.compress(text)).equals(whole)


def test_a_list_of_objects_behind_the_events_is_part_of_the_header(
    normalize: Normalize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unified_profiler_torch.read.kineto._BLOCK", 200)
    event, *devices = (
        "{\n    " + json.dumps(entry)[1:-1] + "\n  }" for entry in (ADD, *({"id": number} for number in range(9)))
    )
    footer = '"devices": [\n  ' + ",\n  ".join(devices) + "\n  ]"
    table = normalize(('{"schemaVersion": 1, "traceEvents": [\n  ' + event + "\n  ], " + footer + "}").encode())
    assert len(table) == 1
    assert len(json.loads(table.schema.metadata[b"native"])["devices"]) == 9


@pytest.mark.parametrize(
    "header",
    [
        {"baseTimeNanoseconds": 10**400},
        {"baseTimeNanoseconds": 1 << 63},
        {"baseTimeNanoseconds": "soon"},
        {"baseTimeNanoseconds": [1]},
        {"distributedInfo": [1]},
        {"distributedInfo": "text"},
    ],
)
def test_headers_of_another_shape_are_damage(header: dict[str, Any], normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match=r"trace\.json cannot be read; expected a Kineto trace"):
        normalize(json.dumps({"schemaVersion": 1, **header, "traceEvents": [ADD]}).encode())


@pytest.mark.parametrize("rank", [1 << 31, -1, "0", 1.5, True, None])
def test_a_rank_that_is_none_is_unknown(rank: Any, normalize: Normalize) -> None:
    document = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": [ADD]}
    assert normalize(json.dumps(document).encode()).column("rank").to_pylist() == [None]


@pytest.mark.parametrize("text", [b"[" * 200_000, b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000])
@pytest.mark.parametrize("location", [b'"HERE"', b'"Ev Idx": 1'])
def test_values_that_are_nested_without_end_are_damage(location: bytes, text: bytes, normalize: Normalize) -> None:
    document = {"schemaVersion": 1, "header": "HERE", "traceEvents": [ADD]}
    value = text if location == b'"HERE"' else b'"x": ' + text
    with pytest.raises(TraceFormatError, match=r"trace\.json"):
        normalize(json.dumps(document).encode().replace(location, value))


def test_ids_that_no_column_holds_are_unknown_and_stay_in_the_attributes(normalize: Normalize) -> None:
    args = {"Sequence number": 1 << 63, "correlation": -(1 << 63), "Bytes": 10**30}
    event = normalize(one(ADD | {"args": args})).to_pylist()[0]
    assert (event["sequence_id"], event["correlation_id"], event["bytes"]) == (None, None, None)
    assert json.loads(event["attributes"]) == args


@pytest.mark.parametrize("number", [1 << 62, 10**30, -(1 << 63), f"stream {10**30}"])
def test_a_thread_that_no_column_holds_gets_a_lane_of_its_own(number: Any, normalize: Normalize) -> None:
    table = normalize(
        json.dumps({"schemaVersion": 1, "traceEvents": [ADD, ADD | {"pid": number, "tid": number}]}).encode()
    )
    assert table.column("pid").to_pylist() == [1, 1]
    assert len(set(table.column("tid").to_pylist())) == 2


def test_a_step_beyond_all_counting_is_a_region(normalize: Normalize) -> None:
    text = one(ADD | {"cat": "user_annotation", "name": "ProfilerStep#99999999999"})
    event = normalize(text).to_pylist()[0]
    assert (event["kind"], event["step"]) == ("region", None)


@pytest.mark.parametrize("shape", [["x" * 1000, 10**9], [10**400, 10**400], [[1] * 1000, 10**9], [1.5, 2]])
def test_shapes_that_are_none_have_no_flops(shape: list[Any], normalize: Normalize) -> None:
    args = {"Input Dims": [shape, shape], "Input type": ["float", "float"]}
    document = {"schemaVersion": 1, "with_flops": 1, "traceEvents": [ADD | {"name": "aten::mul", "args": args}]}
    assert normalize(json.dumps(document).encode()).column("flops").to_pylist() == [None]


def test_a_long_line_of_names_is_looked_through_once(normalize: Normalize) -> None:
    """Once for each name, it would take hours: the limit for this test is some minutes."""
    events = b'{"name": "aten::add", "cat": "cpu_op", "ts": 1}, ' * 60_000
    with pytest.raises(TraceFormatError, match=r"not valid JSON|truncated"):
        normalize(b'{"schemaVersion": 1, "traceEvents": [' + events)
