"""Graphs and plans survive being printed and parsed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Direction, Frame, Graph, Location, Node
from appliance.core.ir.graph_text import parse_graph, print_graph
from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.core.plans.plan import Plan, Precision
from appliance.core.plans.plan_text import FORMAT, parse_plan, print_plan

TYPES = st.builds(
    TensorType,
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
    st.sampled_from(list(DType)),
)


@st.composite
def constants(draw) -> Constant:
    type_ = draw(TYPES)
    size = type_.dtype.container.itemsize
    length = draw(st.sampled_from([size, type_.num_bytes]))
    return Constant(type_, draw(st.binary(min_size=length, max_size=length)))


ATTRIBUTES = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.lists(st.integers(-5, 5), max_size=4).map(tuple)
    | constants(),
    max_size=4,
)
NAMES = st.text("abcXYZ019_.#@", min_size=1, max_size=8)
LOCATIONS = st.builds(
    Location,
    module=st.text(max_size=6),
    direction=st.none() | st.sampled_from(list(Direction)),
    operation=st.text(max_size=6),
    frames=st.lists(
        st.builds(
            Frame, function=st.text(max_size=4), file=st.text(max_size=4), line=st.integers(0, 99)
        ),
        max_size=3,
    ).map(tuple),
)


@st.composite
def nodes(draw) -> Node:
    types = tuple(draw(st.lists(TYPES, max_size=3)))
    return Node(
        op=draw(st.sampled_from(["Add", "MatMul", "wsc.Sum", "pad"])),
        operands=tuple(draw(st.lists(NAMES, max_size=3))),
        results=tuple(draw(NAMES) for _ in types),
        types=types,
        attributes=draw(ATTRIBUTES),
        location=draw(LOCATIONS),
    )


@given(st.lists(nodes(), max_size=4), ATTRIBUTES)
def test_a_graph_survives_whatever_its_attributes_and_locations_are(listed, attributes):
    graph = Graph(arguments=(), nodes=tuple(listed), results=(), attributes=attributes)
    again = parse_graph(print_graph(graph))
    assert again == graph
    assert [n.location for n in again.nodes] == [n.location for n in graph.nodes]


def test_infinities_survive():
    node = Node(op="pad", operands=(), results=(), types=(), attributes={"value": -math.inf})
    graph = Graph(arguments=(), nodes=(node,), results=())
    assert parse_graph(print_graph(graph)) == graph


def empty_plan() -> Plan:
    return Plan(
        key="cs_1",
        batch_size=1,
        precision=Precision.F32,
        state=(),
        inputs=(),
        outputs=(),
        wafer_constants=(),
        layer_steps=(),
        update_constants=(),
        updates=(),
        sharded={},
        types={},
    )


def test_an_empty_plan_survives():
    assert parse_plan(print_plan(empty_plan())) == empty_plan()


def test_a_plan_of_another_format_is_refused():
    text = print_plan(empty_plan()).replace(f'"format": {FORMAT}', '"format": 99')
    with pytest.raises(InternalError, match="format 99"):
        parse_plan(text)


@pytest.mark.parametrize(
    "text", ["", "plan {}\n", "what is this", " %x = Add() {} : tensor<f32>\n"]
)
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(InternalError):
        parse_plan(text)
