"""Programs that the client could not run are refused when they are compiled, by module and line."""

import pytest

from appliance.compiler.pipeline import compile_program
from appliance.core.errors import ProgramError
from appliance.core.plans.plan import Precision

PROGRAM = """module {{
  func @graph(%x: tensor<4x8xf32> {{cs.input_name = "input_0"}}, {arguments})
      -> (tensor<4x8xf32> {{cs.output_name = "output_y"}}) {{
    %0 = cirh.BroadcastInDim %made {{broadcast_dimensions = dense<1> : tensor<1xi64>}}
      : (tensor<8xf32>) -> tensor<4x8xf32> loc("net.fwd/aten::add"(
        callsite("forward"("train.py":12:0) at "step"("train.py":30:0))))
    %1 = cirh.Add %x, %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }}
}}
"""
MADE = '%made: tensor<8xf32> {tf.resource_name = "placeholder10"}'
OTHER = '%other: tensor<2xf32> {tf.resource_name = "placeholder9"}'
BUFFER = '%made: tensor<8xf32> {tf.resource_name = "state.model.offset"}'
WEIGHT = '%w: tensor<8xf32> {tf.resource_name = "state.model.placeholder3"}'
STEPS = '%n: tensor<8xf32> {tf.resource_name = "state.optimizer.state.0.step"}'


def compile_with(*arguments):
    text = PROGRAM.format(arguments=", ".join(arguments))
    return compile_program(text, batch_size=4, precision=Precision.F32)


@pytest.mark.parametrize(
    ("arguments", "says", "remedy"),
    [
        (
            [MADE, WEIGHT],
            ["tensor<8xf32> (placeholder10)", "net.fwd (train.py:12)"],
            "make_constant",
        ),
        ([OTHER, MADE, WEIGHT], ["tensor<2xf32> (placeholder9) and 1 more"], "register_buffer"),
        ([MADE], ["not compiled", "net.fwd (train.py:12)"], "cstorch.compile returned"),
        ([MADE, STEPS], ["not compiled"], "cstorch.compile returned"),
    ],
)
def test_a_tensor_for_which_the_client_has_no_value_is_refused(arguments, says, remedy):
    with pytest.raises(ProgramError) as refusal:
        compile_with(*arguments)
    for words in says:
        assert words in refusal.value.message
    assert remedy in (refusal.value.hint or "")


def test_a_buffer_of_the_module_is_state_whatever_its_name():
    assert compile_with(BUFFER, WEIGHT).layer_steps


SHAPE = '"meta_pixel_shuffle"("torch/_meta_registrations.py":5781:0)'
EMPTY = """module {{
  func @graph(%x: tensor<4x8xf32> {{cs.input_name = "input_0"}},
      %w: tensor<8xf32> {{tf.resource_name = "state.model.w"}})
      -> (tensor<4x8xf32> {{cs.output_name = "output_y"}}) {{
    %made = cirh.Const dense<0.0> : tensor<4x8xf32> loc("net.{direction}/aten::empty"(
        callsite({inner} at "forward"("train.py":12:0))))
    %0 = cirh.Add %x, %{read} : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }}
}}
"""


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_a_program_with_zeros_where_a_result_should_be_is_refused(direction):
    text = EMPTY.format(direction=direction, inner=SHAPE, read="made")
    with pytest.raises(ProgramError) as refusal:
        compile_program(text, batch_size=4, precision=Precision.F32)
    for words in ("what pixel_shuffle", f"net.{direction} (train.py:12)", "holds zeros instead"):
        assert words in refusal.value.message
    assert "reshape" in (refusal.value.hint or "")


@pytest.mark.parametrize(
    ("inner", "read"),
    [
        ('"new_zeros"("torch/_refs/__init__.py":5000:0)', "made"),
        ('"mine"("train.py":9:0)', "made"),
        (SHAPE, "x"),  # nothing reads the shape's tensor
    ],
)
def test_zeros_that_a_script_writes_are_zeros(inner, read):
    text = EMPTY.format(direction="fwd", inner=inner, read=read)
    assert compile_program(text, batch_size=4, precision=Precision.F32)


GRADIENT = """module {{
  func @graph(%x: tensor<4x8xf32> {{cs.input_name = "input_0"}},
      %w: tensor<8xf32> {{tf.resource_name = "state.model.w"}})
      -> (tensor<4x2x4xf32> {{cs.output_name = "output_y"}}) {{
    %0 = cirh.Reshape %x : (tensor<4x8xf32>) -> tensor<4x2x4xf32> loc("net.{direction}/aten::view"(
        callsite("{function}"("{file}":1219:0) at
        callsite("_engine_run_backward"("torch/autograd/graph.py":768:0) at
        "step"("train.py":30:0)))))
    return %0 : tensor<4x2x4xf32>
  }}
}}
"""


FUNCTIONAL = "torch/_refs/nn/functional/__init__.py"


@pytest.mark.parametrize(
    ("direction", "function", "file", "is_refused"),
    [
        ("bwd", "pixel_unshuffle", FUNCTIONAL, True),
        ("fwd", "pixel_unshuffle", FUNCTIONAL, False),  # called by the script, and traced as it is
        ("bwd", "pixel_unshuffle", "train.py", False),  # the script's own, in an autograd function
        ("bwd", "softmax", FUNCTIONAL, False),
    ],
)
def test_a_lost_operation_is_known_by_its_gradient(direction, function, file, is_refused):
    text = GRADIENT.format(direction=direction, function=function, file=file)
    if not is_refused:
        assert compile_program(text, batch_size=4, precision=Precision.F32)
        return
    with pytest.raises(ProgramError, match=r"lost what pixel_shuffle computes in net.bwd \(train"):
        compile_program(text, batch_size=4, precision=Precision.F32)
