"""What instructions of a PE cost: one table for the timing model and the simulated fabric.

Sources: SDK, appendix of the language documentation on SIMD (operations per cycle by builtin, for
both generations). Scalar costs are not published. They are chosen so that a simple instruction
takes one cycle and a branch taken two; a comment in a public example says that a float division
takes about 50 cycles, square roots are taken to be alike and other functions to take twice that.
"""

from collections.abc import Mapping

_PER_CYCLE: Mapping[tuple[int, int], tuple[str, ...]] = {
    (4, 8): (
        *("add16", "and16", "or16", "xor16", "sub16", "mov16", "fabsh", "faddh", "fmach"),
        *("fmovh", "fmulh", "fnegh", "fscaleh", "fsubh", "fnormh"),
    ),
    (2, 4): (
        *("fadds", "fsubs", "fmovs", "fnegs", "fabss", "mov32", "faddhs", "faddsh"),
        *("fmachs", "fnorms", "fscales"),
    ),
    (1, 8): ("fmaxh", "addc16"),
    (1, 4): ("fmaxs", "fh2s", "fs2h", "sar16", "sll16", "slr16"),
}
_COLUMN = {"wse2": 0, "wse3": 1}

OPERATIONS_PER_CYCLE: Mapping[str, tuple[int, int]] = {
    name: widths for widths, names in _PER_CYCLE.items() for name in names
}
"""Elements per cycle on WSE-2 and WSE-3 of the builtins that the SDK lists; others: one."""

SCALAR_CYCLES: Mapping[str, int] = {
    "simple": 1,
    "load": 1,
    "store": 1,
    "element": 2,
    "branch": 1,
    "jump": 2,
    "call": 2,
    "integer_divide": 40,
    "known_divide": 3,
    "float_divide": 50,
    "square_root": 50,
    "function": 100,
    "descriptor": 2,
    "service": 2,
    "random": 8,
}
"""Clock cycles of scalar instructions by class."""


def operations_per_cycle(builtin: str, architecture: str) -> int:
    """Return how many elements of a DSD operation start in one cycle when no bank is in the way.

    Args:
        builtin: Without `@`, such as `fmacs`.
        architecture: `wse2` or `wse3`.
    """
    return OPERATIONS_PER_CYCLE.get(builtin, (1, 1))[_COLUMN[architecture]]
