"""What is pure of the torch runtime, and what both runtimes share."""

import pytest

from builder.generation.buckets import Buckets
from builder.generation.decoder import ExtraCompute


@pytest.mark.parametrize(
    ("smallest", "largest", "sizes"),
    [(1, 1, (1,)), (1, 8, (1, 2, 4, 8)), (1, 12, (1, 2, 4, 8, 12)), (256, 2048, (256, 512, 1024, 2048))],
)
def test_sizes_double_up_to_the_largest(smallest, largest, sizes):
    assert Buckets.doubling(smallest, largest) == Buckets(sizes)


def test_a_size_is_rounded_up_to_the_next_bucket():
    buckets = Buckets.doubling(1, 12)
    assert [buckets.holding(n) for n in (1, 2, 3, 5, 9, 12)] == [1, 2, 4, 8, 12, 12]


def test_extra_compute_is_owed_until_it_makes_a_whole_run():
    extra = ExtraCompute(150)
    assert [extra.runs("step") for _ in range(4)] == [2, 3, 2, 3]
    assert extra.runs("prefill") == 2, "each kind is counted by itself"
    assert [ExtraCompute(0).runs("step") for _ in range(2)] == [1, 1]
