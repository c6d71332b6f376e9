"""The importer reads what the client's front end prints, and says where a text goes wrong."""

import numpy as np
import pytest

from appliance.compiler.importer import import_program
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Direction, Frame
from appliance.core.ir.tensors import DType, TensorType

ARGUMENTS = (
    '%arg0: tensor<4x8xf32> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.model.w"}, '
    '%arg1: tensor<4x8xf32> {cs.input_name = "input_0"}'
)


def program(body: str, *, result: str = "%arg0", arguments: str = ARGUMENTS) -> str:
    return (
        f"module  {{\n  func @graph({arguments}) -> (tensor<4x8xf32>) attributes "
        f'{{cs.fp16_type = "float16", cs.pol = 1 : i64}} {{\n{body}\n'
        f"    return {result} : tensor<4x8xf32>\n  }}\n}}\n"
    )


def constant(literal: str) -> np.ndarray:
    graph = import_program(program(f"    %cst = cirh.Const {literal}"))
    return graph.nodes[0].attributes["value"].to_numpy()


def attributes(text: str) -> dict:
    body = f"    %0 = cirh.Any %arg1 {{{text}}} : tensor<4x8xf32>"
    return dict(import_program(program(body)).nodes[0].attributes)


def test_arguments_and_results_carry_the_clients_names():
    graph = import_program(program(""))
    state, batch = graph.arguments
    assert (state.resource_name, state.aliased_result) == ("state.model.w", 0)
    assert (batch.input_name, batch.type) == ("input_0", TensorType((4, 8), DType.F32))
    assert graph.attributes == {"cs.fp16_type": "float16", "cs.pol": 1}


@pytest.mark.parametrize(
    ("line", "num_results"),
    [
        ("%0 = cirh.Add %arg0, %arg1 : tensor<4x8xf32>", 1),
        ("%0 = cirh.Relu %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf32>", 1),
        ("%0 = cirh.Cast %arg0 {Truncate = false} : tensor<4x8xf32> -> tensor<4x8xf16>", 1),
        (
            '%0 = "cirh.Pool"(%arg0, %arg1) {gradient} : (tensor<4x8xf32>, tensor<4x8xf32>)'
            " -> tensor<2xf32>",
            1,
        ),
        ("%a, %b = cirh.Two %arg0 : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>)", 2),
        (
            "%0:3 = cirh.Three %arg0 : (tensor<4x8xf32>) -> (tensor<1xf32>, tensor<2xf32>,"
            " tensor<3xf32>)",
            3,
        ),
        ("cirh.None %arg0 : (tensor<4x8xf32>) -> ()", 0),
    ],
)
def test_every_form_of_an_operation_is_read(line, num_results):
    node = import_program(program(f"    {line}")).nodes[0]
    assert len(node.results) == len(node.types) == num_results
    assert not node.op.startswith("cirh.")


def test_results_of_a_pack_are_told_apart():
    body = (
        "    %0:2 = cirh.Split %arg1 : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)\n"
        "    %1 = cirh.Add %0#0, %0#1 : tensor<4x4xf32>"
    )
    assert import_program(program(body)).nodes[1].operands == ("0#0", "0#1")


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("dense<2.5> : tensor<2xf32>", [2.5, 2.5]),
        ("dense<[1, -2]> : tensor<2xi64>", [1, -2]),
        ("dense<[[1.0, 2.0], [3.0, 0xFF800000]]> : tensor<2x2xf32>", [[1, 2], [3, -np.inf]]),
        ("dense<0x7C00> : tensor<f16>", np.inf),
        ("dense<true> : tensor<3xi1>", [True] * 3),
        ("dense<[true, false]> : tensor<2xi1>", [True, False]),
        ('dense<"0xB6"> : tensor<8xi1>', [0, 1, 1, 0, 1, 1, 0, 1]),
        ('dense<"0xFF"> : tensor<20xi1>', [True] * 20),
        ('dense<"0x0000C03F000000C0"> : tensor<2xf32>', [1.5, -2]),
        ('dense<"0x003E00C0"> : tensor<2xf16>', [1.5, -2]),
        ('dense<"0xC03F00C0"> : tensor<2xbf16>', [1.5, -2]),
        ('dense<"0x01000000FFFFFFFF"> : tensor<2xi32>', [1, -1]),
        ("dense<255> : tensor<2xui8>", [255, 255]),
        ("dense<> : tensor<0xi64>", []),
    ],
)
def test_constants_are_decoded(literal, expected):
    np.testing.assert_array_equal(constant(literal), expected)


def test_decimal_constants_of_short_formats_are_the_nearest_number_of_the_format():
    assert constant("dense<9.997550e-02> : tensor<f16>") == np.float16(0.1)
    assert constant("dense<1.000980e-01> : tensor<bf16>") == np.float32(0.10009765625)


def test_attributes_become_plain_values():
    found = attributes(
        'a = 1 : i64, b = 2.5 : f32, c = "NCHW", d = dense<[1, 2]> : tensor<2xi64>, '
        "e = true, f, g = dense<1.5> : tensor<2xf32>, h = [1, 2], i = {x = 3 : i32}, "
        "cs.internal = {cs.dotgeneral_id = 1 : i32}, j = 0x7F800000 : f32, "
        "k = dense<> : tensor<0xi64>"
    )
    assert found.pop("g").to_numpy().tolist() == [1.5, 1.5]
    assert found == {
        "a": 1, "b": 2.5, "c": "NCHW", "d": (1, 2), "e": True, "f": True, "h": (1, 2), "i.x": 3,
        "j": float("inf"), "k": (),
    }  # fmt: skip


def locate(location: str, aliases: str = ""):
    body = f"    %0 = cirh.Relu %arg0 : tensor<4x8xf32> loc({location})"
    return import_program(program(body) + aliases).nodes[0].location


STACK = (
    'callsite("forward"("model.py":8:0) at '
    'callsite("step"("run.py":45:0) at "<module>"("run.py":7:0)))'
)
FRAMES = (
    Frame(function="forward", file="model.py", line=8),
    Frame(function="step", file="run.py", line=45),
    Frame(function="<module>", file="run.py", line=7),
)


def test_a_location_names_module_direction_operation_and_stack():
    found = locate(f'"blocks.1.fc2.fwd/aten::addmm"({STACK})')
    assert (found.module, found.direction) == ("blocks.1.fc2", Direction.FORWARD)
    assert found.operation == "aten::addmm"
    assert found.frames == FRAMES


def test_a_location_may_be_defined_after_its_use():
    found = locate("#loc7", f'#loc7 = loc("fc.bwd/aten::mm"({STACK}))\n')
    assert (found.module, found.direction, found.frames) == ("fc", Direction.BACKWARD, FRAMES)


@pytest.mark.parametrize(
    ("text", "module", "operation"),
    [
        ("unknown", "", ""),
        ('"aten::nll_loss_forward"', "", "aten::nll_loss_forward"),
        ('"grad_scaler.update/aten::add"', "grad_scaler.update", "aten::add"),
        ('fused["x", "fc.fwd/aten::mm"]', "fc", "aten::mm"),
        ('fused<"m">["fc.fwd/aten::mm", callsite("f" at "x.py":1:2)]', "fc", "aten::mm"),
        ('"model.py":8:3', "", ""),
        ('"a\\22b.fwd/aten::mm"', 'a"b', "aten::mm"),
    ],
)
def test_other_kinds_of_locations_are_read(text, module, operation):
    found = locate(text)
    assert (found.module, found.operation) == (module, operation)


def test_a_call_stack_may_be_deeper_than_pythons():
    stack = '"g"("x.py":1:0)'
    for _ in range(3000):
        stack = f'callsite("f"("x.py":2:0) at {stack})'
    assert len(locate(f'"m.fwd/aten::mm"({stack})').frames) == 3001


def test_the_users_frame_is_the_innermost_outside_of_the_framework():
    text = (
        'callsite("mm"("torch/x.py":1:0) at '
        'callsite("forward"("model.py":9:0) at "m"("run.py":1:0)))'
    )
    assert locate(f'"fc.fwd/aten::mm"({text})').user_frame().line == 9


ERRORS = {
    "": "text is empty",
    "   \n": "text is empty",
    "complete garbage": "line 1, column 1: expected 'module'",
    "module {": "line 1, column 9: expected 'func' or '}', found the end of the text",
    "module { func @f() { return } } func @g() { return }": "a second function",
    program("    %0 = cirh.Add %arg0, %nowhere : tensor<4x8xf32>"):
        "line 3, column 26: %nowhere is not defined",
    program("    %0 = cirh.Add %arg0, %arg1 : tensor<4x9xf32>"): "declared as tensor<4x9xf32>",
    program("    %arg0 = cirh.Relu %arg0 : tensor<4x8xf32>"): "%arg0 is defined twice",
    program("    %0 = cirh.Relu %arg0 : tensor<?x8xf32>"): "tensor<?x8xf32> is not supported",
    program("    %0 = cirh.Relu %arg0 : tensor<4x8xcomplex<f32>>"): "is not supported",
    program("    %0 = cirh.Const dense<[1, 2]> : tensor<3xi64>"): "do not fit tensor<3xi64>",
    program('    %0 = cirh.Const dense<"0x00"> : tensor<2xf32>'): "do not fit tensor<2xf32>",
    program("    %0 = cirh.Const dense<[maybe]> : tensor<1xi1>"): "'maybe' is neither true nor",
    program("    %0 = cirh.Relu %arg0 {axis = } : tensor<4x8xf32>"): "an attribute value",
    program('    %0 = "cirh.If"(%arg0) ({ }) : (tensor<4x8xf32>) -> tensor<4x8xf32>'): "a region",
    program("    %0:2 = cirh.Relu %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf32>"): "2 values of 1",
    program("", arguments="%arg0: tensor<4x8xf32>"): "neither state nor batch tensor",
    program("", result="%arg0, %arg1"): "expected ','",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS.items(), ids=map(str, range(len(ERRORS))))
def test_a_malformed_text_is_refused_with_place_and_expectation(text, message):
    with pytest.raises(ProgramError) as caught:
        import_program(text)
    assert message in caught.value.message
    assert caught.value.hint


def test_an_empty_text_names_what_keeps_the_client_from_lowering():
    with pytest.raises(ProgramError) as caught:
        import_program(" \n")
    assert str(caught.value).startswith("The program text is empty")
    assert "a space or a quote in it needs another directory" in caught.value.hint


def test_a_truncated_text_is_refused_wherever_it_ends():
    text = program(
        '    %0 = "cirh.Pool"(%arg0, %arg1) {a = dense<[1, 2]> : tensor<2xi64>, b = "x"} : '
        "(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>"
        f' loc("fc.fwd/aten::mm"({STACK}))'
    ).rstrip()
    for length in range(len(text)):
        with pytest.raises(ProgramError):
            import_program(text[:length])


def dot(segments: str) -> str:
    return (
        f"    %0 = cirh.DotGeneral %arg0, %arg1 {{operand_segment_sizes = {segments}}} : "
        "(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>"
    )


def test_sizes_of_leading_operand_groups_say_nothing_more():
    graph = import_program(program(dot("dense<[1, 1, 0, 0, 0, 0, 0]> : vector<7xi32>")))
    assert (graph.nodes[0].attributes, len(graph.nodes[0].operands)) == ({}, 2)


@pytest.mark.parametrize("sizes", ["[1, 0, 1, 0]", "[2, 0, 0, 0]", "[1, 0, 0, 0]", "[1, 1, 1]"])
def test_operands_of_other_groups_are_refused(sizes: str):
    with pytest.raises(ProgramError, match=r"DotGeneral has operands of groups"):
        import_program(program(dot(f"dense<{sizes}> : vector<{sizes.count(',') + 1}xi32>")))


def test_a_vector_attribute_is_a_tuple():
    assert attributes("sizes = dense<[3, 4]> : vector<2xi32>") == {"sizes": (3, 4)}
    with pytest.raises(ProgramError, match=r"type vector<2xq32> is not supported"):
        attributes("sizes = dense<[3, 4]> : vector<2xq32>")
