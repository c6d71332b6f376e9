from dataclasses import replace

import pytest

from appliance.wafer.hardware import CS2, CS3
from appliance.wafer.planner.phases import phase_times
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.pipelined import pipelined_timing
from benchmarks.wafer_model import mesh_products, stencil
from benchmarks.wafer_model.logs import BERT_LARGE_128, GPT_J_6B

FAST_CS2 = replace(CS2, clock_hertz=mesh_products.WAFERLLM_CLOCK_HERTZ)


def test_two_stencil_points_predict_the_other_three() -> None:
    points = stencil.PUBLISHED_CYCLES
    costs = stencil.fit_costs(stencil.SEISMIC_25_POINT, (points[0], points[-1]))
    for depth, cycles in points:
        ours = stencil.step_cycles(stencil.SEISMIC_25_POINT, depth, costs)
        assert ours == pytest.approx(cycles, rel=0.05)


def test_fitted_stencil_costs_are_physical() -> None:
    points = stencil.PUBLISHED_CYCLES
    costs = stencil.fit_costs(stencil.SEISMIC_25_POINT, (points[0], points[-1]))
    assert 0 < costs.stall < 0.116
    assert CS2.vector_start_cycles <= costs.start_cycles <= CS2.vector_setup_cycles


def test_waferllm_matrix_vector_product_takes_the_measured_time() -> None:
    cycles = mesh_products.gemv_cycles(16384, 16384, side=750, machine=FAST_CS2)
    assert FAST_CS2.seconds(cycles) == pytest.approx(1.2e-6, rel=0.15)


@pytest.mark.parametrize(("side", "rate"), [(480, 20320.6), (600, 25037.2), (720, 27686.5)])
def test_waferllm_prefill_rate_is_reproduced(side: int, rate: float) -> None:
    ours = mesh_products.prefill_tokens_per_second(
        mesh_products.LLAMA3_8B, 4096, side=side, machine=FAST_CS2
    )
    assert ours == pytest.approx(rate, rel=0.25)


def test_decoding_gets_slower_on_larger_meshes_as_measured() -> None:
    rates = [
        mesh_products.decode_tokens_per_second(
            mesh_products.LLAMA3_8B, 4096, side=side, machine=FAST_CS2
        )
        for side in (420, 540, 660)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates == pytest.approx([2699.9, 2501.5, 2243.3], rel=0.25)


def test_pipelined_bert_large_runs_at_the_logged_rate() -> None:
    timing = pipelined_timing(transformer_program(BERT_LARGE_128), machine=CS2, batch_size=1024)
    assert timing.memory.fits
    assert timing.samples_per_second == pytest.approx(7023, rel=0.2)
    assert timing.samples_per_second == pytest.approx(6493, rel=0.2)


def test_a_network_larger_than_the_wafer_cannot_be_pipelined() -> None:
    timing = pipelined_timing(transformer_program(GPT_J_6B), machine=CS2, batch_size=60)
    assert not timing.memory.fits


def test_a_larger_model_takes_longer_in_every_phase_that_moves_it() -> None:
    small, large = phase_times(0.34e9, CS2), phase_times(6.7e9, CS2)
    assert large.compile > small.compile
    assert large.send_weights > small.send_weights
    assert large.checkpoint > small.checkpoint
    assert large.until_running > small.until_running


def test_staging_takes_the_logged_time_to_the_first_step() -> None:
    assert phase_times(6.7e9, CS2).until_running == pytest.approx(288, rel=0.1)
    assert phase_times(6.7e9, CS3).until_running == pytest.approx(334, rel=0.1)
