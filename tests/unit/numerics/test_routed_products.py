"""Products of some rows only: kernels against definitions, and both against torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    run_kernel,
    run_reference,
    seeds,
    whole_numbers,
)

few = examples(20)
sizes = st.integers(1, 4)


@few
@given(seed=seeds, b=sizes, m=sizes, n=sizes, k=sizes, share=st.sampled_from([0, 1, 3]))
def test_masked_rows_and_their_gradients(seed, b, m, n, k, share):  # noqa: PLR0917 - drawn sizes
    x, w, dy = numbers(seed, (b, m, n)), numbers(seed + 1, (k, n)), numbers(seed + 2, (b, m, k))
    mask = np.minimum(whole_numbers(seed, (b, m), 0, share + 1), 1).astype(np.int16)
    forward = make_node("SparseActMatMul", x, mask, w)
    backward = make_node("SparseActMatMulGrad", dy, x, mask, w)
    assert_agree(forward, x, mask, w, atol=1e-5)
    assert_agree(backward, dy, x, mask, w, atol=1e-5)
    leaves = [torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)]
    y = (leaves[0] @ leaves[1].mT) * torch.tensor(mask)[..., None]
    same(run_kernel(forward, x, mask, w)[0], y)
    gradients = torch.autograd.grad(y, leaves, torch.tensor(dy))
    for found, wanted in zip(run_kernel(backward, dy, x, mask, w), gradients, strict=True):
        same(found, wanted)


@few
@given(seed=seeds, b=sizes, s=sizes, n=sizes, k=sizes, experts=sizes)
def test_chosen_matrices_and_their_gradients(seed, b, s, n, k, experts):  # noqa: PLR0917 - drawn
    x, dy = numbers(seed, (b, s, n)), numbers(seed + 2, (b, s, k))
    w, indices = numbers(seed + 1, (k, experts, n)), whole_numbers(seed, (b, s), 0, experts)
    forward = make_node("SparseMatMul", x, indices, w)
    backward = make_node("SparseMatMulGrad", dy, x, indices, w)
    assert_agree(forward, x, indices, w, atol=1e-5)
    assert_agree(backward, dy, x, indices, w, atol=1e-5)
    leaves = [torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)]
    chosen = leaves[1].movedim(1, 0)[torch.tensor(indices)]
    y = torch.einsum("bsn,bskn->bsk", leaves[0], chosen)
    same(run_kernel(forward, x, indices, w)[0], y)
    gradients = torch.autograd.grad(y, leaves, torch.tensor(dy))
    for found, wanted in zip(run_kernel(backward, dy, x, indices, w), gradients, strict=True):
        same(found, wanted)


@few
@given(seed=seeds, b=sizes, s=sizes, n=sizes, k=sizes)
def test_the_first_rows_of_each_sample_and_their_gradient(seed, b, s, n, k):
    x, w, dy = numbers(seed, (b, s, n)), numbers(seed + 1, (k, n)), numbers(seed + 2, (b, s, k))
    counts = whole_numbers(seed, (b,), 0, s + 1, dtype=np.int16)
    assert_agree(make_node("RangedMatMul", w, x, counts), w, x, counts, atol=1e-5)
    backward = make_node("RangedDMatMul", dy, x, counts)
    assert_agree(backward, dy, x, counts, atol=1e-5)
    within = torch.arange(s) < torch.tensor(counts)[:, None]
    weight = torch.tensor(w, requires_grad=True)
    y = (torch.tensor(x) @ weight.mT) * within[..., None]
    same(
        run_kernel(backward, dy, x, counts)[0], torch.autograd.grad(y, weight, torch.tensor(dy))[0]
    )


@pytest.mark.parametrize("index", [-1, 4])
@pytest.mark.parametrize("run", [run_kernel, run_reference])
def test_an_index_out_of_range_is_an_error(run, index):
    x, w = numbers(0, (2, 3)), numbers(1, (5, 4, 3))
    indices = np.array([0, index])
    with pytest.raises(ValueError, match=f"index {index} is out of range for 4 matrices"):
        run(make_node("SparseMatMul", x, indices, w), x, indices, w)


def same(found: np.ndarray, wanted: torch.Tensor) -> None:
    np.testing.assert_allclose(found, wanted.detach().numpy(), atol=1e-5)
