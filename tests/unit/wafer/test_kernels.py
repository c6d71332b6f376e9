from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.wafer.hardware import CS2, CS3, Machine
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION
from appliance.wafer.timing.kernels import head_stripes, operation_cycles
from appliance.wafer.timing.operations import Kind, Operation, OperationTable

KINDS = st.sampled_from(list(Kind))
SIZES = st.integers(1, 20_000)


def make_operation(kind: Kind = Kind.MATMUL, **changes: object) -> Operation:
    base = Operation(
        name="op", kind=kind, layer_step=0, tokens=100_000, inner=4096, outer=1024, sequence=512
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def cycles(operation: Operation, machine: Machine = CS2) -> float:
    table = OperationTable.from_operations([operation])
    return float(operation_cycles(table, machine, DEFAULT_CALIBRATION)[0])


@settings(max_examples=40, deadline=None)
@given(kind=KINDS, tokens=SIZES, inner=SIZES, outer=SIZES, more=st.integers(1, 1000))
def test_more_work_never_takes_less_time(
    kind: Kind, tokens: int, inner: int, outer: int, more: int
) -> None:
    base = make_operation(kind, tokens=tokens, inner=inner, outer=outer)
    assert cycles(replace(base, tokens=tokens + more)) >= cycles(base)
    assert cycles(replace(base, inner=inner + more)) >= cycles(base)
    assert cycles(replace(base, outer=outer + more)) >= cycles(base)


@settings(max_examples=40, deadline=None)
@given(kind=KINDS, tokens=SIZES, inner=SIZES)
def test_wide_operands_never_take_less_time_than_narrow_ones(
    kind: Kind, tokens: int, inner: int
) -> None:
    narrow = make_operation(kind, tokens=tokens, inner=inner, bits=16)
    assert cycles(replace(narrow, bits=32)) >= cycles(narrow)


def test_a_dense_product_cannot_beat_the_peak() -> None:
    operation = make_operation(tokens=1e6, inner=750 * 8, outer=8192)
    macs = float(OperationTable.from_operations([operation]).macs()[0])
    assert cycles(operation) > macs / (CS2.num_grid_pes * 4)


def test_features_that_do_not_fill_the_columns_cost_as_much_as_full_tiles() -> None:
    full, ragged = make_operation(inner=1500), make_operation(inner=760)
    assert cycles(ragged) == cycles(full)


def test_zeros_of_a_sparse_weight_are_not_multiplied() -> None:
    dense, sparse = make_operation(), make_operation(density=0.25)
    assert 0.25 * cycles(dense) < cycles(sparse) < 0.6 * cycles(dense)


def test_recomputed_scores_count_twice() -> None:
    once = make_operation(Kind.SCORES)
    assert cycles(replace(once, repeat=2)) == 2 * cycles(once)


def test_heads_lie_over_columns_of_their_own_and_work_side_by_side() -> None:
    one = make_operation(Kind.SCORES, inner=4096, num_heads=1)
    many = replace(one, num_heads=32)
    assert cycles(many) == pytest.approx(cycles(one), rel=0.02)


def test_more_heads_than_columns_share_a_column_and_send_nothing() -> None:
    table = OperationTable.from_operations(
        [make_operation(Kind.CONTEXT, inner=1600 * 2, num_heads=1600)]
    )
    stripes = head_stripes(table, CS2)
    assert (stripes.columns[0], stripes.heads[0], stripes.features[0]) == (1, 3, 6)


@pytest.mark.parametrize("kind", [Kind.SCORES, Kind.CONTEXT])
def test_a_causal_product_halves_traffic_and_vectors_but_no_dispatch(kind: Kind) -> None:
    whole = make_operation(kind, tokens=512 * 994, inner=32 * 128, num_heads=32)
    causal = replace(whole, is_causal=True)
    dispatches = 512 * 6 * DEFAULT_CALIBRATION.dispatch(CS2)
    latency = cycles(replace(whole, tokens=0))
    saved = cycles(whole) - cycles(causal)
    assert saved == pytest.approx((cycles(whole) - dispatches - latency) / 2, rel=0.02)


def test_tokens_of_a_short_query_share_the_keys_of_a_long_source() -> None:
    """Cross-attention: a row of 16 sequences of 32 tokens dispatches each key 16 times."""
    long = make_operation(Kind.SCORES, tokens=512 * 994, sequence=512, num_heads=32)
    short = replace(long, queries=32)
    more = 15 * 512 * 6 * DEFAULT_CALIBRATION.dispatch(CS2)
    assert cycles(short) - cycles(long) == pytest.approx(more, rel=0.001)


def test_the_wider_simd_of_the_newer_wafer_makes_products_faster() -> None:
    operation = make_operation()
    ratio = CS2.seconds(cycles(operation)) / CS3.seconds(cycles(operation, CS3))
    assert 1.3 < ratio < 2.5


def test_the_same_operation_costs_the_same_alone_and_among_others() -> None:
    operations = [make_operation(kind) for kind in Kind]
    together = operation_cycles(
        OperationTable.from_operations(operations), CS2, DEFAULT_CALIBRATION
    )
    assert together.tolist() == pytest.approx([cycles(operation) for operation in operations])
