"""A captured program made ready for the planner, which knows plans and descriptions alone."""

from dataclasses import dataclass
from typing import Final

from appliance.compiler.importer import import_program
from appliance.compiler.pipeline import compile_graph
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Graph
from appliance.core.plans.plan import Precision
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.step_program import StepProgram

_KEY: Final = "cs_estimate"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedProgram:
    """A program that a client has traced.

    Attributes:
        step: Its step, for one sample.
        batch_size: The batch it was traced with.
    """

    step: StepProgram
    batch_size: int


def captured_program(text: str, *, name: str) -> CapturedProgram:
    """Read a program as the client's `validate_only` run leaves it (`cirh.mlir`).

    Args:
        text: Program text.
        name: For reports.

    Raises:
        ProgramError: The program is malformed, not supported, or has no batch.
    """
    graph = import_program(text)
    batch_size = traced_batch_size(graph)
    plan = compile_graph(graph, key=_KEY, batch_size=batch_size, precision=Precision.F32)
    return CapturedProgram(step=program_step(plan, name=name), batch_size=batch_size)


def traced_batch_size(graph: Graph) -> int:
    """Return the batch that a program was traced with: the first size of its batch tensors.

    Raises:
        ProgramError: It has none.
    """
    sizes = [
        argument.type.shape[0]
        for argument in graph.arguments
        if argument.input_name is not None and argument.type.shape
    ]
    if not sizes:
        raise ProgramError("The program reads no batch, so there is nothing to estimate.")
    return min(sizes)
