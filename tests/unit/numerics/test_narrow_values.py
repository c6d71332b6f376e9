"""bfloat16 values in two bytes: the digits of float32 containers, whatever the operation."""

import numpy as np
import pytest
import torch

from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program
from tests.support.plans import node
from tests.unit.numerics.cases import numbers

SHAPE = (4, 48)
WIDE, NARROW = TensorType(SHAPE, DType.F32), TensorType(SHAPE, DType.BF16)
MIRROR, SQUARE = TensorType((48, 4), DType.BF16), TensorType((4, 4), DType.BF16)


def containers(seed, shape=SHAPE):
    """Return bfloat16 numbers in float32 containers, a third of them special ones."""
    return torch.from_numpy(numbers(seed, shape, special=True)).bfloat16().float()


def both(nodes, types, given, live_out):
    """Return the values that live out of a program with containers, and of a narrow one."""
    found = []
    for is_narrow in (False, True):
        pool = TensorPool(is_narrow=is_narrow)
        program = Program(nodes, types=types, live_out=live_out, pool=pool)
        table = {name: tensor.clone() for name, tensor in given.items()}
        program.run(table, step=0)
        found.append({name: table[name] for name in live_out})
    return found


def assert_same(nodes, types, given, live_out):
    wide, narrow = both(nodes, types, given, live_out)
    for name, value in wide.items():
        np.testing.assert_array_equal(narrow[name].float().numpy(), value.float().numpy(), name)
    return narrow


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_an_operation_of_two_tensors_has_the_digits_of_containers(op) -> None:
    given = {"a": containers(1), "b": containers(2)}
    narrow = assert_same([node(op, "a b", "c", NARROW)], dict.fromkeys("ab", NARROW), given, {"c"})
    assert narrow["c"].dtype is torch.bfloat16


def test_a_concatenation_and_a_softmax_have_the_digits_of_containers() -> None:
    twice = TensorType((4, 96), DType.BF16)
    nodes = [
        node("Concat", "a b", "c", twice, axis=1),
        node("Softmax", "c", "d", twice, axis=1),
    ]
    given = {"a": containers(1), "b": torch.from_numpy(numbers(2, SHAPE)).bfloat16().float()}
    given["a"][~given["a"].isfinite()] = 1
    narrow = assert_same(nodes, dict.fromkeys("ab", NARROW), given, set("cd"))
    assert {each.dtype for each in narrow.values()} == {torch.bfloat16}


def test_a_transposed_operand_is_scaled_as_it_lies() -> None:
    nodes = [
        node("Transpose", "a", "b", MIRROR, permutation=(1, 0)),
        node("Mul", "b s", "c", MIRROR),
    ]
    given = {"a": containers(1), "s": torch.tensor(0.125).expand(48, 4)}
    narrow = assert_same(nodes, {"a": NARROW, "s": MIRROR}, given, {"c"})
    assert narrow["c"].stride() == (1, 48)


def test_a_loop_has_the_digits_of_containers() -> None:
    nodes = [
        node("Cast", "x", "a", NARROW),
        node("Add", "a b", "c", NARROW),
        node("Mul", "c b", "d", NARROW),
        node("Cast", "d", "e", WIDE),
        node("Gelu", "d", "g", NARROW, approximation="TANH"),
    ]
    given = {"x": torch.from_numpy(numbers(3, SHAPE, special=True)), "b": containers(4)}
    narrow = assert_same(nodes, {"x": WIDE, "b": NARROW}, given, set("acdeg"))
    dtypes = {name: value.dtype for name, value in narrow.items()}
    assert dtypes == {**dict.fromkeys("acdg", torch.bfloat16), "e": torch.float32}


def test_a_nan_whose_payload_is_in_the_dropped_half_stays_one() -> None:
    signals = torch.full(SHAPE, 0x7F800001, dtype=torch.int32).view(torch.float32)
    nodes = [
        node("Cast", "x", "a", NARROW),
        node("Abs", "a", "b", NARROW),
        node("Add", "b b", "c", NARROW),
    ]
    _, narrow = both(nodes, {"x": WIDE}, {"x": signals}, set("abc"))
    assert all(bool(value.isnan().all()) for value in narrow.values())


def test_what_only_moves_elements_moves_them_in_two_bytes() -> None:
    twice = TensorType((4, 96), DType.BF16)
    nodes = [
        node("Add", "a b", "c", NARROW),
        node("Transpose", "c", "t", MIRROR, permutation=(1, 0)),
        node("Transpose", "t", "u", NARROW, permutation=(1, 0)),
        node("Concat", "u a", "v", twice, axis=1),
        node("Reshape", "v", "w", TensorType((384,), DType.BF16)),
    ]
    given = {"a": containers(5), "b": containers(6)}
    narrow = assert_same(nodes, dict.fromkeys("ab", NARROW), given, set("ctuw"))
    assert {narrow[name].dtype for name in "ctu"} == {torch.bfloat16}


def test_operations_without_a_form_for_two_bytes_see_containers() -> None:
    nodes = [
        node("Add", "a b", "c", NARROW),
        node("Softmax", "c", "s", NARROW, axis=-1),
        node("Tanh", "c", "t", NARROW),
        node("Reduce", "c", "r", TensorType((4,), DType.F32), dimensions=(1,), reduce_kind="ADD"),
    ]
    given = {"a": containers(7).nan_to_num(0, 1, 1), "b": containers(8).nan_to_num(0, 1, 1)}
    assert_same(nodes, dict.fromkeys("ab", NARROW), given, set("str"))


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F32])
def test_products_read_what_lies_in_two_bytes(dtype) -> None:
    rows = 200
    square = TensorType((rows, rows), DType.BF16)
    nodes = [
        node("Add", "a b", "c", square),
        node("MatMul", "c b", "p", TensorType((rows, rows), dtype), transpose_a=True),
    ]
    given = {name: containers(9, (rows, rows)).nan_to_num(0, 1, 1).clamp(-4, 4) for name in "ab"}
    wide, narrow = both(nodes, dict.fromkeys("ab", square), given, {"p"})
    tolerance = 2.0**-7 if dtype is DType.BF16 else 1e-6
    torch.testing.assert_close(narrow["p"].float(), wide["p"], rtol=tolerance, atol=1e-3)


def test_a_value_is_written_to_a_callers_container() -> None:
    nodes = [node("Add", "a b", "c", NARROW), node("Tanh", "c", "t", NARROW)]
    given = {"a": containers(11), "b": containers(12)}
    outs = {name: torch.empty(SHAPE) for name in "ct"}
    pool = TensorPool(is_narrow=True)
    program = Program(
        nodes, types=dict.fromkeys("ab", NARROW), live_out=(), written="ct", pool=pool
    )
    program.run(dict(given), step=0, out=outs)
    expected = (given["a"] + given["b"]).bfloat16().float()
    np.testing.assert_array_equal(outs["c"].numpy(), expected.numpy())
    np.testing.assert_array_equal(outs["t"].numpy(), expected.tanh().bfloat16().float().numpy())


def test_a_value_that_lives_on_is_not_left_in_the_callers_tensor_that_holds_its_cast() -> None:
    nodes = [node("Add", "a b", "c", NARROW), node("Cast", "c", "d", WIDE)]
    given, slot = {"a": containers(13), "b": containers(14)}, torch.empty(SHAPE)
    types, pool = dict.fromkeys("ab", NARROW), TensorPool(is_narrow=True)
    program = Program(nodes, types=types, live_out={"c"}, written="d", pool=pool)
    program.run(table := dict(given), step=0, out={"d": slot})
    expected = (given["a"] + given["b"]).bfloat16().float().numpy()
    np.testing.assert_array_equal(slot.numpy(), expected)
    slot.zero_()
    np.testing.assert_array_equal(table["c"].float().numpy(), expected)
