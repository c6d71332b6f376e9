"""Where the variables of a code class lie, as a linker places them (decision 0275)."""

from collections.abc import Iterable, Mapping
from math import inf

from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.variables import GlobalVariable

FIRST_ADDRESS = 0x100
"""Where variables begin; what lies below is the machine's."""

Places = Mapping[str, range]
"""The bytes of variables by their names."""


def linked(variables: Iterable[GlobalVariable]) -> dict[str, range]:
    """Return where a program's variables lie, one behind another.

    Constants come first, then what begins with a value, then what begins with zeros. In each of
    these sections the main file's variables come first, then those of other files in the order of
    their imports, all as they are declared; last what no file declares, as it was first needed.
    """
    found: dict[str, range] = {}
    end = FIRST_ADDRESS
    for variable in sorted(variables, key=_order):
        place = found[variable.name] = place_behind(end, variable)
        end = place.stop
    return found


def end_of(places: Places) -> int:
    """Return the first address behind all places."""
    return max((each.stop for each in places.values()), default=FIRST_ADDRESS)


def place_behind(address: int, variable: GlobalVariable) -> range:
    """Return the first place from an address on that a variable's alignment allows."""
    mask = variable.alignment - 1
    start = (address + mask) & ~mask
    return range(start, start + t.size_of(variable.type))


def _order(variable: GlobalVariable) -> tuple[int, tuple[float, int]]:
    if variable.is_const:
        section = 0
    else:
        section = 1 if variable.initial and _is_set(variable.initial.value) else 2
    return section, variable.declared or (inf, 0)


def _is_set(value: object) -> bool:
    """Whether a raw value (see `Const`) is more than zeros."""
    if isinstance(value, list):
        return any(map(_is_set, value))
    if isinstance(value, tuple):
        return any(_is_set(item.value) for item in value)
    return not isinstance(value, int | float) or bool(value)
