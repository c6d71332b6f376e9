import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.errors import UserError
from appliance.wafer.hardware import CS2, CS3, machine_from_mapping
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.sample_memory import (
    largest_micro_batch,
    memory_use,
    micro_batch_choices,
)


def gpt(layers: int, hidden: int) -> Transformer:
    return Transformer(
        name="gpt",
        layers=layers,
        hidden=hidden,
        heads=hidden // 128,
        ffn=4 * hidden,
        vocab=50257,
        sequence=2048,
    )


@pytest.mark.parametrize(
    ("layers", "hidden", "published"),
    [
        (24, 2048, 253),
        (32, 2560, 198),
        (40, 5120, 99),
        (44, 6144, 77),
        (48, 8192, 55),
        (80, 8192, 55),
        (96, 12288, 35),
    ],
)
def test_the_published_micro_batches_come_out(layers: int, hidden: int, published: int) -> None:
    ours = largest_micro_batch(transformer_program(gpt(layers, hidden)), CS2)
    assert ours == pytest.approx(published, rel=0.25)


def test_a_block_waits_from_its_forward_pass_to_its_backward_pass() -> None:
    """The head's two passes come between the last block's, all others between the first's."""
    waiting = transformer_program(gpt(3, 2048)).waiting
    assert [steps for _, steps in waiting] == [3, 5, 7]
    assert len({size for size, _ in waiting}) == 1


@settings(max_examples=40, deadline=None)
@given(share=st.integers(1, 3000))
def test_every_choice_fits_and_the_first_makes_the_fewest_passes(share: int) -> None:
    program = transformer_program(gpt(24, 2048))
    choices = micro_batch_choices(program, CS2, share)
    assert all(memory_use(program, CS2, micro).fits for micro in choices)
    assert -(-share // choices[0]) == -(-share // largest_micro_batch(program, CS2))


def test_the_second_choice_keeps_the_boundaries_on_the_wafer() -> None:
    program = transformer_program(gpt(24, 2048))
    spilling, resident = micro_batch_choices(program, CS2, 200)
    assert memory_use(program, CS2, spilling).spills
    assert not memory_use(program, CS2, resident).spills


def test_one_more_sample_than_the_largest_micro_batch_does_not_fit() -> None:
    program = transformer_program(gpt(24, 2048))
    most = largest_micro_batch(program, CS2)
    assert memory_use(program, CS2, most).fits
    assert not memory_use(program, CS2, most + 1).fits


def test_the_larger_wafer_takes_more_samples() -> None:
    program = transformer_program(gpt(24, 2048))
    assert largest_micro_batch(program, CS3) > largest_micro_batch(program, CS2)


def test_depth_changes_only_what_leaves_the_wafer() -> None:
    shallow, deep = transformer_program(gpt(2, 2048)), transformer_program(gpt(64, 2048))
    assert largest_micro_batch(shallow, CS2) == largest_micro_batch(deep, CS2)
    assert not memory_use(shallow, CS2, 10).spills
    assert memory_use(deep, CS2, 200).spills


def test_where_not_even_one_sample_fits_the_largest_tensor_is_named() -> None:
    tiny = machine_from_mapping({"name": "tiny", "grid_width": 8, "grid_height": 8})
    with pytest.raises(UserError, match="largest tensor is feed-forward activations"):
        micro_batch_choices(transformer_program(gpt(24, 2048)), tiny, 1)
