"""Operations that draw tokens: kernels against definitions, and definitions against torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from appliance.numerics import reference
from appliance.numerics.kernels import compile_node
from tests.unit.numerics.cases import examples, make_node, seeds, type_of


def probabilities(seed: int, rows: int, count: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.full(count, 0.5), size=rows).astype(np.float32)


def both(node, *operands: np.ndarray, step: int = 3) -> np.ndarray:
    """Return what the kernel computes, once the definition agrees."""
    kernel = compile_node(node, [type_of(x) for x in operands])
    tensors = [torch.from_numpy(x.copy()) for x in operands]
    found = kernel.call(*tensors, *([torch.tensor(step)] if kernel.reads_step else []))
    (wanted,) = reference.evaluate(node, operands, step=step)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), wanted)
    return wanted


@examples(30)
@given(seeds, st.integers(1, 4), st.integers(1, 9), st.data())
def test_fused_top_k_holds_values_as_bits_and_indices_of_torchs_top_k(seed, rows, count, data):
    k = data.draw(st.integers(1, count))
    x = probabilities(seed, rows, count)
    node = make_node("FusedTopK", x, shape=(rows, 2 * k), dtype=DType.I32, k=k, dimension=1)
    fused = both(node, x)
    values, indices = torch.topk(torch.from_numpy(x), k, dim=1)
    np.testing.assert_array_equal(
        np.ascontiguousarray(fused[:, 0::2]).view(np.float32), values.numpy()
    )
    np.testing.assert_array_equal(
        np.take_along_axis(x, fused[:, 1::2].astype(np.int64), 1),
        np.take_along_axis(x, indices.numpy(), 1),
    )


def sampled(x, k, p, u, *, first=None):
    """Return FusedTopP of FusedTopK, and the same drawn from values and indices apart."""
    rows, count = x.shape
    top = make_node("FusedTopK", x, shape=(rows, 2 * count), dtype=DType.I32, k=count, dimension=1)
    fused = both(top, x)
    column = np.full((rows, 1), p, np.float32), np.asarray(u, np.float32).reshape(rows, 1)
    limits = (*column, np.full((rows, 1), first or k, np.int32))
    node = make_node("FusedTopP", fused, *limits, shape=(rows, 1), dtype=DType.I32)
    drawn = both(node, fused, *limits)
    values = np.ascontiguousarray(fused[:, 0::2]).view(np.float32)
    apart = (values, np.ascontiguousarray(fused[:, 1::2]), *limits)
    node = make_node("FusedTopPDeinterleaved", *apart, shape=(rows, 1), dtype=DType.I32)
    np.testing.assert_array_equal(both(node, *apart), drawn)
    return drawn[:, 0]


@examples(30)
@given(seeds, st.integers(1, 4), st.integers(1, 9), st.floats(0.0, 1.0, width=32))
def test_top_p_draws_from_the_smallest_set_that_holds_p(seed, rows, count, p):
    x = probabilities(seed, rows, count)
    u = np.random.default_rng(seed + 1).random(rows)
    for row, index in enumerate(sampled(x, count, p, u)):
        larger = float(x[row][x[row] > x[row][index]].astype(np.float64).sum())
        assert larger < p or index == int(x[row].argmax())


def test_the_drawn_token_is_the_first_whose_running_sum_exceeds_the_random_part():
    x = np.array([[0.1, 0.5, 0.4]] * 4, np.float32)
    assert list(sampled(x, 3, 1.0, [0.0, 0.49, 0.51, 0.95])) == [1, 1, 2, 0]
    assert list(sampled(x, 3, 0.5, [0.0, 0.49, 0.51, 0.95])) == [1, 1, 1, 1]
    assert list(sampled(x, 3, 1.0, [0.0, 0.5, 0.6, 0.99], first=2)) == [1, 1, 2, 2]


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_samples_follow_the_weights_and_differ_by_step(replacement):
    weights = np.tile(np.array([1.0, 0.0, 2.0, 5.0], np.float32), (500, 1))
    node = make_node(
        "RandomMultinomial",
        weights,
        shape=(500, 2),
        dtype=DType.I64,
        num_samples=2,
        replacement=replacement,
        seed=-7,
        stream=1,
    )
    drawn = both(node, weights)
    assert not (drawn == 1).any()
    share = np.bincount(drawn[:, 0], minlength=4) / 500
    np.testing.assert_allclose(share, [0.125, 0.0, 0.25, 0.625], atol=0.08)
    assert (drawn[:, 0] == drawn[:, 1]).any() == replacement
    assert (both(node, weights, step=4) != drawn).any()


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_samples_do_not_depend_on_who_draws_them(replacement):
    weights = probabilities(1, 6, 5)
    attributes = {"num_samples": 2, "replacement": replacement, "seed": 5, "stream": 1}
    whole = both(
        make_node("RandomMultinomial", weights, shape=(6, 2), dtype=DType.I64, **attributes),
        weights,
    )
    share = make_node(
        "RandomMultinomial",
        weights[4:],
        shape=(2, 2),
        dtype=DType.I64,
        global_shape=(6, 2),
        axis=0,
        start=4,
        **attributes,
    )
    np.testing.assert_array_equal(both(share, weights[4:]), whole[4:])


def test_conditional_arange_counts_the_true_elements_of_each_row():
    mask = np.array([[0, 1, 1, 1, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0]], bool)
    node = make_node("ConditionalArange", mask, shape=mask.shape, dtype=DType.I32, start=2, step=7)
    assert both(node, mask).tolist() == [[0, 2, 9, 16, 0, 0, 23], [2, 0, 0, 0, 0, 0, 0]]


def test_next_tokens_puts_the_update_behind_the_index_and_drops_it_past_the_end():
    tokens = np.arange(8, dtype=np.int32).reshape(2, 4)
    index = np.array([[1], [3]], np.int32)
    update, stop = np.array([[90], [91]], np.int32), np.zeros((2, 1, 1), np.int32)
    node = make_node(
        "wsc.NextTokens",
        tokens,
        index,
        update,
        stop,
        shape=(2, 4),
        dtype=DType.I32,
        loop_dim=1,
        start_tokens=(0,),
        max_tokens=-1,
    )
    assert both(node, tokens, index, update, stop).tolist() == [[0, 1, 90, 3], [4, 5, 6, 7]]
