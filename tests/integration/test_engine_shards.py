"""Several MemoryX shards on real processes give the bits of one, however their pods are joined."""

import dataclasses

import pytest

from tests.integration.test_engine_samples import load_sample
from tests.support.engine import make_engine, separate_hosts

pytestmark = pytest.mark.slow

SAMPLES = ("gpt_adamw", "dynamic_loss_scale", "cnn_bn_pool")


def run_all(directory, plans, **options):
    """Return what sessions of the plans yield, one after the other on the same pods."""
    directory.mkdir()
    with make_engine(directory, num_systems=1, **options) as engine:
        results = [
            engine.run(plan, state, batches, session=session, checkpoint_steps=[1, len(batches)])
            for session, (plan, state, batches) in enumerate(plans, start=1)
        ]
        assert engine.job.coordinator.failures.empty()
    return results


def bits(tensors):
    return {name: tensor.tobytes() for name, tensor in tensors.items()}


def assert_same_bits(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert list(map(bits, one.outputs)) == list(map(bits, other.outputs))
        assert {n: bits(s) for n, s in one.snapshots.items()} == {
            n: bits(s) for n, s in other.snapshots.items()
        }


def test_shards_give_the_bits_of_one(tmp_path):
    plans = [load_sample(name)[:3] for name in SAMPLES]
    plan, state, batches = plans[0]
    plans.append((dataclasses.replace(plan, micro_batch_size=1), state, batches))
    wanted = run_all(tmp_path / "one", plans)
    assert_same_bits(run_all(tmp_path / "ring", plans, num_shards=3), wanted)
    mapped = run_all(tmp_path / "map", plans[:1], num_shards=2, streams="mapped")
    assert_same_bits(mapped, wanted[:1])
    hosts = separate_hosts(1, num_shards=2)
    assert_same_bits(run_all(tmp_path / "net", plans[:2], num_shards=2, hosts=hosts), wanted[:2])
