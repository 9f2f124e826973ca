"""Seeds of the native formats: small, so that many mutations can be read, and with an event of every kind."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.own_seeds import chrome, pending, run
from tests.fuzz.trees import Seed
from unified_profiler_tensorflow.read.run_metadata.messages import messages

_GOLDEN = Path(__file__).parents[1] / "golden"
_MORE = "FUZZ_SEEDS"
"""Environment variable: a directory with a folder per format, of files that are seeds, too."""
_LINES = 12
"""As many lines are taken of the tables of a golden file."""


@cache
def seeds(name: str) -> tuple[Seed, ...]:
    """Return the seeds of a format."""
    more = Path(os.environ.get(_MORE, "missing")) / name
    return (*_MAKERS[name](), *(_file(file.name, file.read_bytes()) for file in sorted(more.glob("*.*"))))


def _kineto() -> list[Seed]:
    found = []
    for name in ("alexnet_cuda", "cpu_only_rank34", "mi250_train"):
        document = json.loads(gzip.decompress((_GOLDEN / "kineto" / f"{name}.json.gz").read_bytes()))
        text = _in_layout(_small(document))
        found += [_file("trace.json", text), _file("trace.json.gz", gzip.compress(text, mtime=0))]
    place = {"pid": 1, "tid": 1}
    span, frame = {"ph": "X", "cat": "user_annotation", **place}, {"ph": "X", "cat": "python_function", **place}
    inputs = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    memory = {"Bytes": 64, "Total Allocated": 128, "Device Type": 0, "Device Id": -1, "Addr": 7}
    frames = [
        span | {"name": "ProfilerStep#3", "ts": 1.0, "dur": 90.0},
        frame | {"name": "train.py(3): f", "ts": 2.0, "dur": 80.0},
        frame | {"name": "nn.Module: Linear_0", "ts": 3.0, "dur": 70.5},
        {"ph": "X", "cat": "cpu_op", **place, "name": "aten::mm", "ts": 4.0, "dur": 60.0}
        | {"args": {"External id": 1, "Sequence number": 1, **inputs}},
        {"ph": "i", "cat": "cpu_instant_event", **place, "name": "[memory]", "ts": 5.0, "s": "t", "args": memory},
    ]
    text = _in_layout({"schemaVersion": 1, "with_flops": 1, "traceEvents": frames})
    return [*found, _file("trace.json", text), _file("trace.json", json.dumps(frames).encode())]


def _small(document: Mapping[str, Any]) -> dict[str, Any]:
    """Keep two events of every phase and category, and the short parts of the header."""
    kept: dict[Any, list[Any]] = {}
    for event in document["traceEvents"]:
        same = kept.setdefault((event.get("ph"), event.get("cat")), [])
        if len(same) < 2:
            same.append(event)
    header = {key: value for key, value in document.items() if len(json.dumps(value)) < 200}
    if "distributedInfo" in document:
        info = document["distributedInfo"]
        header["distributedInfo"] = {key: info[key] for key in ("backend", "rank", "world_size") if key in info}
    header["deviceProperties"] = document["deviceProperties"][:1]
    return header | {"traceEvents": [event for same in kept.values() for event in same]}


def _in_layout(document: Mapping[str, Any]) -> bytes:
    """Write a document with line ends where Kineto has them."""
    events = ",\n  ".join("{\n    " + json.dumps(event)[1:-1] + "\n  }" for event in document["traceEvents"])
    head = {key: value for key, value in document.items() if key != "traceEvents"}
    return (json.dumps(head)[:-1] + ',\n  "traceEvents": [\n  ' + events + '\n  ],\n  "traceName": "t"\n}').encode()


def _xplane() -> list[Seed]:
    names = ("eager", "xla", "frames")
    found = [_file("host.xplane.pb", (_GOLDEN / "xplane" / f"{name}.xplane.pb").read_bytes()) for name in names]
    folder = "plugins/profile/2025_01_02_10_00_00"
    return [*found, Seed({f"{folder}/{name}.xplane.pb": found[0].files["host.xplane.pb"] for name in "ab"}, ".")]


def _run_metadata() -> list[Seed]:
    multiply = (_GOLDEN / "run_metadata" / "multiply.pb").read_bytes()
    timeline = (_GOLDEN / "run_metadata" / "multiply_timeline.json").read_bytes()
    entry = {"file": "run-00000.pb", "graph": "g", "step": 3, "start_ns": 10**18, "end_ns": 10**18 + 10**9, "thread": 7}
    note = {
        "names": {"multiply": [["layer", "Dense"]]},
        "roots": {"x": "metric"},
        "nodes": {"multiply": [{"result": [2, 2]}]},
    }
    recorded = {
        "run_metadata/run-00000.pb": multiply,
        "run_metadata/runs.json": json.dumps([entry]).encode(),
        "live_objects.json": json.dumps(note).encode(),
    }
    gpu = _gpu_stats().SerializeToString()
    return [_file("run.pb", multiply), _file("run.pb", gpu), _file("timeline.json", timeline), Seed(recorded, ".")]


def _gpu_stats() -> Any:
    """Return the StepStats of a processor and two streams of an accelerator, as versions before RunMetadata have it."""
    kinds = messages()
    node = {"node_name": "a/MatMul", "all_start_micros": 10**15, "op_end_rel_micros": 5, "all_end_rel_micros": 6}
    memory = {"allocator_name": "GPU_0_bfc", "total_bytes": 64, "allocation_records": [{"alloc_micros": 10**15}]}
    on_host = node | {"timeline_label": "[GPU_0_bfc 1MB] a/MatMul = MatMul(x, y)", "memory": [memory]}
    on_stream = node | {"timeline_label": "sgemm regs:32 grid:1,1,1@@a/MatMul:MatMul"}
    copy = node | {"timeline_label": "MEMCPYHtoD bytes:64"}
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    streams = {device: on_host, f"{device}/stream:14": on_stream, f"{device}/memcpy": copy}
    return kinds["StepStats"](dev_stats=[{"device": name, "node_stats": [stats]} for name, stats in streams.items()])


def _mindspore() -> list[Seed]:
    golden = _GOLDEN / "mindspore"
    host = _folder(golden / "memory_ascend_ms", lines=_LINES)
    launches = b"Default/fc-Dense/MatMul-op0;HostCpuOps;1794806718576143709,0.07,0 1794806719112227103,27.5,0 \n"
    launches += b"Expand/_MatMulExt/Mul-op3;HostCpuOps;1794806718586143709,0.07,0 \n"
    shapes = b"MatMul;MatMul-op0;1;input_1:[8, 4];input_2:[3, 4];\n" * 2 + b"Mul;Mul-op3;1;input_1:NoShape;\n"
    native = {
        "cpu_op_execute_timestamp_0.txt": launches,
        "cpu_framework_0.txt": shapes,
        "unified_profiler_graph_0.pb": _graph(),
    }
    note = {
        "framework_version": "2.10.0",
        "pid": 12,
        "start_ns": 1794806718000000000,
        "stop_ns": 1794806720000000000,
        "sizes_bytes": {},
        "spans": [["backward", 1794806718580000000, 1794806719000000000], ["update", 5, 6, "Adam"]],
        "bases": {"Mine": ["Dense"]},
        "with_flops": True,
    }
    noted = Seed(native | {"unified_profiler.json": json.dumps(note).encode()}, ".")
    return [host, Seed(host.files, "FRAMEWORK"), _folder(golden / "made_up_ascend_ms"), noted]


def _graph() -> bytes:
    """Write a graph of three operators, of which one only passes on what it is given."""

    def field(number: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes([number << 3 | 2, len(content)]) + content

    def operator(key: bytes, kind: bytes, name: bytes, inputs: list[bytes]) -> bytes:
        taken = [field(1, field(1, one)) for one in inputs]
        shape = field(6, field(2, field(2, field(1, b"\x08\x08"), field(1, b"\x08\x04"))))
        return field(1, *taken, field(2, key), field(3, kind), shape, field(8, name))

    product = operator(b"1", b"MatMulExt", b"Default/fc-Dense/MatMulExt-op0", [b"x", b"w"])
    load = operator(b"2", b"Load", b"Default/Load-op0", [b"1", b"2"])
    total = operator(b"3", b"Add", b"Default/fc-Dense/Add-op0", [b"2", b"x"])
    parameters = [
        field(3, field(1, name), field(2, field(2, field(2, field(1, b"\x08\x04"))))) for name in (b"x", b"w")
    ]
    return _long_field(4, product + load + total + b"".join(parameters))


def _long_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content) & 127 | 128, len(content) >> 7]) + content


def _file(name: str, content: bytes) -> Seed:
    return Seed({name: content}, name)


def _folder(folder: Path, *, lines: int | None = None) -> Seed:
    files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*.*"))}
    return Seed({name: b"".join(text.splitlines(keepends=True)[:lines]) for name, text in files.items()}, ".")


_MAKERS: dict[str, Callable[[], list[Seed]]] = {
    "kineto": _kineto,
    "xplane": _xplane,
    "run_metadata": _run_metadata,
    "mindspore": _mindspore,
    "run": run,
    "pending": pending,
    "chrome": chrome,
}
FORMATS = tuple(_MAKERS)
