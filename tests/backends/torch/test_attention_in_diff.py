"""Attention that torch runs as single operators, beside a framework or model that has an operator for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unified_profiler as up
from unified_profiler.comparison.records import DiffRow

WIDTH, HEADS, WORDS, STEPS = 32, 4, 10, 3


class LibraryAttention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.attention, self.fused = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), fused

    def forward(self, words: Tensor) -> Any:
        return self.attention(words, words, words, need_weights=not self.fused)[0]


class HandwrittenAttention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Causal, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.packed, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, words: Tensor) -> Any:
        sentences = len(words)
        query, key, value = (
            part.view(sentences, WORDS, HEADS, -1).transpose(1, 2) for part in self.packed(words).split(WIDTH, dim=2)
        )
        scores = query @ key.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(torch.ones(WORDS, WORDS, dtype=torch.bool).triu(1), float("-inf"))
        attended = nn.functional.dropout(torch.softmax(scores, dim=-1), 0.1) @ value
        return self.output(attended.transpose(1, 2).reshape(sentences, WORDS, WIDTH))


class GatedNetwork(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """No attention: plain matrix products, with a softmax as the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.rand(WIDTH, WIDTH)) for _ in range(2))

    def forward(self, words: Tensor) -> Any:
        return torch.softmax(words @ self.first, dim=-1) @ self.second


def record(model: nn.Module, **options: Any) -> up.Trace:
    plan = up.schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with up.Profiler(backend="torch", schedule=plan, hardware_hz=0, **options) as prof:
        for _ in range(1 + STEPS):
            model(torch.rand(2, WORDS, WIDTH)).sum().backward()
            prof.step()
    return prof.traces[0]


@pytest.fixture(scope="module")
def fused() -> up.Trace:
    return record(LibraryAttention(fused=True))


def rows(diff: up.Diff) -> dict[tuple[str | None, str | None], DiffRow]:
    return {(row.name, row.direction): row for group in diff.rows for row in group.rows}


@pytest.mark.parametrize("options", [{}, {"record_shapes": True}, {"with_modules": True}])
@pytest.mark.parametrize("model", [LibraryAttention(fused=False), HandwrittenAttention()])
def test_attention_made_of_pieces_has_a_counterpart(model: nn.Module, options: dict[str, Any], fused: up.Trace) -> None:
    by_origin = rows(up.diff(record(model, **options), fused, by="origin"))
    for direction in ("forward", "backward"):
        row = by_origin["Attention", direction]
        assert row.baseline is not None
        assert row.candidate is not None
        assert (row.baseline.call_count, row.candidate.call_count) == (1, 1)
        assert ("Softmax", direction) not in by_origin
        assert ("MatMul", direction) not in by_origin
        products = by_origin["Gemm", direction].baseline
        assert products is not None
        assert products.call_count == 2  # the projections are no part of it


def test_pieces_are_compared_one_by_one_where_both_sides_have_them() -> None:
    by_origin = rows(up.diff(record(LibraryAttention(fused=False)), record(HandwrittenAttention()), by="origin"))
    assert ("Attention", "forward") not in by_origin
    assert {("Softmax", "forward"), ("MatMul", "forward"), ("Softmax", "backward")} <= by_origin.keys()


def test_a_softmax_between_plain_matrix_products_is_no_attention(fused: up.Trace) -> None:
    by_origin = rows(up.diff(record(GatedNetwork(), record_shapes=True), fused, by="origin"))
    assert by_origin["Attention", "forward"].baseline is None
    assert by_origin["Softmax", "forward"].baseline is not None


def test_all_time_stays_in_rows(fused: up.Trace) -> None:
    trace = record(HandwrittenAttention())
    with_fused, alone = (up.diff(trace, other, by="origin") for other in (fused, trace))
    assert with_fused.baseline.total_ns == alone.baseline.total_ns
    totals = [row.baseline.total_ns for row in rows(with_fused).values() if row.baseline is not None]
    assert sum(totals) == with_fused.baseline.total_ns
