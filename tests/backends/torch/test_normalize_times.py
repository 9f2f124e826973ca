"""Times are exact to the nanosecond, whatever their number of digits."""

from __future__ import annotations

import gzip
import json
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.normalizer import KinetoNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "kineto"


def normalized(path: Path) -> pa.Table:
    return KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))


def document(times: list[tuple[str, str]], *, category: str = "cpu_op") -> bytes:
    """Return a trace without a base whose times have exactly these digits."""
    event = '{{"ph":"X","cat":"{}","name":"a","pid":1,"tid":{},"ts":{},"dur":{},"args":{{}}}}'
    events = ",".join(event.format(category, tid, ts, dur) for tid, (ts, dur) in enumerate(times, 1))
    return f'{{"schemaVersion":1,"traceEvents":[{events}]}}'.encode()


def times(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table.column("start_ns").to_pylist(), table.column("duration_ns").to_pylist(), strict=True))


def exact(number: str) -> int:
    return int((Decimal(number) * 1000).to_integral_value(ROUND_HALF_EVEN))


@pytest.mark.parametrize("category", ["cpu_op", "kernel"])
@pytest.mark.parametrize(
    "number",
    [
        "1712195495519689.047",
        "1712195495519689.999",
        "1712195495519689",
        "1.712195495519689047e15",
        "1712195495519689047E-3",
        "1712195495519689.0470000000",
        "1712195495519689.04750000000001",
        "1712195495519689.0465",
        "8796093022208.001",
        "8796093022207.999",
        "12.0004999",
        "0.0015",
        "-1712195495519689.047",
    ],
)
def test_digits_are_kept(number: str, category: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(document([(number, "0.125"), ("5.25", "3")], category=category))
    assert times(normalized(path)) == [(exact(number), 125), (5250, 3000)]


def test_large_durations_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(document([("1.5", "17121954955196.047")]))
    assert times(normalized(path)) == [(1500, 17121954955196047)]


@pytest.mark.parametrize("name", sorted(file.name for file in GOLDEN.glob("*.json.gz")))
def test_a_trace_whose_times_count_from_the_epoch_has_the_times_of_the_same_trace_with_a_base(
    name: str, tmp_path: Path
) -> None:
    trace = json.loads(gzip.decompress((GOLDEN / name).read_bytes()), parse_float=Decimal)
    base = Decimal(trace.pop("baseTimeNanoseconds", 0)) / 1000
    entries = [{**entry, "ts": base + entry["ts"] + Decimal("0.007")} for entry in trace["traceEvents"]]
    path = tmp_path / "trace.json"
    path.write_text(with_decimals({**trace, "traceEvents": entries}), encoding="utf-8")
    expected = normalized(GOLDEN / name).column("start_ns").to_pylist()
    assert normalized(path).column("start_ns").to_pylist() == [start + 7 for start in expected]


def with_decimals(value: Any) -> str:
    """Encode JSON in which decimal numbers keep all their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{with_decimals(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(with_decimals, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


@pytest.mark.parametrize("number", ["1e30", "-1e30", "1e400", '"5"', "NaN", "null", "true", "99999999999999999999.5"])
def test_a_time_that_is_no_time_is_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(document([(number, "1")]))
    with pytest.raises(TraceFormatError):
        normalized(path)
