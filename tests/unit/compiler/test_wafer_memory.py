"""What a plan needs of the wafer, and how many samples are therefore computed at a time."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.compiler.pipeline import compile_program, plan_key
from appliance.compiler.wafer_memory import limit_memory
from appliance.core.errors import ProgramError
from appliance.core.plans.micro_batches import UNLIMITED, WaferLimits, segments
from appliance.core.plans.plan import Execution, Precision
from appliance.wafer.timing.pipelined import resident_need
from appliance.wafer.timing.plan_memory import plan_memory
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.sample_memory import need_bytes, samples_that_fit
from tests.support.plans import two_layer_plan

PROGRAMS = Path(__file__).parent / "programs"
GPT = (PROGRAMS / "gpt.mlir").read_text()
MLP = (PROGRAMS / "mlp.with-locations.mlir").read_text()
FEATURES, HIDDEN, CLASSES = 8, 16, 4
BATCH = 6


def plan():
    return two_layer_plan(batch_size=BATCH, features=FEATURES, hidden=HIDDEN, classes=CLASSES)


def limited(wafer_bytes, *, num_systems=1, **limits_asked_for):
    limits = WaferLimits(wafer_bytes=wafer_bytes, **limits_asked_for)
    return limit_memory(plan(), num_systems=num_systems, limits=limits)


def need(program, samples):
    return need_bytes(program_step(program), samples)


PER_SAMPLE = 4 * (FEATURES + HIDDEN)
"""First layer: x is read, h is made."""


def test_the_widest_layer_step_decides():
    memory = plan_memory(plan(), scores=set())
    assert memory.working_bytes == PER_SAMPLE
    assert memory.largest.name == "h"
    assert need(plan(), BATCH) == BATCH * PER_SAMPLE


def test_what_waits_between_layer_steps_is_known_with_its_time():
    held = {each.name: each for each in plan_memory(plan(), scores=set()).values}
    assert held["h"].first_step < held["h"].last_step
    assert held["h"].waiting_samples(1) == 1
    assert held["h"].waiting_samples(100) == held["h"].last_step - held["h"].first_step
    assert not any(each.waits_for_batch for each in held.values())


def test_what_a_later_segment_reads_waits_for_the_whole_share():
    *before, second, last = plan().layer_steps
    waiting = replace(second, loads=(*second.loads, "loss"))
    split = replace(plan(), layer_steps=(*before, waiting, last))
    held = {each.name: each for each in plan_memory(split, scores=set()).values}
    assert held["h"].waits_for_batch
    assert held["h"].waiting_samples(100) == 100
    assert program_step(split).num_segments == 2


def test_the_number_of_labels_is_known_before_the_pipeline_fills():
    sample = Path(__file__).parents[2] / "conformance" / "samples" / "gpt_adamw.mlir.gz"
    text = gzip.decompress(sample.read_bytes()).decode()
    counting = compile_program(text, batch_size=4, precision=Precision.F32)
    assert len(segments(counting)) == 2
    assert program_step(counting).num_segments == 1


@pytest.mark.parametrize(("samples", "found"), [(1, 1), (2.5, 2), (4, 4), (6, None), (60, None)])
def test_as_many_samples_as_fit_are_computed_at_a_time(samples, found):
    assert limited(int(samples * PER_SAMPLE)).micro_batch_size == found


def test_more_systems_need_no_micro_batches():
    assert limited(2 * PER_SAMPLE, num_systems=2).micro_batch_size == 2
    assert limited(2 * PER_SAMPLE, num_systems=3).micro_batch_size is None


def test_the_users_micro_batch_is_used_where_it_fits():
    assert limited(4 * PER_SAMPLE, micro_batch_size=3).micro_batch_size == 3
    assert limited(None, micro_batch_size=2).micro_batch_size == 2
    assert limited(None, micro_batch_size=100).micro_batch_size is None
    with pytest.raises(ProgramError) as refused:
        limited(2 * PER_SAMPLE, micro_batch_size=5)
    assert str(refused.value) == (
        f"A micro-batch of 5 samples needs {5 * PER_SAMPLE:,} bytes of wafer memory; one system "
        f'has {2 * PER_SAMPLE:,}. Set micro_batch_size to 2 or less, or to "auto".'
    )


def test_a_share_that_may_not_be_split_has_to_fit():
    assert limited(BATCH * PER_SAMPLE, may_split=False).micro_batch_size is None
    with pytest.raises(ProgramError, match="A micro-batch of 6 samples needs"):
        limited(2 * PER_SAMPLE, may_split=False)


def test_a_plan_without_layer_steps_needs_nothing():
    empty = replace(plan(), layer_steps=())
    assert limit_memory(empty, num_systems=1, limits=WaferLimits(wafer_bytes=0)) == empty


def test_a_sample_that_does_not_fit_is_refused_with_the_largest_tensor():
    whole = compile_program(MLP, batch_size=4, precision=Precision.F32)
    least = int(need(whole, 1))
    with pytest.raises(ProgramError) as refused:
        compile_program(
            MLP,
            batch_size=4,
            precision=Precision.F32,
            limits=WaferLimits(wafer_bytes=least - 1),
        )
    message = str(refused.value)
    assert f"needs {least:,} bytes of wafer memory; one system has {least - 1:,}." in message
    assert "The largest tensor is %" in message
    assert "tensor<1x16xf32> in 16 bits with 32 bytes" in message, "one sample's"
    assert " bytes, made by " in message
    assert ".py:" in message, "the user's own line"
    assert message.endswith("Lower the sequence length or the hidden size.")


def test_a_wafer_two_thirds_of_the_need_splits_a_gpt():
    whole = compile_program(GPT, batch_size=4, precision=Precision.F32)
    limits = WaferLimits(wafer_bytes=int(need(whole, 4) / 1.5))
    split = compile_program(GPT, batch_size=4, precision=Precision.F32, limits=limits)
    assert split.micro_batch_size == 2
    assert samples_that_fit(program_step(split), limits.wafer_bytes) == 2
    assert replace(split, key=whole.key, micro_batch_size=None) == whole


def test_a_key_tells_limits_apart_and_systems_where_there_are_limits():
    def key(num_systems, limits):
        return plan_key(
            "text",
            batch_size=4,
            precision=Precision.F32,
            num_systems=num_systems,
            limits=limits,
        )

    assert key(1, UNLIMITED) == key(2, UNLIMITED)
    small, large = WaferLimits(wafer_bytes=1), WaferLimits(wafer_bytes=2)
    assert len({key(n, limits) for n in (1, 2) for limits in (small, large)}) == 4


def executed(wafer_bytes, execution):
    limits = WaferLimits(wafer_bytes=wafer_bytes, execution=execution)
    return compile_program(GPT, batch_size=4, precision=Precision.F32, limits=limits)


def test_a_program_that_fits_is_pipelined_when_that_is_left_to_the_compiler():
    whole = compile_program(GPT, batch_size=4, precision=Precision.F32)
    least = int(resident_need(program_step(whole), 4).num_bytes) + 1
    assert whole.execution is Execution.WEIGHT_STREAMING
    assert executed(least, None).execution is Execution.PIPELINED
    assert executed(least - 2, None).execution is Execution.WEIGHT_STREAMING
    assert executed(least, Execution.WEIGHT_STREAMING).execution is Execution.WEIGHT_STREAMING


def test_a_program_that_cannot_be_pipelined_is_refused_with_its_largest_tensor():
    with pytest.raises(ProgramError) as refused:
        executed(100_000, Execution.PIPELINED)
    message = str(refused.value)
    assert message.startswith("Pipelined execution needs ")
    assert "one system has 100,000. The largest tensor is state.model." in message
    assert message.endswith("Use weight streaming, a smaller network or a shorter sequence.")


@pytest.mark.parametrize("format_name", ["float16", "bfloat16"])
def test_16_bit_values_count_16_bits_whatever_carries_them(format_name):
    text = GPT.replace('"float16"', f'"{format_name}"')
    carried = compile_program(text, batch_size=4, precision=Precision.F32)
    exact = compile_program(text, batch_size=4, precision=Precision.EXACT)
    assert carried.narrow
    assert not exact.narrow
    halves = {name for name, type_ in exact.types.items() if type_.dtype.is_half}
    assert halves & carried.types.keys() <= carried.narrow
    assert need(carried, 1) == pytest.approx(need(exact, 1), rel=0.15)
