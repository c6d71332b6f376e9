"""Where a program lies on the grid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.wafer.hardware import CS2
from appliance.wafer.planner.transformer import described_transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.grid import cell_loads, wafer_picture
from appliance.wafer.timing.layer_timing import step_timing

WORK = described_transformer(layers=4, hidden=512, heads=8, sequence=128, vocab=1000)


@given(st.integers(0, 5000), st.integers(48, 1200), st.integers(1, 48))
def test_loads_are_shares_of_the_fullest_line_and_nothing_is_lost(
    count: int, lines: int, cells: int
) -> None:
    loads = cell_loads(count, lines, cells)
    fullest = -(-count // lines)
    assert len(loads) == cells
    assert all(0 <= load <= 1 for load in loads)
    held = sum(load * lines / cells * fullest for load in loads)
    assert held == pytest.approx(count, abs=1e-3 * lines * max(fullest, 1))


def test_few_features_leave_columns_empty() -> None:
    loads = cell_loads(375, 750, 10)
    assert loads == pytest.approx([1.0] * 5 + [0.0] * 5)


def test_a_picture_shows_every_layer_step_and_its_whole_time() -> None:
    program = transformer_program(WORK)
    timing = step_timing(program, machine=CS2, batch_size=32, num_systems=1)
    picture = wafer_picture(program, timing, machine=CS2)

    assert [layer.name for layer in picture.layers] == [layer.name for layer in timing.layers]
    assert picture.micro_batch == timing.micro_batch
    for layer in picture.layers:
        assert sum(each.share_of_cycles for each in layer.patterns) == pytest.approx(1, abs=1e-2)
        assert 0 < layer.busy_share <= 1
        least = layer.simulated_compute_seconds + layer.simulated_change_seconds
        assert least <= layer.simulated_seconds * 1.000001
        assert layer.simulated_weight_bytes_per_second <= picture.link_bytes_per_second * 1.001
    one = picture.layers[-1].simulated_start_seconds + picture.layers[-1].simulated_seconds
    step = picture.num_micro_batches * one + picture.simulated_boundary_seconds
    assert picture.simulated_step_seconds == pytest.approx(step)


def test_features_that_fill_every_column_evenly_keep_all_pes_busy() -> None:
    assert cell_loads(1500, 750, 12) == pytest.approx([1.0] * 12)


def test_attention_lies_head_by_head_and_leaves_the_columns_that_no_head_gets() -> None:
    """7 heads of 64 features get 64 of their 107 columns each; a dense product fills 448."""
    program = transformer_program(
        described_transformer(layers=1, hidden=448, heads=7, sequence=128, vocab=1000)
    )
    timing = step_timing(program, machine=CS2, batch_size=32)
    block = wafer_picture(program, timing, machine=CS2).layers[1]
    (attention,) = (each for each in block.patterns if each.kind in ("scores", "context"))
    assert (attention.features, attention.features_per_pe) == (448, 1)
    assert sum(attention.column_loads) * 750 / 48 == pytest.approx(448, rel=1e-3)
