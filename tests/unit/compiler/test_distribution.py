"""Whatever a program computes, it computes the same on any number of systems.

Programs are drawn at random, cut into a plan, and played on 1, 2 and 3 systems, at once and in
micro-batches; the graph run as it stands says what is right.
"""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.compiler.pipeline import compile_graph, lower, normal_form
from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Precision
from appliance.numerics.programs.program import Program
from tests.support.graphs import GraphBuilder, at
from tests.support.plan_machine import PlanMachine, tensor

BATCH = 6
ELEMENTWISE = ["Add", "Sub", "Mul"]
UNARY = ["Tanh", "Sigmoid", "Abs", "Relu"]


class Drawing:
    """Draws one operation after the other onto values drawn from those there are."""

    def __init__(self, data) -> None:
        self.data = data
        self.builder = GraphBuilder(location=at("blocks.0"))
        self.values = [
            self.builder.batch(BATCH, 4),
            self.builder.batch(2 * BATCH, 2, name="y"),
            self.builder.state(4, 4, resource="state.model.blocks.0.w"),
            self.builder.state(BATCH, 4, name="p", resource="state.model.blocks.0.p"),
        ]

    def draw(self, strategy):
        return self.data.draw(strategy)

    def value(self, rank: int | None = None) -> str:
        names = [n for n in self.values if rank is None or len(self.shape(n)) == rank]
        return self.draw(st.sampled_from(names))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.builder.types[name].shape

    def axis(self, name: str) -> int:
        return self.draw(st.integers(0, len(self.shape(name)) - 1))

    def add(self) -> None:
        kind = self.draw(st.sampled_from(sorted(KINDS)))
        added = KINDS[kind](self)
        if added is not None and np.prod(self.shape(added)) <= 2000:
            self.values.append(added)


def unary(d: Drawing) -> str:
    return d.builder.op(d.draw(st.sampled_from(UNARY)), d.value())


def binary(d: Drawing) -> str:
    a = d.value()
    same = [n for n in d.values if d.shape(n) == d.shape(a)]
    return d.builder.op(d.draw(st.sampled_from(ELEMENTWISE)), a, d.draw(st.sampled_from(same)))


def with_constant(d: Drawing) -> str:
    a = d.value()
    shape = d.shape(a)
    if d.draw(st.booleans()):
        other = d.builder.splat(0.5, *shape)
    else:
        other = d.builder.const(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape))
    return d.builder.op("Mul", a, other)


def matmul(d: Drawing) -> str | None:
    a = d.value(2) if any(len(d.shape(n)) == 2 for n in d.values) else None
    if a is None:
        return None
    transpose_a, transpose_b = d.draw(st.booleans()), d.draw(st.booleans())
    inner = d.shape(a)[0 if transpose_a else 1]
    fitting = [
        n for n in d.values if len(d.shape(n)) == 2 and d.shape(n)[1 if transpose_b else 0] == inner
    ]
    if not fitting:
        return None
    product = d.builder.op(
        "MatMul",
        a,
        d.draw(st.sampled_from(fitting)),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    return d.builder.op("Tanh", product)


def reduce(d: Drawing) -> str | None:
    a = d.value()
    rank = len(d.shape(a))
    if rank == 0:
        return None
    dims = tuple(sorted(d.draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    kind = d.draw(st.sampled_from(["ADD", "MAX", "MEAN"]))
    kept = dims if d.draw(st.booleans()) else ()
    found = d.builder.op("Reduce", a, dimensions=dims, keep_dims=kept, reduce_kind=kind)
    return d.builder.op("Tanh", found)


def broadcast(d: Drawing) -> str | None:
    a = d.value()
    shape = d.shape(a)
    if len(shape) > 3:
        return None
    where = d.draw(st.integers(0, len(shape)))
    size = d.draw(st.sampled_from([1, 2, BATCH]))
    result = (*shape[:where], size, *shape[where:])
    dims = tuple(i + (i >= where) for i in range(len(shape)))
    return d.builder.op("BroadcastInDim", a, shape=result, broadcast_dimensions=dims)


def transpose(d: Drawing) -> str:
    a = d.value()
    permutation = tuple(d.draw(st.permutations(range(len(d.shape(a))))))
    return d.builder.op("Transpose", a, permutation=permutation)


def reshape(d: Drawing) -> str:
    a = d.value()
    rest, sizes = int(np.prod(d.shape(a))), []
    while rest > 1 and len(sizes) < 3:
        size = d.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
        sizes.append(size)
        rest //= size
    return d.builder.op("Reshape", a, shape=(*sizes, rest))


def softmax(d: Drawing) -> str | None:
    a = d.value()
    return d.builder.op("Softmax", a, axis=d.axis(a)) if d.shape(a) else None


def cumulate(d: Drawing) -> str | None:
    a = d.value()
    if not d.shape(a):
        return None
    found = d.builder.op("CumSum", a, axis=d.axis(a), exclusive=False, reverse=False)
    return d.builder.op("Tanh", found)


def concat(d: Drawing) -> str | None:
    a = d.value()
    if not d.shape(a):
        return None
    return d.builder.op("Concat", a, a, axis=d.axis(a))


def cut(d: Drawing) -> str | None:
    a = d.value()
    shape = d.shape(a)
    if not shape:
        return None
    axis = d.axis(a)
    begin = d.draw(st.integers(0, shape[axis] - 1))
    end = d.draw(st.integers(begin + 1, shape[axis]))
    begins, ends = [0] * len(shape), list(shape)
    begins[axis], ends[axis] = begin, end
    return d.builder.op(
        "StridedSlice", a, begin=tuple(begins), end=tuple(ends), stride=(1,) * len(shape)
    )


def split(d: Drawing) -> str | None:
    a = d.value()
    shape = d.shape(a)
    if not shape or shape[axis := d.axis(a)] % 2:
        return None
    sizes = (shape[axis] // 2,) * 2
    return d.builder.ops("Split", a, axis=axis, split_sizes=sizes)[d.draw(st.integers(0, 1))]


def norm(d: Drawing) -> str | None:
    a = d.value()
    if not d.shape(a):
        return None
    found = d.builder.op("L2Norm", a, dims=(d.axis(a),), keepdim=d.draw(st.booleans()))
    return d.builder.op("Tanh", found)


def mask(d: Drawing) -> str:
    a = d.value()
    zero = d.builder.splat(0.0, *d.shape(a))
    compared = d.builder.op("Compare", a, zero, dtype=DType.I1, comparison_direction="GT")
    return d.builder.op("Select", compared, a, zero, dtype=DType.F32)


KINDS = {
    rule.__name__: rule
    for rule in (
        *(unary, binary, with_constant, matmul, reduce, broadcast, transpose, reshape, softmax),
        *(cumulate, concat, cut, split, norm, mask),
    )
}


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_program_gives_the_same_numbers_on_any_number_of_systems(data):
    drawing = Drawing(data)
    for _ in range(data.draw(st.integers(1, 14))):
        drawing.add()
    builder = drawing.builder
    builder.output(drawing.values[-1])
    if drawing.shape(drawing.values[-1]) == (4, 4):
        builder.update("w", drawing.values[-1])
    written = builder.graph()

    generator = np.random.default_rng(0)
    arrays = {
        a.name: generator.standard_normal(a.type.shape).astype(np.float32)
        for a in written.arguments
    }
    expected = run_straight(written, arrays)

    plan = compile_graph(written, key="cs_0", batch_size=BATCH, precision=Precision.F32)
    state = {t.resource_name: arrays[t.value] for t in plan.state}
    batch = {t.input_name: arrays[t.value] for t in plan.inputs}
    split = replace(plan, micro_batch_size=data.draw(st.integers(1, 3)))
    for played, num_systems in [*((plan, n) for n in (1, 2, 3, 5)), (split, 1), (split, 2)]:
        machine = PlanMachine(played, state, num_systems)
        found = machine.step(batch, 0)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5)


def run_straight(written, arrays) -> dict[str, np.ndarray]:
    graph = lower(normal_form(written), precision=Precision.F32)
    types = {argument.name: argument.type for argument in graph.arguments}
    values = {name: tensor(array, types[name]) for name, array in arrays.items()}
    outputs = {r.output_name: r.value for r in graph.results if r.output_name is not None}
    program = Program(graph.nodes, types=types, live_out=set(outputs.values()))
    with torch.no_grad():
        program.run(values, step=0)
    return {name: values[value].numpy() for name, value in outputs.items()}
