"""Libraries that compute the same: right however matrices lie, chosen, collected and timed."""

import contextvars
import dataclasses
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics import choice_timing
from appliance.numerics.choices import Choices, Implementation, Operation, Problem, choose
from appliance.numerics.kernels import linear_algebra
from appliance.numerics.kernels.compile import compile_node
from appliance.numerics.onednn.products import load_gemm
from appliance.numerics.openblas import load_openblas
from tests.support.plans import node
from tests.unit.numerics.cases import examples, numbers, seeds
from tests.unit.numerics.test_onednn import exact, matrix, with_onednn

OPENBLAS = load_openblas()
LARGE = Problem(Operation.PRODUCT_NT, (160, 120, 130))

problems = st.builds(
    Problem,
    st.sampled_from(Operation),
    st.tuples(*[st.integers(1, 9_999)] * 3),
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# OpenBLAS


def test_the_library_of_numpy_is_there() -> None:
    assert OPENBLAS is not None, "NumPy's wheels bring it"
    assert OPENBLAS.description.startswith("OpenBLAS ")


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
    assert OPENBLAS.try_into(out, a, b)
    torch.testing.assert_close(out, exact(a, b), rtol=1e-5, atol=1e-4)


def test_what_lay_in_the_result_and_between_its_rows_is_as_it_should_be() -> None:
    whole = torch.full((80, 90), float("nan"))
    assert OPENBLAS.try_into(whole[:, :80], torch.ones(80, 80), torch.ones(80, 80))
    assert bool((whole[:, :80] == 80).all())
    assert bool(whole[:, 80:].isnan().all()), "what lies between the rows is untouched"


@pytest.mark.parametrize(
    "make_odd",
    [
        lambda x: x.double(),
        lambda x: x.to(torch.bfloat16),
        lambda x: x[:1].expand(64, 64),
        torch.empty(64, 128)[:, ::2].copy_,
    ],
    ids=["float64", "bfloat16", "repeated", "with gaps"],
)
def test_a_matrix_that_lies_oddly_is_refused(make_odd) -> None:
    odd, b, out = make_odd(torch.ones(64, 64)), torch.ones(64, 64), torch.zeros(64, 64)
    assert not OPENBLAS.try_into(out, odd, b)
    assert not out.any(), "nothing was done"


def test_several_threads_are_left_to_who_shares_them_with_pytorch() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        out = torch.zeros(64, 64)
        assert not OPENBLAS.try_into(out, torch.ones(64, 64), torch.ones(64, 64))
        assert not out.any()
    finally:
        torch.set_num_threads(before)


def test_threads_that_multiply_at_the_same_time_get_the_bits_of_one() -> None:
    a, b = (torch.from_numpy(numbers(seed, (120, 120))) for seed in (1, 2))
    want = torch.empty(120, 120)
    assert OPENBLAS.try_into(want, a, b)
    wrong = []

    def multiply() -> None:
        torch.set_num_threads(1)
        out = torch.empty(120, 120)
        wrong.extend(
            number
            for number in range(200)
            if not OPENBLAS.try_into(out.zero_(), a, b) or not torch.equal(out, want)
        )

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Problems and choices


@given(problem=problems)
def test_the_text_of_a_problem_is_read_back(problem) -> None:
    assert Problem.parse(str(problem)) == problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "product-nt",
        "product-nt 3x4",
        "product-nt 0x4x5",
        "product-nt -1x4x5",
        "product-xx 3x4x5",
        "product-nt 3x4xfive",
        "product-nt 99999999x99999999x99",
    ],
)
def test_a_text_that_is_no_problem_is_refused_by_name(text) -> None:
    with pytest.raises(InternalError, match=r"operation with|sizes of at least|larger than"):
        Problem.parse(text)


def test_choices_are_those_of_the_kernels_built_meanwhile_by_this_thread() -> None:
    def build(problem=LARGE):
        return choose(problem, Implementation.PYTORCH)

    choices, other = Choices(), Choices()
    build()
    with choices.collecting():
        first = build()
        with other.collecting():
            build(dataclasses.replace(LARGE, sizes=(1, 2, 3)))
        second = build()
        thread = threading.Thread(target=contextvars.Context().run, args=(build,))
        thread.start()
        thread.join()
    build()
    assert choices.problems == (LARGE,), "each problem once"
    assert choices.implementations == {LARGE: Implementation.PYTORCH}
    assert [problem.sizes for problem in other.problems] == [(1, 2, 3)]
    choices.use({LARGE: Implementation.OPENBLAS})
    assert first.implementation is second.implementation is Implementation.OPENBLAS
    choices.use({})
    assert first.implementation is Implementation.OPENBLAS, "what is not named stays"


@with_onednn
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_product_is_computed_by_the_library_that_is_chosen(
    monkeypatch, transpose_a, transpose_b
) -> None:
    asked, library_of = [], linear_algebra._library

    def library(implementation):
        asked.append(implementation)
        return library_of(implementation)

    monkeypatch.setattr(linear_algebra, "_library", library)
    rows, inner, columns = LARGE.sizes
    a_shape = (inner, rows) if transpose_a else (rows, inner)
    b_shape = (columns, inner) if transpose_b else (inner, columns)
    product = node(
        "MatMul",
        "a b",
        "c",
        TensorType((rows, columns), DType.F32),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    choices = Choices()
    with choices.collecting():
        kernel = compile_node(product, [TensorType(s, DType.F32) for s in (a_shape, b_shape)])
    a, b = (torch.from_numpy(numbers(seed, shape)) for seed, shape in ((1, a_shape), (2, b_shape)))
    left, right = a.mT if transpose_a else a, b.mT if transpose_b else b
    letters = "nt"[transpose_a] + "nt"[transpose_b]
    (problem,) = choices.problems
    assert str(problem) == f"product-{letters} {rows}x{inner}x{columns}"
    for implementation, expected in (
        (Implementation.PYTORCH, None),
        (Implementation.ONEDNN, load_gemm()),
        (Implementation.OPENBLAS, OPENBLAS),
    ):
        choices.use({problem: implementation})
        want, out = torch.empty(rows, columns), torch.empty(rows, columns)
        if expected is None:
            torch.mm(left, right, out=want)
        else:
            assert expected.try_into(want, left, right)
        kernel.into(out, a, b)
        np.testing.assert_array_equal(out.numpy(), want.numpy())
        np.testing.assert_array_equal(kernel.call(a, b).numpy(), want.numpy())
        torch.testing.assert_close(want, exact(left, right), rtol=1e-5, atol=1e-4)
        assert asked == [implementation] * 2
        asked.clear()


def test_small_products_and_those_of_other_types_leave_nothing_to_choose() -> None:
    choices = Choices()
    with choices.collecting():
        for size, dtype in ((64, DType.F32), (512, DType.F64), (512, DType.I32)):
            type_ = TensorType((size, size), dtype)
            product = node("MatMul", "a b", "c", type_, transpose_a=False, transpose_b=False)
            compile_node(product, [type_, type_])
    assert not choices.problems


# Timing


def timing(by_rule, **shares):
    shares = {Implementation(name): share for name, share in shares.items()}
    return choice_timing.Timing(
        problem=LARGE, by_rule=by_rule, seconds=shares, shares=shares, num_operations=1
    )


@pytest.mark.parametrize(
    ("by_rule", "shares", "chosen"),
    [
        ("pytorch", {"pytorch": 1.0, "onednn": 0.5, "openblas": 0.4}, "openblas"),
        ("pytorch", {"pytorch": 1.0, "onednn": 0.98, "openblas": 1.4}, "pytorch"),
        ("onednn", {"pytorch": 0.9, "onednn": 1.0}, "pytorch"),
        ("onednn", {"pytorch": 1.1, "onednn": 1.0}, "onednn"),
    ],
)
def test_another_library_than_the_rules_has_to_gain_more_than_noise(
    by_rule, shares, chosen
) -> None:
    assert timing(Implementation(by_rule), **shares).chosen == chosen


@with_onednn
@pytest.mark.parametrize(
    ("text", "num_threads", "libraries"),
    [
        ("product-tn 160x120x130", 1, {"pytorch", "onednn", "openblas"}),
        ("product-nn 160x120x130", 2, {"pytorch", "onednn"}),
    ],
)
def test_every_library_that_computes_a_problem_is_timed(text, num_threads, libraries) -> None:
    threads = torch.get_num_threads()
    found = choice_timing.measure(Problem.parse(text), num_threads=num_threads)
    assert str(found.problem) == text
    assert set(found.seconds) == set(found.shares) == libraries
    assert all(0 < seconds < 10 for seconds in found.seconds.values())
    assert found.shares[found.by_rule] == 1
    assert found.chosen in libraries
    assert found.num_operations == found.problem.num_operations
    assert torch.get_num_threads() == threads


def test_of_a_large_problem_a_part_is_timed() -> None:
    problem = Problem.parse("product-nt 512x50000x2048")
    found = choice_timing.measure(problem, num_threads=1)
    assert found.problem == problem
    assert found.num_operations < problem.num_operations / 4


def test_a_problem_that_is_too_small_for_a_choice_is_refused() -> None:
    with pytest.raises(InternalError, match="too small for a choice"):
        choice_timing.measure(Problem.parse("product-nt 8x8x8"), num_threads=1)


def test_the_machine_is_described_by_processor_and_versions() -> None:
    described = choice_timing.machine()
    assert f"PyTorch {torch.__version__}" in described
    assert "OpenBLAS" in described
    assert described == choice_timing.machine()
