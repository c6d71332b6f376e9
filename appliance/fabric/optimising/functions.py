"""All passes over the functions of a class, in their order."""

from appliance.csl.program import Function
from appliance.fabric.optimising.elements import with_elements
from appliance.fabric.optimising.folding import (
    known_everywhere,
    without_known_branches,
    without_passing,
)
from appliance.fabric.optimising.inlining import inlined
from appliance.fabric.optimising.loops import before_loops
from appliance.fabric.optimising.unused import without_checks, without_unused
from appliance.fabric.optimising.values import without_repeats


def optimised(functions: tuple[Function, ...], *, is_checked: bool) -> tuple[Function, ...]:
    """Return functions that do the same in fewer cycles; their numbers stay."""
    if not is_checked:
        functions = tuple(without_checks(function) for function in functions)
    return tuple(_optimised(function) for function in inlined(functions))


def _optimised(function: Function) -> Function:
    function = without_known_branches(known_everywhere(without_passing(function)))
    function = without_unused(without_known_branches(without_repeats(function)))
    function = without_repeats(before_loops(function))
    return without_unused(with_elements(without_unused(without_passing(function))))
