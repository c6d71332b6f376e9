"""Batch norms in evaluation are trained through, on small graphs run by the definitions."""

import numpy as np
import pytest
import torch

from appliance.compiler.passes.decompositions import freeze_norms
from appliance.core.errors import ProgramError
from appliance.core.ir.ops import verify_ops
from appliance.numerics import reference
from tests.support.graphs import GraphBuilder

CHANNELS, EPSILON = 3, 0.25
SHAPE = (4, CHANNELS, 2, 2)
COMMON = {"epsilon": EPSILON, "data_format": "NCHW", "is_training": False}


def frozen_norm(num_statistics):
    """A value, normalised with so many running statistics in turn, and one gradient."""
    builder = GraphBuilder()
    dy, x = (builder.batch(*SHAPE, name=name) for name in ("dy", "x"))
    scale, offset = (builder.batch(CHANNELS, name=name) for name in ("scale", "offset"))
    for turn in range(num_statistics):
        names = (f"mean{turn}", f"variance{turn}")
        statistics = [builder.batch(CHANNELS, name=name) for name in names]
        y, *_ = builder.ops(
            "FusedBatchNorm",
            *(x, scale, offset, *statistics),
            shapes=[SHAPE, (CHANNELS,), (CHANNELS,)],
            exponential_avg_factor=0.0,
            **COMMON,
        )
        builder.output(y)
    shapes = [SHAPE, (CHANNELS,), (CHANNELS,)]
    for value in builder.ops("FusedBatchNormGrad", dy, x, scale, shapes=shapes, **COMMON):
        builder.output(value)
    return builder.graph()


def test_the_gradients_are_pytorchs_with_running_statistics():
    draw = np.random.default_rng(5)
    dy, x = (draw.normal(size=SHAPE).astype(np.float32) for _ in range(2))
    scale, offset, mean = (draw.normal(size=CHANNELS).astype(np.float32) for _ in range(3))
    variance = draw.uniform(0.5, 2.0, CHANNELS).astype(np.float32)
    graph = freeze_norms(frozen_norm(1))
    verify_ops(graph)
    given = (dy, x, scale, offset, mean, variance)
    table = dict(zip((a.name for a in graph.arguments), given, strict=True))
    for node in graph.nodes:
        operands = [table[name] for name in node.operands]
        table.update(zip(node.results, reference.evaluate(node, operands, step=0), strict=True))
    found = [table[result.value] for result in graph.results]

    leaves = [torch.from_numpy(value).requires_grad_() for value in (x, scale, offset)]
    statistics = torch.from_numpy(mean), torch.from_numpy(variance)
    y = torch.nn.functional.batch_norm(leaves[0], *statistics, *leaves[1:], eps=EPSILON)
    y.backward(torch.from_numpy(dy))
    expected = [y.detach(), *(leaf.grad for leaf in leaves)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_statistics", [0, 2])
def test_a_gradient_whose_statistics_the_program_does_not_tell_is_refused(num_statistics):
    with pytest.raises(ProgramError, match=f"{num_statistics} batch norms have normalised"):
        freeze_norms(frozen_norm(num_statistics))


def test_other_programs_stay_as_they_are():
    builder = GraphBuilder()
    builder.output(builder.op("Tanh", builder.batch(4, 3)))
    graph = builder.graph()
    assert freeze_norms(graph) == graph
