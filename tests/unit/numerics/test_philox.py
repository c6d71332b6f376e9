"""Random numbers depend on seed, stream, step and global place, and on nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from appliance.numerics.philox import philox
from appliance.numerics.reference.sources import philox as plain_philox
from tests.unit.numerics.cases import assert_agree, examples, make_node, run_kernel, shapes

few = examples(25)

# Source: Random123 (Salmon et al.), tests/kat_vectors, lines "philox4x32 10".
KNOWN_ANSWERS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_the_published_known_answers(counter, key, expected):
    assert plain_philox(counter, key) == expected
    words = philox(tuple(np.array([word], dtype=np.uint64) for word in counter), key)
    assert tuple(int(word[0]) for word in words) == expected


def uniform(shape, *, dtype=DType.F32, seed=1, stream=0, low=0.0, high=1.0, **place):
    return make_node(
        "RandomUniform",
        shape=shape,
        dtype=dtype,
        seed=seed,
        stream=stream,
        low=low,
        high=high,
        **place,
    )


def normal(shape, **place):
    return make_node(
        "RandomNormal",
        shape=shape,
        dtype=DType.F32,
        seed=1,
        stream=0,
        mean=1.0,
        deviation=2.0,
        **place,
    )


@few
@given(shape=shapes(max_rank=3), seed=st.integers(0, 2**63 - 1), step=st.integers(0, 2**31))
def test_kernel_and_definition_draw_the_same_numbers(shape, seed, step):
    node = uniform(shape, seed=seed, stream=3, low=-1.0, high=2.0)
    assert_agree(node, step=step, rtol=0, atol=1e-7)
    assert_agree(normal(shape), step=step, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.CB16])
def test_a_16_bit_draw_is_exact_and_below_one(dtype):
    node = uniform((4000,), dtype=dtype)
    (drawn,) = assert_agree(node, rtol=0, atol=0)
    assert 0 <= drawn.min() < 0.01
    assert 0.99 < drawn.max() < 1


@few
@given(data=st.data(), shape=shapes(min_rank=1, max_rank=3, min_size=1, max_size=7))
def test_shards_together_are_the_global_tensor(data, shape):
    axis = data.draw(st.integers(0, len(shape) - 1))
    cut = data.draw(st.integers(0, shape[axis]))
    for make in (uniform, normal):
        (whole,) = run_kernel(make(shape), step=5)
        parts = []
        for start, size in ((0, cut), (cut, shape[axis] - cut)):
            local = (*shape[:axis], size, *shape[axis + 1 :])
            node = make(local, global_shape=shape, axis=axis, start=start)
            parts.append(assert_agree(node, step=5, rtol=1e-5, atol=1e-5)[0])
            np.testing.assert_array_equal(
                run_kernel(node, step=5)[0],
                np.take(whole, range(start, start + size), axis=axis),
            )


def test_seed_stream_and_step_all_matter():
    draws = [
        run_kernel(uniform((64,), seed=seed, stream=stream), step=step)[0].tobytes()
        for seed, stream, step in [(1, 0, 0), (2, 0, 0), (1 + 2**32, 0, 0), (1, 1, 0), (1, 0, 1)]
    ]
    assert len(set(draws)) == len(draws)


def test_the_numbers_are_distributed_as_they_should_be():
    (flat,) = run_kernel(uniform((200_000,), low=-1.0, high=3.0))
    assert abs(flat.mean() - 1.0) < 0.01
    assert abs(flat.std() - 4 / np.sqrt(12)) < 0.01
    assert -1.0 <= flat.min() < flat.max() < 3.0
    (bell,) = run_kernel(normal((200_000,)))
    assert abs(bell.mean() - 1.0) < 0.02
    assert abs(bell.std() - 2.0) < 0.02
    assert abs(np.mean(np.abs(bell - 1.0) < 2.0) - 0.6827) < 0.01


def test_a_dropout_mask_keeps_what_it_should():
    (drawn,) = run_kernel(uniform((100_000,)))
    assert abs(np.mean(drawn < 0.9) - 0.9) < 0.005
