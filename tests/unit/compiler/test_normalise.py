"""Normal form: parameters are attributes, markers are gone, contradictions are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.compiler.importer import import_program
from appliance.compiler.passes.normalise import normalise
from appliance.compiler.passes.slices import resolve_strided_slice
from appliance.compiler.passes.support import check_support
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Graph, verify
from appliance.core.ir.ops import verify_ops


def normalised(body: str, types: dict[str, str]) -> Graph:
    """Import and normalise a function of the given arguments; the last `%out` is its output."""
    arguments = ", ".join(
        f'%{name}: {type_} {{cs.input_name = "input_{name}"}}' for name, type_ in types.items()
    )
    last = body.splitlines()[-1].partition(" loc(")[0]
    result = last.rsplit("->" if "->" in last else " : ", 1)[-1].strip()
    text = (
        f'module {{ func @graph({arguments}) -> ({result} {{cs.output_name = "output_0"}}) '
        f"attributes {{}} {{\n{body}\nreturn %out : {result}\n}} }}"
    )
    graph = import_program(text)
    check_support(graph)
    graph = normalise(graph)
    verify(graph)
    verify_ops(graph)
    return graph


X = {"x": "tensor<4x6x5xf32>"}


def test_a_permutation_becomes_an_attribute():
    graph = normalised(
        "%p = cirh.Const dense<[0, 2, 1]> : tensor<3xi64>\n"
        "%out = cirh.Transpose %x, %p : (tensor<4x6x5xf32>, tensor<3xi64>) -> tensor<4x5x6xf32>",
        X,
    )
    (node,) = graph.nodes
    assert (node.operands, node.attributes) == (("x",), {"permutation": (0, 2, 1)})


def test_a_slice_that_drops_a_dim_is_a_slice_and_a_reshape():
    graph = normalised(
        "%b = cirh.Const dense<[0, -1, 1]> : tensor<3xi64>\n"
        "%e = cirh.Const dense<[0, 0, 5]> : tensor<3xi64>\n"
        "%s = cirh.Const dense<[1, 1, 2]> : tensor<3xi64>\n"
        "%out = cirh.StridedSlice %x, %b, %e, %s {begin_mask = 1 : i64, end_mask = 1 : i64, "
        "ellipsis_mask = 0 : i64, new_axis_mask = 0 : i64, shrink_axis_mask = 2 : i64} : "
        "(tensor<4x6x5xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) -> tensor<4x2xf32>",
        X,
    )
    cut, shape = graph.nodes
    assert cut.attributes == {"begin": (0, 5, 1), "end": (4, 6, 5), "stride": (1, 1, 2)}
    assert (shape.op, shape.types[0].shape) == ("Reshape", (4, 2))


def test_ranges_and_random_bounds_become_attributes():
    graph = normalised(
        "%lo = cirh.Const dense<0.0> : tensor<f32>\n%hi = cirh.Const dense<1.0> : tensor<f32>\n"
        "%n = cirh.Const dense<[4, 6]> : tensor<2xi64>\n"
        "%r = cirh.RandomUniform %lo, %hi, %n {global_seed = 7 : i64} : "
        "(tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x6xf32>\n"
        "%q = cirh.RandomUniform %lo, %hi, %n {global_seed = 7 : i64} : "
        "(tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x6xf32>\n"
        "%out = cirh.Add %r, %q : tensor<4x6xf32>",
        X,
    )
    first, second, _ = graph.nodes
    assert first.attributes == {"low": 0.0, "high": 1.0, "seed": 7, "stream": 1}
    assert second.attributes["stream"] == 2


def test_the_moments_of_random_numbers_become_attributes():
    body = (
        "%m = cirh.Const dense<0.5> : tensor<f32>\n%s = cirh.Const dense<2.0> : tensor<f32>\n"
        "%r = cirh.RandomNormal %m, %s {{{seed}}} : "
        "(tensor<f32>, tensor<f32>) -> tensor<4x6xf32>\n"
        "%q = cirh.RandomNormal %s, %m {{seed = 9 : i64}} : "
        "(tensor<f32>, tensor<f32>) -> tensor<4x6xf32>\n"
        "%out = cirh.Add %r, %q : tensor<4x6xf32>"
    )
    for text, seed in (("seed = 7 : i64", 7), ("", 0)):
        first, second, _ = normalised(body.format(seed=text), X).nodes
        assert first.operands == ()
        assert first.attributes == {"mean": 0.5, "deviation": 2.0, "seed": seed, "stream": 1}
        assert second.attributes == {"mean": 2.0, "deviation": 0.5, "seed": 9, "stream": 2}


def test_a_one_hot_depth_is_in_the_shape_alone():
    graph = normalised(
        "%i = cirh.Cast %x : tensor<4xi32> -> tensor<4xi64>\n"
        "%d = cirh.Const dense<9> : tensor<i64>\n%a = cirh.Const dense<-1> : tensor<i64>\n"
        "%on = cirh.Const dense<1.0> : tensor<f32>\n%off = cirh.Const dense<0.0> : tensor<f32>\n"
        "%out = cirh.OneHot %i, %d, %on, %off, %a : (tensor<4xi64>, tensor<i64>, tensor<f32>, "
        "tensor<f32>, tensor<i64>) -> tensor<4x9xf32>",
        {"x": "tensor<4xi32>"},
    )
    assert graph.nodes[-1].attributes == {"axis": 1, "on": 1.0, "off": 0.0}


def test_group_norms_gradient_takes_epsilon_from_the_forward_pass():
    graph = normalised(
        "%g = cirh.Const dense<1.0> : tensor<2x3xf32>\n"
        '%y = cirh.GroupNorm %x, %g, %g {affine = true, data_format = "NCHW", '
        "epsilon = 0.25 : f32, num_groups = 2 : i64} : "
        "(tensor<4x6x5xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x6x5xf32>\n"
        '%dx, %s, %o = cirh.GroupNormGrad %y, %x, %g {affine = true, data_format = "NCHW", '
        "num_groups = 2 : i64} : (tensor<4x6x5xf32>, tensor<4x6x5xf32>, tensor<2x3xf32>) -> "
        "(tensor<4x6x5xf32>, tensor<2x3xf32>, tensor<2x3xf32>)\n"
        "%out = cirh.Relu %dx : tensor<4x6x5xf32>",
        X,
    )
    gradient = next(node for node in graph.nodes if node.op == "GroupNormGrad")
    assert gradient.attributes["epsilon"] == 0.25


def test_markers_disappear():
    graph = normalised(
        '%t = cirh.TagGradient %x {shared_name = "w"} : tensor<4x6x5xf32>\n'
        "%out = cirh.Relu %t : tensor<4x6x5xf32>",
        X,
    )
    assert [node.op for node in graph.nodes] == ["Relu"]
    assert graph.nodes[0].operands == ("x",)


def test_a_parameter_that_is_not_constant_is_refused_by_name():
    with pytest.raises(ProgramError, match=r"Transpose\(.*\) .* permutation that is not constant"):
        normalised(
            "%out = cirh.Transpose %x, %p : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<6x4xf32>",
            {"x": "tensor<4x6xf32>", "p": "tensor<2xi64>"},
        )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("%out = cirh.MatMul %x, %x {transpose_a = false, transpose_b = false} : "
         "(tensor<4x6x5xf32>, tensor<4x6x5xf32>) -> tensor<4x5xf32>", "do not fit"),
        ("%out = cirh.MatMul %x, %x : (tensor<4x6x5xf32>, tensor<4x6x5xf32>) -> tensor<4x5xf32>",
         "lacks attribute 'transpose_a'"),
        ("%out = cirh.Transpose %x : (tensor<4x6x5xf32>) -> tensor<4x5x6xf32>",
         "lacks attribute 'permutation'"),
        ("%out = cirh.Add %x, %x, %x : tensor<4x6x5xf32>", "has 3 operands, not 2"),
        ("%out = cirh.Reshape %x : (tensor<4x6x5xf32>) -> tensor<7xf32>", "do not fit"),
        ("%out = cirh.Slice %x, %x : (tensor<4x6x5xf32>, tensor<4x6x5xf32>) -> tensor<1xf32>",
         "has 2 operands"),
        ("%out = cirh.Relu %x : tensor<4x6x5xf32> -> tensor<4x6x5xi32>", "turns f32 into i32"),
    ],
)  # fmt: skip
def test_an_operation_that_contradicts_itself_is_refused(line, problem):
    with pytest.raises(ProgramError, match=problem):
        normalised(line, X)


def test_operations_without_support_are_refused_all_at_once():
    location = (
        'loc("blocks.1.mix.fwd/aten::mystery"(callsite("forward"("model.py":8:0) at '
        '"<module>"("run.py":3:0))))'
    )
    with pytest.raises(ProgramError) as caught:
        normalised(
            f"%a = cirh.Mystery %x : tensor<4x6x5xf32> {location}\n"
            "%b = cirh.Mystery %a : tensor<4x6x5xf32>\n"
            "%out = cirh.Riddle %b : tensor<4x6x5xf32>",
            X,
        )
    message = caught.value.message
    for part in ("Mystery", "tensor<4x6x5xf32>", "blocks.1.mix.fwd", "model.py:8", "Riddle"):
        assert part in message


ENTRY = st.tuples(st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), st.integers(1, 3))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.data())
def test_slice_bounds_mean_what_they_mean_in_numpy(shape, data):
    kinds = data.draw(
        st.lists(st.sampled_from(["slice", "index", "new"]), max_size=len(shape)).map(list)
    )
    use_ellipsis = data.draw(st.booleans())
    begin, end, stride, index, masks = [], [], [], [], {}

    def mask(name: str) -> None:
        masks[f"{name}_mask"] = masks.get(f"{name}_mask", 0) | 1 << len(begin)

    consumed = 0
    for kind in kinds:
        entry = (0, 0, 1)
        if kind == "new":
            mask("new_axis")
            index.append(None)
        elif kind == "index":
            entry = (data.draw(st.integers(-shape[consumed], shape[consumed] - 1)), 0, 1)
            mask("shrink_axis")
            index.append(entry[0])
            consumed += 1
        else:
            first, last, step = data.draw(ENTRY)
            if first is None:
                mask("begin")
            if last is None:
                mask("end")
            entry = (first or 0, last or 0, step)
            index.append(slice(first, last, step))
            consumed += 1
        for column, value in zip((begin, end, stride), entry, strict=True):
            column.append(value)
    if use_ellipsis:
        mask("ellipsis")
        index.append(Ellipsis)
        for column in (begin, end, stride):
            column.append(0)
    bounds = resolve_strided_slice(tuple(shape), tuple(begin), tuple(end), tuple(stride), masks)
    array = np.arange(int(np.prod(shape))).reshape(shape)
    kept = array[tuple(map(slice, bounds.begin, bounds.end, bounds.stride))]
    assert kept.shape == bounds.sizes
    expected = array[tuple(index)]
    np.testing.assert_array_equal(kept.reshape(expected.shape), expected)


MASKED = {"x": "tensor<4x6x8xf16>", "m": "tensor<4x6xi16>", "w": "tensor<5x8xf16>"}
EXPERTS = "cs.internal = {expert_block_info = {num_experts = 8 : i32, top_k = 2 : i32}}"


@pytest.mark.parametrize(
    ("attributes", "share"),
    [
        ("", None),
        (" {denseCapacity = 3 : i64}", 0.5),
        (f" {{{EXPERTS}}}", 0.25),
        (f" {{denseCapacity = 6 : i64, {EXPERTS}}}", 0.25),
    ],
)
def test_a_masked_product_says_which_share_of_its_rows_it_expects(attributes, share):
    graph = normalised(
        f"%out = cirh.SparseActMatMul %x, %m, %w{attributes} : (tensor<4x6x8xf16>, "
        "tensor<4x6xi16>, tensor<5x8xf16>) -> tensor<4x6x5xf16>",
        MASKED,
    )
    (node,) = graph.nodes
    assert node.attributes.get("active_share") == share


def test_weights_that_only_shape_their_gradient_are_dropped():
    graph = normalised(
        "%b = cirh.ReduceBias %y, %w {dim = 1 : i64} : (tensor<4x5xf32>, tensor<5xf32>) -> "
        "tensor<5xf32>\n"
        "%out = cirh.DMatMul %y, %y, %v : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x4xf32>) -> "
        "tensor<4x4xf32>",
        {"y": "tensor<4x5xf32>", "w": "tensor<5xf32>", "v": "tensor<4x4xf32>"},
    )
    assert [(node.op, node.operands) for node in graph.nodes] == [("MatMul", ("y", "y"))]
