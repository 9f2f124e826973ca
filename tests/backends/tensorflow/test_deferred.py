from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from unified_profiler.model.trace import Trace

BothWays = Callable[..., tuple[Trace, Trace]]


@pytest.mark.parametrize("flops", [False, True])
def test_another_process_makes_the_same_trace_of_a_function(both_ways: BothWays, flops: bool) -> None:
    weight = tf.Variable(tf.ones([16, 4]))
    compiled = tf.function(lambda x: tf.reduce_sum(x @ weight), autograph=False)
    compiled(tf.ones([2, 16]))
    delivered, left = both_ways(lambda: compiled(tf.ones([2, 16])), backend="tensorflow", with_flops=flops)
    assert left.info == delivered.info
    assert left.events.equals(delivered.events)
    assert "MatMul" in left.events.column("op").to_pylist()


def test_another_process_makes_the_same_trace_of_a_session(both_ways: BothWays, net: Any) -> None:
    delivered, left = both_ways(net.run, backend="tensorflow", profile_memory=True)
    assert left.info == delivered.info
    assert left.events.equals(delivered.events)
    assert "MatMul" in left.events.column("op").to_pylist()
