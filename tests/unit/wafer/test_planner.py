import pytest

from appliance.core.errors import UserError
from appliance.wafer.hardware import CS2, CS3
from appliance.wafer.planner.planner import curve_counts, estimate
from appliance.wafer.planner.scaling_law import compute_optimal_loss, mup_advice
from appliance.wafer.planner.transformer import Transformer, described_transformer
from appliance.wafer.planner.transformer_program import transformer_program
from benchmarks.wafer_model.logs import GPT_J_6B


def test_an_estimate_is_consistent_with_itself() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, num_systems=4, batch_size=240, tokens=120e9)
    assert plan.tokens_per_second == pytest.approx(plan.step.samples_per_second * 2048)
    assert plan.days * 86_400 * plan.tokens_per_second == pytest.approx(120e9)
    assert plan.energy_kwh == pytest.approx(4 * 23 * plan.days * 24)
    assert plan.memoryx_bytes == pytest.approx(20 * plan.num_parameters)
    assert plan.weak_scaling[0].speedup == 1.0
    assert plan.num_parameters == pytest.approx(6.05e9, rel=0.01)


def test_one_trillion_parameters_scale_as_published() -> None:
    model = Transformer(
        name="1T",
        layers=128,
        hidden=25600,
        heads=200,
        ffn=102400,
        vocab=50257,
        sequence=2048,
    )
    curve = estimate(model, machine=CS3, num_systems=192).weak_scaling
    speedups = {point.num_systems: point.speedup for point in curve}
    assert speedups[16] == pytest.approx(15.3, rel=0.05)
    assert 160 < speedups[192] < 192


def test_speedup_grows_along_both_curves_but_never_beyond_the_systems() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, num_systems=48, batch_size=480)
    for curve in (plan.weak_scaling, plan.strong_scaling):
        speedups = [point.speedup for point in curve]
        assert speedups == sorted(speedups)
        assert all(point.speedup <= point.num_systems for point in curve)


def test_without_a_batch_every_system_is_filled_once() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, num_systems=2)
    assert plan.step.num_micro_batches == 1
    assert plan.step.memory.fits


def test_a_longer_training_takes_proportionally_longer() -> None:
    short = estimate(GPT_J_6B, machine=CS2, batch_size=60, tokens=1e9)
    long = estimate(GPT_J_6B, machine=CS2, batch_size=60, tokens=3e9)
    assert long.days == pytest.approx(3 * short.days)


def test_a_program_has_no_family_and_so_no_loss_or_advice() -> None:
    plan = estimate(transformer_program(GPT_J_6B), machine=CS2, batch_size=60)
    assert plan.loss is None
    assert plan.mup is None


def test_no_systems_are_refused() -> None:
    with pytest.raises(UserError, match="at least 1"):
        estimate(GPT_J_6B, machine=CS2, num_systems=0)


def test_curves_have_powers_of_two_and_the_number_itself() -> None:
    assert curve_counts(1) == (1,)
    assert curve_counts(12) == (1, 2, 4, 8, 12)
    assert curve_counts(16) == (1, 2, 4, 8, 16)


def test_the_scaling_law_is_the_published_one_and_falls_with_compute() -> None:
    assert compute_optimal_loss(5.984e22) == pytest.approx(1.5066)
    assert compute_optimal_loss(1e24) < compute_optimal_loss(1e20)
    with pytest.raises(ValueError, match="above 0"):
        compute_optimal_loss(0)


def test_the_proxy_model_transfers_to_itself_unchanged() -> None:
    advice = mup_advice(256, 64)
    assert advice.matrix_learning_rate == advice.embedding_learning_rate
    assert advice.output_multiplier == 1
    assert mup_advice(2560, 128).matrix_learning_rate == pytest.approx(6e-4)


@pytest.mark.parametrize(
    "change",
    [{"layers": 0}, {"heads": 3}, {"kv_heads": 3}, {"density": 0.0}],
)
def test_an_impossible_model_is_refused(change: dict[str, float]) -> None:
    dimensions = {
        "layers": 2,
        "hidden": 64,
        "heads": 4,
        "ffn": 256,
        "vocab": 100,
        "sequence": 32,
        **change,
    }
    with pytest.raises(UserError, match="Model 'bad'"):
        Transformer(name="bad", **dimensions)  # type: ignore[arg-type]


def test_sparsity_is_another_way_to_say_density() -> None:
    sparse = described_transformer(layers=2, hidden=256, sparsity=0.9)
    assert sparse.density == pytest.approx(0.1)
    assert described_transformer(layers=2, hidden=256, density=0.25, sparsity=0.75).density == 0.25
    with pytest.raises(UserError, match=r"sparsity of 1.* is not in \[0, 1\)"):
        described_transformer(layers=2, hidden=256, sparsity=1.0)
    with pytest.raises(UserError, match=r"is a density of 0\.1, not of 0\.5"):
        described_transformer(layers=2, hidden=256, density=0.5, sparsity=0.9)


def test_memoryx_keeps_what_is_not_zero_and_where_it_is() -> None:
    shape = {"layers": 24, "hidden": 2048, "vocab": 0}
    dense, sparse = (
        estimate(described_transformer(**shape, density=density), machine=CS2, num_systems=1)
        for density in (1.0, 0.1)
    )
    assert sparse.memoryx_bytes / dense.memoryx_bytes == pytest.approx(0.11, abs=0.005)
