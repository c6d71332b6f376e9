from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.errors import UserError
from appliance.wafer.hardware import CS2, Machine, machine_from_mapping
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.layer_timing import (
    Bound,
    InputPipeline,
    StepTiming,
    _pipeline,
    step_timing,
    straggler_factor,
)

SMALL = Transformer(
    name="small", layers=4, hidden=512, heads=8, ffn=2048, vocab=32_000, sequence=512
)


def time(
    model: Transformer = SMALL, batch: int = 64, systems: int = 1, machine: Machine = CS2
) -> StepTiming:
    return step_timing(
        transformer_program(model), machine=machine, batch_size=batch, num_systems=systems
    )


def test_a_step_takes_at_least_as_long_as_each_of_its_parts() -> None:
    timing = time()
    parts = (
        timing.compute_seconds,
        timing.injection_seconds,
        timing.reduction_seconds,
        timing.update_seconds,
    )
    assert timing.seconds >= max(parts)


@settings(max_examples=30, deadline=None)
@given(systems=st.integers(1, 192), share=st.integers(1, 64))
def test_with_a_share_per_system_more_systems_are_never_slower_per_sample(
    systems: int, share: int
) -> None:
    few = time(batch=share * systems, systems=systems)
    more = time(batch=share * (systems + 1), systems=systems + 1)
    assert more.seconds / more.batch_size <= few.seconds / few.batch_size
    assert more.samples_per_second <= few.samples_per_second / systems * (systems + 1)


@settings(max_examples=30, deadline=None)
@given(batch=st.integers(1, 4000), more=st.integers(1, 500))
def test_a_larger_batch_never_takes_less_time(batch: int, more: int) -> None:
    assert time(batch=batch + more).seconds >= time(batch=batch).seconds * 0.999


def test_layer_steps_follow_each_other_and_double_buffering_hides_weights() -> None:
    timing = time()
    for before, after in zip(timing.layers, timing.layers[1:], strict=False):
        assert after.start_seconds >= before.end_seconds
    assert timing.seconds < timing.compute_seconds + timing.injection_seconds


def test_a_slow_link_makes_injection_or_reduction_the_bound() -> None:
    slow = machine_from_mapping({"name": "slow", "io_bytes_per_second": 1e8})
    timing = time(machine=slow)
    assert timing.bound in (Bound.INJECTION, Bound.REDUCTION)
    assert timing.seconds > time().seconds


@pytest.mark.parametrize(
    ("busy", "inject", "drain", "starts", "end"),
    [
        ((1, 1, 1), (9, 0, 0), (0, 0, 0), (0, 1, 2), 3),  # the first one's weights are there
        ((1, 1, 1), (0, 5, 5), (0, 0, 0), (0, 5, 10), 11),  # each waits for its weights
        ((4, 4, 4), (0, 3, 3), (0, 0, 0), (0, 4, 8), 12),  # which come while another computes
        ((4, 1, 1), (0, 1, 6), (0, 0, 0), (0, 4, 10), 11),  # but no sooner than one ahead
        ((1, 1, 1), (0, 0, 0), (5, 5, 5), (0, 1, 6), 11),  # the second gradient waits
    ],
)
def test_each_layer_step_waits_for_its_weights_and_for_the_gradient_before_the_last(
    busy: tuple[float, ...],
    inject: tuple[float, ...],
    drain: tuple[float, ...],
    starts: tuple[float, ...],
    end: float,
) -> None:
    rows = (np.array(row, dtype=float) for row in (busy, inject, drain))
    begun, ended = _pipeline(*rows)
    assert begun.tolist() == list(starts)
    assert ended[-1] == end


def test_a_slow_store_makes_the_update_the_bound() -> None:
    slow = machine_from_mapping({"name": "slow", "memoryx_bytes_per_second": 1e9})
    assert time(machine=slow).bound is Bound.UPDATE


def test_waiting_for_the_global_norm_exposes_the_whole_update() -> None:
    slow = machine_from_mapping({"name": "slow", "memoryx_bytes_per_second": 1e11})
    clipped = Transformer(
        name="clipped",
        layers=4,
        hidden=512,
        heads=8,
        ffn=2048,
        vocab=32_000,
        sequence=512,
        waits_for_norm=True,
    )
    assert time(clipped, machine=slow).exposed_seconds > time(machine=slow).exposed_seconds


def test_image_files_are_bound_by_the_input_workers_until_there_are_enough() -> None:
    images = Transformer(
        name="images",
        layers=12,
        hidden=768,
        heads=12,
        ffn=3072,
        vocab=0,
        sequence=197,
        patch_features=768,
        is_prepared_singly=True,
    )
    program = transformer_program(images)
    one = step_timing(program, machine=CS2, batch_size=1000)
    many = step_timing(program, machine=CS2, batch_size=1000, inputs=InputPipeline(num_workers=64))
    assert one.bound is Bound.INPUT
    assert many.bound is Bound.COMPUTE
    assert many.seconds < one.seconds


def test_sparse_weights_save_injection_only_below_half_density() -> None:
    def injected(density: float) -> float:
        model = Transformer(
            name="sparse",
            layers=4,
            hidden=512,
            heads=8,
            ffn=2048,
            vocab=1000,
            sequence=512,
            density=density,
        )
        return time(model).injection_seconds

    assert injected(0.9) == injected(1.0)
    assert injected(0.25) < 0.7 * injected(1.0)


def test_the_slowest_of_sixteen_explains_the_published_speedup() -> None:
    assert 16 / straggler_factor(16) == pytest.approx(15.3, rel=0.001)
    assert straggler_factor(1) == 1.0


def test_a_micro_batch_asked_for_is_used_and_an_impossible_one_refused() -> None:
    program = transformer_program(SMALL)
    timing = step_timing(program, machine=CS2, batch_size=64, micro_batch=16)
    assert (timing.micro_batch, timing.num_micro_batches) == (16, 4)
    with pytest.raises(UserError, match="not possible"):
        step_timing(program, machine=CS2, batch_size=64, micro_batch=0)
    with pytest.raises(UserError, match="largest tensor"):
        step_timing(program, machine=CS2, batch_size=100_000, micro_batch=100_000)


def test_a_batch_smaller_than_the_systems_is_refused() -> None:
    with pytest.raises(UserError, match="at least one sample"):
        time(batch=3, systems=4)


def test_utilization_is_below_one() -> None:
    assert 0 < time().utilization < 1


def test_zeros_of_weights_are_neither_sent_nor_multiplied_nor_updated() -> None:
    wide = replace(SMALL, hidden=4096, heads=32, ffn=16_384)
    dense, sparse = time(wide), time(replace(wide, density=0.1))
    assert sparse.compute_seconds < 0.5 * dense.compute_seconds
    assert sparse.injection_seconds < 0.5 * dense.injection_seconds
    assert sparse.reduction_seconds < 0.5 * dense.reduction_seconds
    assert sparse.update_seconds < 0.5 * dense.update_seconds


def test_weights_with_few_zeros_are_sent_dense() -> None:
    dense, sparse = time(), time(replace(SMALL, density=0.8))
    assert sparse.injection_seconds == pytest.approx(dense.injection_seconds)
    assert sparse.compute_seconds < dense.compute_seconds
