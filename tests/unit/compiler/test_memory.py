"""What a plan needs of the wafer, and how many samples are therefore computed at a time."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.compiler.memory import MemoryNeed, limit_memory
from appliance.compiler.pipeline import compile_program, plan_key
from appliance.core.errors import ProgramError
from appliance.core.micro_batches import UNLIMITED, WaferLimits, segments
from appliance.core.plan import Precision
from tests.support.plans import two_layer_plan

PROGRAMS = Path(__file__).parent / "programs"
GPT = (PROGRAMS / "gpt.mlir").read_text()
MLP = (PROGRAMS / "mlp.with-locations.mlir").read_text()
FEATURES, HIDDEN, CLASSES = 8, 16, 4
BATCH = 6


def plan():
    return two_layer_plan(batch_size=BATCH, features=FEATURES, hidden=HIDDEN, classes=CLASSES)


def limited(wafer_bytes, *, num_systems=1, **wishes):
    limits = WaferLimits(wafer_bytes=wafer_bytes, **wishes)
    return limit_memory(plan(), num_systems=num_systems, limits=limits)


def test_the_peak_is_what_lives_at_the_fullest_point():
    # Second layer's gradient: x and h wait for the backward pass; dp is read, dh made.
    per_sample = 4 * (FEATURES + HIDDEN + CLASSES + HIDDEN)
    need = MemoryNeed(plan())
    assert need.peak_bytes(1, BATCH) == per_sample
    assert need.peak_bytes(BATCH, BATCH) == BATCH * per_sample
    assert need.largest(1, BATCH).value in ("h", "dh")


def test_what_a_later_segment_reads_is_kept_for_the_whole_share():
    *before, second, last = plan().layer_steps
    waiting = replace(second, loads=(*second.loads, "loss"))
    split = replace(plan(), layer_steps=(*before, waiting, last))
    assert len(segments(split)) == 2
    need = MemoryNeed(split)
    kept = 4 * (FEATURES + HIDDEN + CLASSES)
    assert need.kept_bytes(BATCH) == BATCH * kept
    assert need.peak_bytes(1, BATCH) == BATCH * kept + 4 * HIDDEN


@pytest.mark.parametrize(("samples", "found"), [(1, 1), (2.5, 2), (4, 4), (6, None), (60, None)])
def test_as_many_samples_as_fit_are_computed_at_a_time(samples, found):
    per_sample = MemoryNeed(plan()).peak_bytes(1, BATCH)
    assert limited(int(samples * per_sample)).micro_batch_size == found


def test_more_systems_need_no_micro_batches():
    per_sample = MemoryNeed(plan()).peak_bytes(1, BATCH)
    assert limited(2 * per_sample, num_systems=2).micro_batch_size == 2
    assert limited(2 * per_sample, num_systems=3).micro_batch_size is None


def test_the_users_micro_batch_is_used_where_it_fits():
    per_sample = MemoryNeed(plan()).peak_bytes(1, BATCH)
    assert limited(4 * per_sample, micro_batch_size=3).micro_batch_size == 3
    assert limited(None, micro_batch_size=2).micro_batch_size == 2
    assert limited(None, micro_batch_size=100).micro_batch_size is None
    with pytest.raises(ProgramError) as refused:
        limited(2 * per_sample, micro_batch_size=5)
    assert str(refused.value) == (
        f"A micro-batch of 5 samples needs {5 * per_sample:,} bytes of wafer memory; one system "
        f'has {2 * per_sample:,}. Set micro_batch_size to 2 or less, or to "auto".'
    )


def test_a_share_that_may_not_be_split_has_to_fit():
    per_sample = MemoryNeed(plan()).peak_bytes(1, BATCH)
    assert limited(BATCH * per_sample, may_split=False).micro_batch_size is None
    with pytest.raises(ProgramError, match="A micro-batch of 6 samples needs"):
        limited(2 * per_sample, may_split=False)


def test_a_plan_without_layer_steps_needs_nothing():
    empty = replace(plan(), layer_steps=())
    assert limit_memory(empty, num_systems=1, limits=WaferLimits(wafer_bytes=0)) == empty
    assert MemoryNeed(empty).peak_bytes(BATCH, BATCH) == 0


def test_a_sample_that_does_not_fit_is_refused_with_the_largest_tensor():
    whole = compile_program(MLP, batch_size=4, precision=Precision.F32)
    need = MemoryNeed(whole).peak_bytes(1, 4)
    with pytest.raises(ProgramError) as refused:
        compile_program(
            MLP,
            batch_size=4,
            precision=Precision.F32,
            limits=WaferLimits(wafer_bytes=need - 1),
        )
    message = str(refused.value)
    assert f"needs {need:,} bytes of wafer memory; one system has {need - 1:,}." in message
    assert "The largest tensor is %" in message
    assert " bytes, made by " in message
    assert ".py:" in message, "the user's own line"
    assert message.endswith("Lower the sequence length, the hidden size or the number of layers.")


def test_a_wafer_two_thirds_of_the_need_splits_a_gpt():
    whole = compile_program(GPT, batch_size=4, precision=Precision.F32)
    limits = WaferLimits(wafer_bytes=int(MemoryNeed(whole).peak_bytes(4, 4) / 1.5))
    split = compile_program(GPT, batch_size=4, precision=Precision.F32, limits=limits)
    assert split.micro_batch_size == 2
    assert MemoryNeed(split).peak_bytes(2, 4) <= limits.wafer_bytes
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
