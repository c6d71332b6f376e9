"""What the outputs of a program are, in words for people.

The client names an output after the argument of the step closure that takes it: `output_loss` for
`report(loss)`. What the client's own closures take has names that say nothing, as in
`output_values_1`; there the call stack of the operation that computes it tells what it is: the
client's learning rate schedule, the norm for clipping, or a function of the user's.
"""

import re
from collections.abc import Iterator, Mapping

from appliance.core.ir.graph import Frame, Location
from appliance.core.plans.plan import Plan

_PREFIX = "output_"
_ANONYMOUS = re.compile(r"(?:(?:values?|args?|kwargs|tensors?|outputs?)(?:_|$)|[0-9]+(?:_|$))+")
_CLIENT = ("torch/", "cerebras/")
_STEP = re.compile(r"(?:main|train|eval|valid|test|run|forward|wrapper|__call__|.*_step$|.*<).*")
"""Functions of the user's whose names say nothing of one value in them."""
_CLIENT_VALUES = (
    ("weight_decay", "weight decay"),
    ("momentum", "momentum"),
    ("optim/scheduler.py", "learning rate"),
    ("lr_scheduler", "learning rate"),
    ("clip_grad", "gradient norm"),
    ("grad_norm", "gradient norm"),
    ("loss_scale", "loss scale"),
)
"""What occurs in the call stack of a value of the client's own, the most telling first."""


def output_titles(plan: Plan) -> Mapping[str, str]:
    """Return a title for each output of a program, by the client's name; no two are equal."""
    origins = _origins(plan)
    titles: dict[str, str] = {}
    for output in plan.outputs:
        title = _title(output.output_name, origins.get(output.value, Location()))
        titles[output.output_name] = _apart(title, titles)
    return titles


def _title(name: str, origin: Location) -> str:
    plain = name.removeprefix(_PREFIX)
    if plain and _ANONYMOUS.fullmatch(plain) is None:
        return plain.replace("_", " ")
    return _computed_by(origin.frames) or plain.replace("_", " ") or name


def _computed_by(frames: tuple[Frame, ...]) -> str:
    """Return what computes a value: a part of the client, else the user's function."""
    own = [frame for frame in frames if not frame.file.startswith(_CLIENT)]
    stack = " ".join(f"{frame.function} {frame.file}" for frame in frames if frame not in own)
    for words, title in _CLIENT_VALUES:
        if words in stack:
            return title
    if not own:
        return ""
    innermost = own[0]
    if _STEP.fullmatch(innermost.function) is None:
        return innermost.function.strip("_").replace("_", " ")
    return f"{innermost.file}, line {innermost.line}"


def _apart(title: str, others: Mapping[str, str]) -> str:
    taken = set(others.values())
    number = 2
    found = title
    while found in taken:
        found = f"{title} {number}"
        number += 1
    return found


def _origins(plan: Plan) -> Mapping[str, Location]:
    """Return where each value of the update part comes from; a sum from what is summed."""
    found = dict(_computed(plan))
    for step in plan.layer_steps:
        for total in step.sums:
            if total.partial in found:
                found[total.total] = found[total.partial]
    return found


def _computed(plan: Plan) -> Iterator[tuple[str, Location]]:
    nodes = [*plan.wafer_constants, *plan.update_constants]
    for step in plan.layer_steps:
        nodes += step.nodes
    for update in plan.updates:
        nodes += update.nodes
    for node in nodes:
        yield from ((value, node.location) for value in node.results)
