"""Programs traced by the client, run step after step, give the numbers of its CPU backend.

A sample is described in `samples/generate.py`. Programs named `op.*` exercise one framework
operation each, forward and backward.
"""

import gzip
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from appliance.compiler.importer import import_program
from appliance.compiler.pipeline import lower, normal_form
from appliance.core.ir.graph import Argument, Graph
from appliance.core.plans.plan import Precision
from appliance.numerics import reference
from appliance.numerics.programs.program import Program

SAMPLES = Path(__file__).parent / "samples"
LEFT_OUT = {
    "op.pixel_shuffle",  # the client loses the whole forward pass and writes zeros instead
}

NAMES = sorted(
    {path.name.removesuffix(".mlir.gz") for path in SAMPLES.glob("*.mlir.gz")} - LEFT_OUT
)
OF_RELEASES = sorted(
    path.relative_to(SAMPLES).as_posix().removesuffix(".mlir.gz")
    for path in SAMPLES.glob("releases/*/*.mlir.gz")
)
"""Texts of older releases of the client that differ from the newest one's (`release.py`)."""

LARGE = 400
"""Nodes above which the definitions, which are slow, run for one step only."""

# The text writes a constant of 16-bit type with 16-bit precision, and the lowerings of some
# functions are approximations or rest on such a constant (1 / log 10, the derivative of erf); the
# CPU backend has neither.
LOOSE = {
    "op.acos": 1e-3,
    "op.acosh": 1e-4,
    "op.asin": 1e-3,
    "op.erf": 1e-4,
    "op.log10": 1e-3,
}


@cache  # three tests run the graph of each sample
def load(name: str) -> tuple[Graph, Mapping[str, np.ndarray]]:
    text = gzip.decompress((SAMPLES / f"{name}.mlir.gz").read_bytes()).decode()
    graph = lower(normal_form(import_program(text)), precision=Precision.F32)
    return graph, dict(np.load(SAMPLES / f"{Path(name).name}.npz"))


def num_steps(golden: Mapping[str, np.ndarray]) -> int:
    return next(array.shape[0] for key, array in golden.items() if key.startswith("input/"))


def contained(argument: Argument, array: np.ndarray) -> np.ndarray:
    """Return an array in the container of its type as computed with."""
    return np.asarray(array, dtype=argument.type.dtype.container)


class Machine:
    """Runs a whole graph on one table of values, step after step."""

    def __init__(self, graph: Graph, golden: Mapping[str, np.ndarray]) -> None:
        self.graph = graph
        self.state = [a for a in graph.arguments if a.resource_name is not None]
        self.values = {
            a.name: contained(a, golden[f"initial/{a.resource_name}"]) for a in self.state
        }

    def step(self, run, golden: Mapping[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
        """Run one step; return its outputs by name."""
        table = dict(self.values)
        for argument in self.graph.arguments:
            if argument.input_name is not None:
                batch = golden[f"input/{argument.input_name}"][step]
                table[argument.name] = contained(argument, batch)
        results = run(self.graph, table, step)
        for argument in self.state:
            if argument.aliased_result is not None:
                new = results[self.graph.results[argument.aliased_result].value]
                self.values[argument.name] = new
        named = [r for r in self.graph.results if r.output_name is not None]
        return {r.output_name: results[r.value] for r in named}


def by_definitions(graph: Graph, table: dict[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
    for node in graph.nodes:
        operands = [table[name] for name in node.operands]
        table.update(zip(node.results, reference.evaluate(node, operands, step=step), strict=True))
    return table


def by_program(graph: Graph):
    live_out = {result.value for result in graph.results}
    arguments = {argument.name: argument.type for argument in graph.arguments}
    program = Program(graph.nodes, types=arguments, live_out=live_out)

    def run(_graph: Graph, table: dict[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
        values = {name: torch.from_numpy(np.array(array)) for name, array in table.items()}
        program.run(values, step=step)
        assert live_out <= values.keys() <= live_out | arguments.keys()
        return {name: value.numpy() for name, value in values.items()}

    return run


def assert_golden(name: str, found: np.ndarray, golden: np.ndarray, tolerance: float) -> None:
    scale = np.nanmax(np.abs(golden[np.isfinite(golden)]), initial=0.0)
    np.testing.assert_allclose(
        found, golden, rtol=tolerance, atol=tolerance * scale, equal_nan=True, err_msg=name
    )


def check(name: str, graph: Graph, golden: Mapping[str, np.ndarray], run, steps: int) -> Machine:
    tolerance = LOOSE.get(name, 1e-5)
    machine = Machine(graph, golden)
    for step in range(steps):
        for output, value in machine.step(run, golden, step).items():
            if f"output/{output}" in golden:
                assert_golden(output, value, golden[f"output/{output}"][step], tolerance)
    return machine


def has_noise_gradient(resource_name: str, index: np.ndarray) -> np.ndarray:
    """Mark the elements whose gradient is zero but for rounding, which Adam then divides by itself.

    A constant added to every key of a softmax changes nothing, and neither does one added in front
    of a batch norm.
    """
    if resource_name.endswith("attention.qkv.bias"):
        third = index.size // 3
        return (index >= third) & (index < 2 * third)
    if "conv2.bias" in resource_name or "state.4.momentum_buffer" in resource_name:
        return np.ones(index.shape, dtype=bool)
    return np.zeros(index.shape, dtype=bool)


@pytest.mark.parametrize("name", NAMES)
def test_a_traced_program_gives_the_numbers_of_the_cpu_backend(name):
    graph, golden = load(name)
    machine = check(name, graph, golden, by_program(graph), num_steps(golden))
    for argument in machine.state:
        key = f"final/{argument.resource_name}"
        if key not in golden:
            continue
        found, expected = machine.values[argument.name], golden[key]
        noise = has_noise_gradient(argument.resource_name, np.arange(expected.size))
        kept = ~noise.reshape(expected.shape)
        tolerance = max(1e-4, LOOSE.get(name, 0.0))
        assert_golden(argument.resource_name, found[kept], expected[kept], tolerance)


@pytest.mark.parametrize("name", OF_RELEASES)
def test_the_text_of_an_older_release_gives_the_numbers_of_the_newest(name):
    graph, golden = load(name)
    check(name, graph, golden, by_program(graph), num_steps(golden))


@pytest.mark.parametrize("name", NAMES)
def test_the_definitions_give_the_numbers_of_the_cpu_backend(name):
    graph, golden = load(name)
    check(name, graph, golden, by_definitions, 1 if len(graph.nodes) > LARGE else num_steps(golden))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("op.", "omit."))])
def test_a_program_gives_the_same_bits_every_time(name):
    graph, golden = load(name)
    first, second = Machine(graph, golden), Machine(graph, golden)
    run = by_program(graph)
    for step in range(2):
        one, two = (machine.step(run, golden, step) for machine in (first, second))
        for output, value in one.items():
            assert value.tobytes() == two[output].tobytes(), output
    for argument in first.state:
        assert first.values[argument.name].tobytes() == second.values[argument.name].tobytes()


@pytest.mark.parametrize("name", ["mlp_sgd", "cnn_bn_pool", "gpt_adamw", "llama_like"])
@pytest.mark.parametrize("half", ["float16", "bfloat16", "cbfloat16"])
def test_exact_precision_stays_near_float32_in_every_format(name, half):
    text = gzip.decompress((SAMPLES / f"{name}.mlir.gz").read_bytes()).decode()
    graph = normal_form(import_program(text))
    graph = replace(graph, attributes={**graph.attributes, "cs.fp16_type": half})
    graph = lower(graph, precision=Precision.EXACT)
    golden = np.load(SAMPLES / f"{name}.npz")
    machine, run = Machine(graph, golden), by_program(graph)
    losses = [
        float(machine.step(run, golden, step)["output_loss"]) for step in range(num_steps(golden))
    ]
    tolerance = 3e-2 if half == "bfloat16" else 5e-3
    np.testing.assert_allclose(losses, golden["output/output_loss"], rtol=tolerance)
    assert losses != golden["output/output_loss"].tolist()
