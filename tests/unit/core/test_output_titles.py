"""Outputs are called by what the user's code calls them, else by what they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.compiler.pipeline import compile_program
from appliance.core.ir.graph import Frame, Location
from appliance.core.plans.output_titles import output_titles
from appliance.core.plans.plan import Plan, Precision
from tests.support.plans import two_layer_plan

PROGRAMS = Path(__file__).parents[1] / "compiler" / "programs"


def plan_with_output(name: str, *frames: tuple[str, str]) -> Plan:
    """Return a plan whose first output has this name and is computed in these frames."""
    plan = two_layer_plan()
    output = replace(plan.outputs[0], output_name=name)
    stack = tuple(Frame(function=function, file=file, line=7) for function, file in frames)

    def moved(nodes):
        return tuple(replace(each, location=Location(frames=stack)) for each in nodes)

    return replace(
        plan,
        outputs=(output, *plan.outputs[1:]),
        layer_steps=tuple(replace(step, nodes=moved(step.nodes)) for step in plan.layer_steps),
        updates=tuple(replace(update, nodes=moved(update.nodes)) for update in plan.updates),
    )


@pytest.mark.parametrize(
    ("name", "frames", "title"),
    [
        ("output_loss", [], "loss"),
        ("output_token_accuracy", [("forward", "model.py")], "token accuracy"),
        ("output_values_1", [("get", "cerebras/pytorch/optim/scheduler.py")], "learning rate"),
        ("output_values_1", [("clip_grad_norm_", "torch/nn/utils/clip_grad.py")], "gradient norm"),
        ("output_0_0", [("perplexity", "metrics.py"), ("train", "t.py")], "perplexity"),
        ("output_0_0", [("training_step", "train.py")], "train.py, line 7"),
        ("output_values", [], "values"),
    ],
)
def test_an_output_is_called_by_the_users_name_or_by_what_it_is(name, frames, title):
    assert output_titles(plan_with_output(name, *frames))[name] == title


def test_titles_are_told_apart():
    plan = two_layer_plan()
    names = ("output_loss", "output__loss")
    twins = tuple(replace(plan.outputs[0], output_name=name) for name in names)
    assert len(set(output_titles(replace(plan, outputs=twins)).values())) == 2


def test_the_outputs_of_a_real_program_have_titles():
    text = (PROGRAMS / "gpt_lrs.mlir").read_text()
    plan = compile_program(text, batch_size=4, precision=Precision.F32)
    assert output_titles(plan)["output_loss"] == "loss"
    assert len(output_titles(plan)) == len(plan.outputs)
