"""oneDNN: right however matrices lie, refused where tensors lie oddly, the same bits each run."""

import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.kernels import linear_algebra
from appliance.numerics.onednn import library, products
from appliance.numerics.onednn.normalization import find_layer_norm
from appliance.numerics.programs.grouping import single_group
from tests.support.plans import node
from tests.unit.numerics.cases import examples, numbers, seeds

GEMM = products.load_gemm()
LAYER_NORM = find_layer_norm()

with_onednn = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the package is for x86-64 alone"
)


@pytest.fixture
def on_amd(monkeypatch):
    """Let kernels be chosen as on a processor of AMD's that has AVX-512."""
    monkeypatch.setattr(linear_algebra, "find_gemm", lambda *, is_left_transposed: GEMM)


def matrix(seed, rows, columns, *, is_mirrored, padding):
    """Return a matrix that lies row by row or column by column, its lines apart by a padding."""
    wide = (columns, rows) if is_mirrored else (rows, columns)
    whole = torch.from_numpy(numbers(seed, (wide[0], wide[1] + padding)))
    part = whole[:, : wide[1]]
    return part.mT if is_mirrored else part


def exact(a, b):
    return (a.double() @ b.double()).float()


@with_onednn
def test_the_library_is_there() -> None:
    assert GEMM is not None, "the package is a dependency, and torch brings OpenMP"


@with_onednn
@examples(60)
@given(
    seed=seeds,
    sizes=st.tuples(*[st.integers(1, 70)] * 3),
    mirrored=st.tuples(*[st.booleans()] * 3),
    paddings=st.tuples(*[st.integers(0, 3)] * 3),
)
def test_a_product_is_right_however_the_matrices_lie(seed, sizes, mirrored, paddings) -> None:
    rows, inner, columns = sizes
    seed %= 1000
    a = matrix(seed, rows, inner, is_mirrored=mirrored[0], padding=paddings[0])
    b = matrix(seed + 1, inner, columns, is_mirrored=mirrored[1], padding=paddings[1])
    out = matrix(seed + 2, rows, columns, is_mirrored=mirrored[2], padding=paddings[2])
    assert GEMM.try_into(out, a, b)
    torch.testing.assert_close(out, exact(a, b), rtol=1e-5, atol=1e-4)


@with_onednn
def test_what_lay_in_the_result_does_not_count() -> None:
    a, b = torch.ones(80, 80), torch.ones(80, 80)
    out = torch.full((80, 80), float("nan"))
    assert GEMM.try_into(out, a, b)
    assert bool((out == 80).all())


@with_onednn
@pytest.mark.parametrize(
    "make_odd",
    [
        lambda x: x.double(),
        lambda x: x[:1].expand(64, 64),
        torch.empty(64, 128)[:, ::2].copy_,
    ],
    ids=["float64", "repeated", "with gaps"],
)
def test_a_matrix_that_lies_oddly_is_left_to_torch(make_odd) -> None:
    odd, b, out = make_odd(torch.ones(64, 64)), torch.ones(64, 64), torch.zeros(64, 64)
    assert not GEMM.try_into(out, odd, b)
    assert not out.any(), "nothing was done"


@with_onednn
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_the_kernel_of_a_large_product_takes_it_and_repeats_its_bits(
    on_amd, transpose_a, transpose_b
) -> None:
    rows, inner, columns = 130, 150, 170
    a_shape = (inner, rows) if transpose_a else (rows, inner)
    b_shape = (columns, inner) if transpose_b else (inner, columns)
    result = TensorType((rows, columns), DType.F32)
    product = node("MatMul", "a b", "c", result, transpose_a=transpose_a, transpose_b=transpose_b)
    types = {"a": TensorType(a_shape, DType.F32), "b": TensorType(b_shape, DType.F32)}
    assert 2 * rows * inner * columns >= linear_algebra._LEAST_OPERATIONS_BY_LIBRARY
    kernel = single_group(product, types).kernel
    a, b = (torch.from_numpy(numbers(seed, shape)) for seed, shape in ((1, a_shape), (2, b_shape)))
    left, right = a.mT if transpose_a else a, b.mT if transpose_b else b
    expected = torch.empty(rows, columns)
    assert GEMM.try_into(expected, left, right)
    out = torch.empty(rows, columns)
    kernel.into(out, a, b)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    np.testing.assert_array_equal(kernel.call(a, b).numpy(), expected.numpy())
    gapped = torch.empty(rows, columns, 2)[:, :, 0]
    kernel.into(gapped, a, b)
    torch.testing.assert_close(gapped, exact(left, right), rtol=1e-5, atol=1e-4)


with_bfloat16 = pytest.mark.skipif(
    not linear_algebra.has_native_bfloat16(), reason="the processor multiplies no bfloat16"
)


def bfloat16_numbers(seed, shape):
    return torch.from_numpy(numbers(seed, shape)).bfloat16().float()


@with_onednn
@with_bfloat16
@pytest.mark.parametrize("transpose_a", [False, True])
def test_a_product_of_bfloat16_numbers_that_stays_float32_is_not_rounded(transpose_a) -> None:
    rows, inner, columns = 130, 150, 170
    result = TensorType((rows, columns), DType.F32)
    a_shape = (inner, rows) if transpose_a else (rows, inner)
    types = {"a": TensorType(a_shape, DType.BF16), "b": TensorType((inner, columns), DType.BF16)}
    product = node("MatMul", "a b", "c", result, transpose_a=transpose_a, transpose_b=False)
    a, b = bfloat16_numbers(1, a_shape), bfloat16_numbers(2, (inner, columns))
    left = a.mT if transpose_a else a
    narrow = torch.empty(rows, columns)
    assert GEMM.try_into(narrow, left.bfloat16(), b.bfloat16())
    out = torch.empty(rows, columns)
    single_group(product, types).kernel.into(out, a, b)
    np.testing.assert_array_equal(out.numpy(), narrow.numpy())
    torch.testing.assert_close(out, exact(left, b), rtol=1e-5, atol=1e-4)
    assert not torch.equal(out, out.bfloat16().float())


@with_bfloat16
def test_a_rounded_product_is_the_same_written_in_place() -> None:
    rows, inner, columns = 130, 150, 170
    types = {
        "a": TensorType((rows, inner), DType.BF16),
        "b": TensorType((inner, columns), DType.BF16),
    }
    result = TensorType((rows, columns), DType.BF16)
    product = node("MatMul", "a b", "c", result, transpose_a=False, transpose_b=False)
    kernel = single_group(product, types).kernel
    a, b = bfloat16_numbers(1, (rows, inner)), bfloat16_numbers(2, (inner, columns))
    out = torch.empty(rows, columns)
    kernel.into(out, a, b)
    assert torch.equal(out, kernel.call(a, b))
    torch.testing.assert_close(out, exact(a, b), rtol=2**-7, atol=1e-2)
    assert torch.equal(out, out.bfloat16().float())


@with_onednn
def test_each_number_of_threads_repeats_its_bits() -> None:
    a, b = (torch.from_numpy(numbers(seed, (400, 400))) for seed in (1, 2))
    before = torch.get_num_threads()
    try:
        for num_threads in (1, 2, 1, 2):
            torch.set_num_threads(num_threads)
            first, second = torch.empty(400, 400), torch.empty(400, 400)
            assert GEMM.try_into(first, a, b)
            assert GEMM.try_into(second, a, b)
            np.testing.assert_array_equal(first.numpy(), second.numpy())
            torch.testing.assert_close(first, exact(a, b), rtol=1e-5, atol=1e-4)
    finally:
        torch.set_num_threads(before)


@with_onednn
def test_threads_do_not_disturb_one_another() -> None:
    sizes = [(96, 64, 80), (200, 300, 100), (33, 500, 65), (128, 128, 128)]

    def multiply(number: int) -> None:
        rows, inner, columns = sizes[number]
        a = torch.from_numpy(numbers(number, (rows, inner)))
        b = torch.from_numpy(numbers(number + 10, (inner, columns)))
        for _ in range(50):
            out = torch.empty(rows, columns)
            assert GEMM.try_into(out, a, b)
            torch.testing.assert_close(out, exact(a, b), rtol=1e-5, atol=1e-4)

    with ThreadPoolExecutor(len(sizes)) as threads:
        list(threads.map(multiply, range(len(sizes))))


@with_onednn
@examples(40)
@given(seed=seeds, num_rows=st.integers(1, 40), width=st.integers(1, 300))
def test_rows_are_normalized_and_their_gradients_right(seed, num_rows, width) -> None:
    x, dy = (torch.from_numpy(numbers(seed % 1000 + i, (num_rows, width))) for i in range(2))
    gamma, beta = (torch.from_numpy(numbers(seed % 1000 + i, (width,))) for i in (2, 3))
    wide = [tensor.double().requires_grad_() for tensor in (x, gamma, beta)]
    expected = torch.layer_norm(wide[0], (width,), *wide[1:], 1e-3)
    expected.backward(dy.double())
    out = torch.full_like(x, float("nan"))
    assert LAYER_NORM.try_forward(out, x, gamma, beta, epsilon=1e-3)
    torch.testing.assert_close(out, expected.detach().float(), rtol=1e-4, atol=1e-5)
    found = tuple(torch.full_like(tensor, float("nan")) for tensor in (x, gamma, beta))
    assert LAYER_NORM.try_backward(found, dy, x, gamma, beta, epsilon=1e-3)
    for tensor, leaf in zip(found, wide, strict=True):
        torch.testing.assert_close(tensor, leaf.grad.float(), rtol=1e-3, atol=1e-4)


def normalized(num_rows):
    """Return the result and the gradients for so many rows, the same numbers in every call."""
    x, dy = (torch.from_numpy(numbers(num_rows + i, (num_rows, 200))) for i in range(2))
    gamma, beta = (torch.from_numpy(numbers(i, (200,))) for i in range(2))
    found = [torch.empty_like(tensor) for tensor in (x, x, gamma, beta)]
    assert LAYER_NORM.try_forward(found[0], x, gamma, beta, epsilon=1e-5)
    assert LAYER_NORM.try_backward(tuple(found[1:]), dy, x, gamma, beta, epsilon=1e-5)
    return [tensor.numpy() for tensor in found]


@with_onednn
def test_normalizations_repeat_their_bits_with_each_number_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        for num_threads in (1, 2, 1, 2):
            torch.set_num_threads(num_threads)
            for first, second in zip(normalized(123), normalized(123), strict=True):
                np.testing.assert_array_equal(first, second)
    finally:
        torch.set_num_threads(before)


@with_onednn
def test_normalizations_of_several_threads_do_not_disturb_one_another() -> None:
    sizes = [64, 200, 64, 31]
    expected: list[list[NDArray[np.float32]]] = []

    def normalize(number: int) -> None:
        for _ in range(50):
            for found, wanted in zip(normalized(sizes[number]), expected[number], strict=True):
                np.testing.assert_array_equal(found, wanted)

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected.extend(map(normalized, sizes))
        with ThreadPoolExecutor(len(sizes), initializer=lambda: torch.set_num_threads(1)) as pool:
            list(pool.map(normalize, range(len(sizes))))
    finally:
        torch.set_num_threads(before)


@with_onednn
@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_tensors_that_lie_oddly_are_not_normalized(odd) -> None:
    tensors = [torch.zeros(4, 8), torch.ones(4, 8), torch.ones(8), torch.ones(8)]
    tensors[odd] = torch.ones(*tensors[odd].shape, 2)[..., 0]
    assert not LAYER_NORM.try_forward(*tensors, epsilon=1e-5)


def test_what_cannot_be_prepared_is_not_tried_again() -> None:
    unused: library.Unused[str] = library.Unused()
    tries: list[str] = []

    def prepare(key: str) -> str | None:
        tries.append(key)
        return None if key == "impossible" else key

    for key in ("impossible", "possible", "impossible"):
        assert unused.take(key, lambda key=key: prepare(key)) in (None, "possible")
    assert tries == ["impossible", "possible"]
    unused.give_back("possible", "kept")
    assert unused.take("possible", lambda: "new") == "kept"
    assert unused.take("possible", lambda: "new") == "new"


def test_a_call_that_the_library_refuses_is_an_error() -> None:
    with pytest.raises(InternalError, match=r"oneDNN refused dnnl_memory_create: status 2"):
        library.check(2, "dnnl_memory_create")


@pytest.mark.parametrize(
    ("features", "chosen"),
    [((), []), (("avx2",), [True]), (("avx2", "avx512f"), [False, True])],
    ids=["another maker's", "amd", "amd with avx-512"],
)
def test_what_is_not_faster_on_a_processor_is_left_to_torch(monkeypatch, features, chosen) -> None:
    monkeypatch.setattr(products, "_amd_features", lambda: frozenset(features))
    find = products.find_gemm.__wrapped__
    found = [each for each in (False, True) if find(is_left_transposed=each) is not None]
    assert found == chosen


def test_a_library_that_cannot_be_loaded_is_done_without(monkeypatch, tmp_path, caplog) -> None:
    broken = tmp_path / "libdnnl.so.3"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(library, "_library_path", lambda: broken)
    assert library.load_library.__wrapped__() is None
    assert "Nothing is computed by oneDNN" in caplog.text
