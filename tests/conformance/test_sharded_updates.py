"""The update part of traced programs gives the same bits on any number of MemoryX shards."""

import random

import numpy as np
import pytest
import torch

from appliance.core.plans.plan import Precision
from tests.conformance.test_plans import NAMES, load
from tests.support.played_shards import play_shards

MODELS = [name for name in NAMES if "." not in name]
NUM_STEPS = 3


def sums_of(plan, seed, *, overflows):
    """Return made-up sums of one step; those that overflow are what a loss scale is there for."""
    generator = np.random.default_rng(seed)
    found = {}
    for step in plan.layer_steps:
        for total, type_ in plan.sum_types(step):
            values = np.asarray(generator.normal(size=type_.shape))
            if overflows:
                values = np.where(generator.random(type_.shape) < 0.5, np.inf, values)
            container = type_.dtype.container
            if container.kind in "iub":
                values = generator.integers(0, 2, size=type_.shape)
            found[total] = torch.from_numpy(np.array(values, dtype=container))
    return found


def state_of(plan, golden):
    return {
        tensor.value: torch.from_numpy(
            np.array(golden[f"initial/{tensor.resource_name}"], tensor.type.dtype.container)
        )
        for tensor in plan.state
    }


def bits(tensors):
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_shards_gives_the_bits_of_one(name, precision):
    plan, golden = load(name, precision)
    state = state_of(plan, golden)
    sums = [sums_of(plan, step, overflows=step == 1) for step in range(NUM_STEPS)]
    outputs, final, computed = play_shards(plan, state, sums, 1, lambda count: 0)
    for num_shards in (2, 3, 5):
        chance = random.Random(num_shards)
        found, state_found, computed_found = play_shards(
            plan, state, sums, num_shards, chance.randrange
        )
        assert list(map(bits, found)) == list(map(bits, outputs))
        assert bits(state_found) == bits(final)
        assert bits(computed_found) == bits(computed)
