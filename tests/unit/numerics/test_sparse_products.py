"""Products with sparse matrices against the definition: the dense product in double precision."""

import shutil
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.numerics.sparse.matrices import (
    Pattern,
    SparseMatrix,
    full_pattern,
    pattern_of,
    pattern_of_bits,
    sparse_matrix,
)
from appliance.numerics.sparse.native import build
from appliance.numerics.sparse.sparse_products import product, sampled_product
from tests.unit.numerics.cases import examples, numbers, seeds

some = examples(60)
samples = st.sampled_from([0, 1, 15, 16, 17, 63, 64, 65, 130, 200])
features = st.sampled_from([1, 2, 15, 16, 17, 33, 70])
densities = st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0])


def masked(seed: int, shape: tuple[int, int], density: float) -> torch.Tensor:
    """Return a matrix of which about so much is not zero."""
    kept = np.random.default_rng(seed + 7).random(shape) < density
    return torch.from_numpy(np.where(kept, numbers(seed, shape), 0).astype(np.float32))


def given_numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(numbers(seed, shape))


def close(found: torch.Tensor, wanted: torch.Tensor, terms: int) -> None:
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=2e-6 * (1 + terms))


@some
@given(seed=seeds, t=samples, rows=features, columns=features, density=densities)
def test_a_product_is_that_with_the_dense_matrix(seed, t, rows, columns, density):
    w, x = masked(seed, (rows, columns), density), given_numbers(seed + 1, t, columns)
    close(product(x, sparse_matrix(w)), x.double() @ w.double().T, columns)


@some
@given(seed=seeds, t=samples, rows=features, columns=features, density=densities)
def test_the_gradient_of_the_input_is_a_product_with_the_transposed_matrix(
    seed, t, rows, columns, density
):
    w, dy = masked(seed, (rows, columns), density), given_numbers(seed + 1, t, rows)
    close(product(dy, sparse_matrix(w).transposed()), dy.double() @ w.double(), rows)


@some
@given(seed=seeds, t=samples, rows=features, columns=features, density=densities)
def test_the_gradient_of_the_matrix_is_taken_where_it_is_not_zero(seed, t, rows, columns, density):
    w = masked(seed, (rows, columns), density)
    dy, x = given_numbers(seed + 1, t, rows), given_numbers(seed + 2, t, columns)
    pattern = pattern_of(w)
    wanted = (dy.double().T @ x.double()).reshape(-1)[pattern.places()]
    close(sampled_product(dy, x, pattern), wanted, t)


@some
@given(seed=seeds, rows=features, columns=features, density=densities)
def test_a_matrix_comes_back_from_its_values_and_transposed_twice(seed, rows, columns, density):
    w = masked(seed, (rows, columns), density)
    matrix = sparse_matrix(w)
    matrix.pattern.verify()
    torch.testing.assert_close(matrix.dense(), w, rtol=0, atol=0)
    other = matrix.transposed()
    other.pattern.verify()
    torch.testing.assert_close(other.dense(), w.T, rtol=0, atol=0)
    torch.testing.assert_close(other.transposed().values, matrix.values, rtol=0, atol=0)


@some
@given(seed=seeds, rows=features, columns=features, density=densities)
def test_a_bitmap_and_a_full_matrix_have_patterns(seed, rows, columns, density):
    w = masked(seed, (rows, columns), density)
    wanted = pattern_of(w)
    packed = torch.from_numpy(np.packbits((w != 0).numpy().reshape(-1), bitorder="little"))
    shape = {"num_rows": rows, "num_columns": columns}
    found = pattern_of_bits(packed, num_values=wanted.num_values, **shape)
    assert torch.equal(found.offsets, wanted.offsets)
    assert torch.equal(found.columns, wanted.columns)
    full, all_of_it = full_pattern(rows, columns), pattern_of(torch.ones(rows, columns))
    assert torch.equal(full.offsets, all_of_it.offsets)
    assert torch.equal(full.columns, all_of_it.columns)


def test_a_bitmap_with_other_ones_than_it_was_said_to_have_is_refused():
    bits = torch.tensor([0b1011, 0], dtype=torch.uint8)
    for count in (2, 4):
        with pytest.raises(ValueError, match=f"not the {count} ones"):
            pattern_of_bits(bits, num_rows=4, num_columns=4, num_values=count)
    with pytest.raises(ValueError, match="has 2 bytes"):
        pattern_of_bits(bits, num_rows=4, num_columns=5, num_values=3)


def test_results_are_added_to_what_is_there():
    w, x, dy = masked(3, (40, 50), 0.2), given_numbers(4, 70, 50), given_numbers(5, 70, 40)
    matrix = sparse_matrix(w)
    alone, gradient = product(x, matrix), sampled_product(dy, x, matrix.pattern)
    out, total = given_numbers(6, 70, 40), given_numbers(7, matrix.pattern.num_values)
    wanted, wanted_total = out + alone, total + gradient
    product(x, matrix, out=out, accumulate=True)
    sampled_product(dy, x, matrix.pattern, out=total, accumulate=True)
    torch.testing.assert_close(out, wanted, rtol=0, atol=0)
    torch.testing.assert_close(total, wanted_total, rtol=1e-6, atol=1e-6)


def test_more_samples_than_are_packed_at_a_time_are_all_counted():
    w, x, dy = masked(3, (20, 30), 0.3), given_numbers(4, 2500, 30), given_numbers(5, 2500, 20)
    pattern = pattern_of(w)
    wanted = (dy.double().T @ x.double()).reshape(-1)[pattern.places()]
    close(sampled_product(dy, x, pattern), wanted, 100)


def test_samples_may_lie_apart_and_have_any_leading_axes():
    matrix = sparse_matrix(masked(3, (40, 50), 0.2))
    whole = given_numbers(4, 3, 7, 90)
    x = whole[..., 20:70]
    found = product(x, matrix)
    assert found.shape == (3, 7, 40)
    torch.testing.assert_close(found, product(x.contiguous(), matrix), rtol=0, atol=0)
    turned = given_numbers(4, 50, 21).T
    torch.testing.assert_close(
        product(turned, matrix), product(turned.contiguous(), matrix), rtol=0, atol=0
    )


def test_wide_matrices_have_columns_of_32_bits():
    columns = (1 << 16) + 3
    w = torch.zeros(3, columns)
    w[0, 0], w[1, columns - 1], w[2, 1 << 16] = 1.0, 2.0, 3.0
    matrix, x, dy = sparse_matrix(w), given_numbers(1, 5, columns), given_numbers(2, 5, 3)
    assert matrix.pattern.columns.dtype is torch.uint32
    close(product(x, matrix), x.double() @ w.double().T, 1)
    close(product(dy, matrix.transposed()), dy.double() @ w.double(), 1)
    wanted = (dy.double().T @ x.double()).reshape(-1)[matrix.pattern.places()]
    close(sampled_product(dy, x, matrix.pattern), wanted, 5)


def test_bits_do_not_depend_on_the_number_of_threads_nor_on_who_calls():
    matrix = sparse_matrix(masked(3, (300, 200), 0.1))
    x, dy = given_numbers(4, 500, 200), given_numbers(5, 500, 300)
    results: dict[int, list[torch.Tensor]] = {}

    def compute(num_threads: int) -> None:
        torch.set_num_threads(num_threads)
        results[num_threads] = [product(x, matrix), sampled_product(dy, x, matrix.pattern)]

    for num_threads in (1, 2, 3):
        thread = threading.Thread(target=compute, args=(num_threads,))
        thread.start()
        thread.join()
    for found in (results[2], results[3]):
        for one, other in zip(results[1], found, strict=True):
            assert torch.equal(one, other)
    parts = torch.cat([product(x[:77], matrix), product(x[77:], matrix)])
    assert torch.equal(parts, results[1][0])


def test_a_pattern_that_would_read_elsewhere_is_refused():
    def pattern(offsets: list[int], columns: list[int]) -> Pattern:
        return Pattern(
            num_rows=2,
            num_columns=4,
            offsets=torch.tensor(offsets),
            columns=torch.tensor(columns).to(torch.uint16),
        )

    pattern([0, 1, 3], [3, 0, 3]).verify()
    for offsets, columns in (
        ([0, 1, 3], [4, 0, 3]),
        ([0, 2, 3], [1, 1, 3]),
        ([0, 2, 3], [2, 1, 3]),
    ):
        with pytest.raises(ValueError, match="columns of a pattern do not ascend below 4"):
            pattern(offsets, columns).verify()
    for offsets in ([0, 4, 3], [1, 1, 3], [0, 1, 2]):
        with pytest.raises(ValueError, match="do not ascend from 0 to 3"):
            pattern(offsets, [0, 1, 2]).verify()
    with pytest.raises(ValueError, match=r"columns of torch\.int64"):
        Pattern(num_rows=1, num_columns=4, offsets=torch.tensor([0, 1]), columns=torch.tensor([0]))


def test_values_and_activations_that_do_not_fit_are_refused():
    matrix = sparse_matrix(masked(3, (4, 5), 0.5))
    with pytest.raises(ValueError, match="5 features was given"):
        product(torch.zeros(3, 4), matrix)
    with pytest.raises(ValueError, match="3 and 2 samples"):
        sampled_product(torch.zeros(3, 4), torch.zeros(2, 5), matrix.pattern)
    with pytest.raises(ValueError, match="values was given"):
        SparseMatrix(pattern=matrix.pattern, values=torch.zeros(1))


def test_the_bitcode_was_made_from_these_sources():
    assert build.DIGEST.read_text().strip() == build.digest(), "run make sparse"


@pytest.mark.skipif(shutil.which("clang-19") is None, reason="needs clang-19")
def test_building_again_gives_the_same_bitcode():
    assert build.build() == build.BITCODE.read_bytes()
