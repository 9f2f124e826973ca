from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unified_profiler.delivery.run_writer import RunWriter
from unified_profiler.errors import SchemaVersionError, TraceFormatError
from unified_profiler.export import write
from unified_profiler.model.records import Manifest, TraceInfo
from unified_profiler.model.schema import SCHEMA_VERSION
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace
from unified_profiler.readers import read

GOLDEN = Path(__file__).parents[2] / "golden" / "kineto"


@pytest.fixture
def run_directory(trace: Trace, tmp_path: Path) -> Path:
    return make_run(tmp_path / "profile", "run", trace, started_ns=5)


def make_run(output_dir: Path, name: str, trace: Trace, *, started_ns: int) -> Path:
    for rank in (0, 1):
        writer = RunWriter(output_dir, name, rank)
        writer.write_trace(Trace(trace.events, trace.info.model_copy(update={"rank": rank, "run": name})))
        writer.write_manifest(
            Manifest(
                profiler_version="1",
                run=name,
                rank=rank,
                host="box",
                pid=1,
                python="3",
                platform="linux",
                started_ns=started_ns,
            )
        )
    return writer.path


def test_run_directory_gives_all_ranks(run_directory: Path) -> None:
    run = read(run_directory)
    assert run.ranks == [0, 1]
    assert run.path == run_directory


def test_path_may_be_text(run_directory: Path) -> None:
    assert read(str(run_directory)).ranks == [0, 1]


@pytest.mark.parametrize("below", ["rank-00001", "rank-00001/manifest.json"])
def test_directory_or_manifest_of_a_rank_gives_its_run(below: str, run_directory: Path) -> None:
    assert read(run_directory / below).path == run_directory


def test_manifest_is_found_from_inside_its_directory(run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run_directory / "rank-00000")
    assert read("manifest.json").ranks == [0, 1]


def test_parquet_of_a_run_gives_that_trace_alone(run_directory: Path) -> None:
    run = read(run_directory / "rank-00001" / "cycle-00000.parquet")
    assert [trace.info.rank for trace in run.traces] == [1]


def test_output_directory_with_one_run_gives_it(run_directory: Path) -> None:
    assert read(run_directory.parent).path == run_directory


def test_output_directory_with_several_runs_gives_the_one_started_last(
    run_directory: Path, trace: Trace, tmp_path: Path
) -> None:
    newest = make_run(tmp_path / "profile", "a", trace, started_ns=9)
    make_run(tmp_path / "profile", "z", trace, started_ns=2)
    assert read(tmp_path / "profile").path == newest


def test_a_run_whose_manifest_is_damaged_counts_as_oldest(run_directory: Path, trace: Trace, tmp_path: Path) -> None:
    damaged = make_run(tmp_path / "profile", "z", trace, started_ns=99)
    (damaged / "rank-00000" / "manifest.json").write_text("{")
    assert read(tmp_path / "profile").path == run_directory


@pytest.mark.parametrize(
    ("name", "rank", "world_size", "steps"),
    [
        ("alexnet_cuda", 0, 1, (None, None)),
        ("cpu_only_rank34", 34, 300, (551, 551)),
        ("mi250_train", 0, 1, (1, 2)),
        ("nccl_rank", 0, 2, (4, 6)),
    ],
)
def test_native_trace_gives_a_run_of_one_trace(
    name: str, rank: int, world_size: int, steps: tuple[int | None, int | None]
) -> None:
    path = GOLDEN / f"{name}.json.gz"
    (trace,) = read(path).traces
    info = trace.info
    assert (info.rank, info.world_size) == (rank, world_size)
    assert (info.first_step, info.last_step) == steps
    assert info.frameworks == {"torch": ""}
    assert info.source == str(path)
    assert info.event_count == len(trace.events) > 0


def test_native_trace_keeps_what_its_profiler_said_about_it() -> None:
    info = read(GOLDEN / "nccl_rank.json.gz").traces[0].info
    assert info.native["torch"]["distributedInfo"]["nccl_version"] == "2.17.1"


def test_process_of_a_native_trace_is_that_of_the_framework_not_a_device_number() -> None:
    assert read(GOLDEN / "alexnet_cuda.json.gz").traces[0].info.pid == 2869224


def test_native_trace_spans_its_events() -> None:
    trace = read(GOLDEN / "mi250_train.json.gz").traces[0]
    start = trace.events["start_ns"].to_numpy()
    assert trace.info.start_ns == start.min()
    assert trace.info.end_ns == (start + trace.events["duration_ns"].to_numpy()).max()


def test_native_trace_in_a_file_whose_name_is_no_utf8_is_read(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.json.gz")
    path.write_bytes((GOLDEN / "mi250_train.json.gz").read_bytes())
    source = read(path).traces[0].info.source
    assert source is not None
    assert source.endswith("\\udcff.json.gz")


def fails(path: Path, *words: str, error: type[TraceFormatError] = TraceFormatError) -> None:
    with pytest.raises(error) as caught:
        [trace.events for trace in read(path).traces]
    message = str(caught.value)
    assert str(path) in message
    for word in words:
        assert word in message


def test_missing_path(tmp_path: Path) -> None:
    fails(tmp_path / "nothing", "does not exist", "Expected a run directory", "native trace of", "torch")


def test_empty_directory(tmp_path: Path) -> None:
    fails(tmp_path, "holds no run; it holds nothing", "Expected a run directory")


def test_directory_of_other_things(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"file{number}.txt").touch()
    fails(tmp_path, "it holds file0.txt, file1.txt, file2.txt, file3.txt, file4.txt, ...")


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.parquet", "t"])
def test_empty_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    fails(tmp_path / name, "is empty")


def test_empty_gzip(tmp_path: Path) -> None:
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(b""))
    fails(tmp_path / "t.json.gz", "is empty")


@pytest.mark.parametrize("content", [b"hello", b"\x89PNG\r\n", b"\xff\xfe\x00"])
def test_unknown_format(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(content)
    fails(tmp_path / "t.json", "not a trace: it begins with", "Expected a run directory")


@pytest.mark.parametrize(
    ("document", "found"),
    [({"name": "x", "version": 2}, "keys ['name', 'version']"), ([1, 2, 3], "an array of 3 elements"), ({}, "keys []")],
)
def test_json_of_another_kind(document: Any, found: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(json.dumps(document))
    fails(tmp_path / "package.json", "JSON, but not a trace", found)


@pytest.mark.parametrize("text", ['{"name": "x", "ver', r'{"name": "\udc00\ud800"}', '{"name": "\udcff"}'])
def test_damaged_json_of_another_kind(text: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_bytes(text.encode(errors="surrogatepass"))
    fails(tmp_path / "package.json", "damaged JSON")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_truncated_native_trace(share: float, tmp_path: Path) -> None:
    text = gzip.decompress((GOLDEN / "mi250_train.json.gz").read_bytes())
    (tmp_path / "t.json").write_bytes(text[: int(len(text) * share)])
    fails(tmp_path / "t.json")


def test_truncated_gzip_of_a_native_trace(tmp_path: Path) -> None:
    packed = (GOLDEN / "nccl_rank.json.gz").read_bytes()
    (tmp_path / "t.json.gz").write_bytes(packed[: len(packed) // 2])
    fails(tmp_path / "t.json.gz")


def test_gzip_broken_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "t.json.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"garbage" * 20)
    fails(tmp_path / "t.json.gz", "damaged gzip")


def test_broken_gzip_of_our_json(trace: Trace, tmp_path: Path) -> None:
    path = write(trace, tmp_path / "t.json.gz")
    packed = bytearray(path.read_bytes())
    packed[-6] ^= 0xFF
    path.write_bytes(packed)
    fails(path, "damaged gzip")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_json_of_ours(share: float, trace: Trace, tmp_path: Path) -> None:
    path = write(trace, tmp_path / "t.json")
    text = path.read_bytes()
    path.write_bytes(text[: int(len(text) * share)])
    fails(path, "cut off")


def edit(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["unified_profiler"]["lanes"].clear(),
        lambda document: document["unified_profiler"].pop("traces"),
        lambda document: document["traceEvents"][-1].pop("args"),
        lambda document: document["traceEvents"][-1]["args"].pop("id"),
        lambda document: document["traceEvents"][-1]["args"].update(trace=3),
        lambda document: document["traceEvents"][-1].update(ts="soon"),
    ],
)
def test_json_of_ours_that_somebody_damaged(change: Any, trace: Trace, tmp_path: Path) -> None:
    path = write(trace, tmp_path / "t.json")
    edit(path, change)
    fails(path, "damaged")


def test_json_of_a_newer_schema_version(trace: Trace, tmp_path: Path) -> None:
    path = write(trace, tmp_path / "t.json")
    edit(path, lambda document: document["unified_profiler"]["traces"][0].update(schema_version=SCHEMA_VERSION + 1))
    fails(path, "pip install --upgrade", error=SchemaVersionError)


def test_parquet_of_a_newer_schema_version(trace: Trace, tmp_path: Path) -> None:
    write_parquet(Trace(trace.events, TraceInfo(schema_version=SCHEMA_VERSION + 1)), tmp_path / "t.parquet")
    fails(tmp_path / "t.parquet", "pip install --upgrade", error=SchemaVersionError)


def test_parquet_of_another_program(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    fails(tmp_path / "t.parquet", "not one written by unified_profiler")


@pytest.mark.parametrize("keep", [4, 200, -1])
def test_truncated_parquet(keep: int, trace: Trace, tmp_path: Path) -> None:
    path = write(trace, tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:keep])
    fails(path, "cannot be read; expected a Parquet file")


def test_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "t.json").symlink_to(tmp_path / "t.json")
    fails(tmp_path / "t.json")


def test_reading_imports_no_framework_and_no_pandas() -> None:
    import subprocess
    import sys

    pytest.importorskip("pandas")
    program = (
        "import sys; from unified_profiler.readers import read; "
        f"read({str(GOLDEN / 'mi250_train.json.gz')!r}); "
        "print(sorted({'torch', 'tensorflow', 'mindspore', 'duckdb', 'pandas'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
