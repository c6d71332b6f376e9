"""Random DSDs of memory: their texts, and the elements that they name."""

import random
from dataclasses import dataclass

from tests.support.csl_random.expressions import Memory
from tests.support.csl_random.numbers import Kind, Number

SIZE = 24
"""Elements of each array that operations work on."""
ROWS, COLUMNS = 4, 6
"""The same in those of two dimensions."""


@dataclass(frozen=True, slots=True)
class View:
    """Elements of an array that a DSD names, in order."""

    text: str
    array: str
    kind: Kind
    at: list[int]
    is_flat: bool
    """Whether it has one dimension."""

    def elements(self, memory: Memory) -> list[Number]:
        """Return the array's value."""
        return memory.globals[self.array]  # type: ignore[return-value] # a list of numbers


def drawn(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    """Draw a DSD whose parts are known."""
    return chance.choice(_FORMS)(chance, array, length)


def late(
    chance: random.Random, array: str, length: int, name: str
) -> tuple[list[str], str, list[int]]:
    """Draw a DSD with parts of run time: the variables that hold them, its text, its elements."""
    stride, offset = _affine(chance, length)
    lines = [f"var {name}_o: i16 = {offset};", f"var {name}_n: u16 = {length};"]
    lines += [f"var {name}_s: i8 = {stride};"]
    at = [offset + stride * i for i in range(length)]
    way = chance.randrange(4)
    if way == 0:
        text = (
            f"@get_dsd(mem1d_dsd, .{{ .base_address = &{array}, .extent = {name}_n, "
            f".stride = {name}_s, .offset = {name}_o }})"
        )
    elif way == 1:
        text = (
            f"@get_dsd(mem1d_dsd, .{{ .base_address = &{array}[{name}_o], "
            f".extent = {length}, .stride = {name}_s }})"
        )
    elif way == 2:
        text = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{1}} -> {array}[{offset} + i] }})"
        text = f"@set_dsd_stride(@set_dsd_length({text}, {name}_n), {name}_s)"
    else:
        element = f"{array}[{stride} * i + {name}_o]"
        text = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{name}_n}} -> {element} }})"
    return lines, text, at


def grid(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    """Draw a DSD of an array of two dimensions: a row, column, diagonal, part or a turned one."""
    way = chance.randrange(4)
    if way == 0 and length <= COLUMNS:
        row, first = chance.randrange(ROWS), chance.randrange(COLUMNS - length + 1)
        at = [row * COLUMNS + first + i for i in range(length)]
        return _one(length, f"{array}[{row}, {first} + i]"), at
    if way == 1 and length <= ROWS:
        column, first = chance.randrange(COLUMNS), chance.randrange(ROWS - length + 1)
        at = [(first + i) * COLUMNS + column for i in range(length)]
        return _one(length, f"{array}[i + {first}, {column}]"), at
    if way == 2 and length <= ROWS:
        shift = chance.randrange(COLUMNS - length + 1)
        return (
            _one(length, f"{array}[i, i + {shift}]"),
            [i * COLUMNS + i + shift for i in range(length)],
        )
    rows = chance.choice([k for k in range(1, ROWS + 1) if length % k == 0])
    columns = length // rows
    if columns > COLUMNS:
        return based_grid(array, length), list(range(length))
    y, x = chance.randrange(ROWS - rows + 1), chance.randrange(COLUMNS - columns + 1)
    element = f"{array}[{y} + i, j + {x}]"
    cells = [[(y + i) * COLUMNS + j + x for j in range(columns)] for i in range(rows)]
    if chance.random() < 0.5:
        text = (
            f"@get_dsd(mem4d_dsd, .{{ .tensor_access = |i,j|{{{rows}, {columns}}} -> {element} }})"
        )
        return text, [at for row in cells for at in row]
    text = f"@get_dsd(mem4d_dsd, .{{ .tensor_access = |j,i|{{{columns}, {rows}}} -> {element} }})"
    return text, [row[j] for j in range(columns) for row in cells]


def _one(length: int, element: str) -> str:
    return f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{length}}} -> {element} }})"


def based_grid(array: str, length: int) -> str:
    """The first elements of an array of two dimensions."""
    return f"@get_dsd(mem1d_dsd, .{{ .base_address = &{array}, .extent = {length} }})"


def _affine(chance: random.Random, length: int) -> tuple[int, int]:
    """A stride and an offset with which `length` elements lie within an array."""
    most = (SIZE - 1) // max(1, length - 1)
    stride = chance.randrange(-min(3, most), min(3, most) + 1)
    low, high = max(0, -stride * (length - 1)), min(SIZE - 1, SIZE - 1 - stride * (length - 1))
    return stride, chance.randrange(low, high + 1)


def _access(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    stride, offset = _affine(chance, length)
    text = (
        f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{length}}} -> "
        f"{array}[{offset} + {stride} * i] }})"
    )
    return text, [offset + stride * i for i in range(length)]


def _based(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    stride, offset = _affine(chance, length)
    split = chance.randrange(offset + 1)
    base = f"&{array}[{split}]" if chance.random() < 0.5 else f"&{array}"
    rest = offset - split if "[" in base else offset
    text = (
        f"@get_dsd(mem1d_dsd, .{{ .base_address = {base}, .extent = {length}, "
        f".stride = {stride}, .offset = {rest} }})"
    )
    return text, [offset + stride * i for i in range(length)]


def _nested(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    """Two dimensions: the last one goes fastest."""
    rows = chance.choice([k for k in range(1, length + 1) if length % k == 0])
    columns = length // rows
    inner = chance.randrange(-1, 3)
    outer = chance.randrange(-2, 4)
    ends = [outer * i + inner * j for i in (0, rows - 1) for j in (0, columns - 1)]
    if max(ends) - min(ends) >= SIZE:
        return _access(chance, array, length)
    offset = chance.randrange(-min(ends), SIZE - max(ends))
    text = (
        f"@get_dsd(mem4d_dsd, .{{ .tensor_access = |i,j|{{{rows}, {columns}}} -> "
        f"{array}[{offset} + {outer} * i + {inner} * j] }})"
    )
    return text, [offset + outer * i + inner * j for i in range(rows) for j in range(columns)]


def _deep(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    """Three or four dimensions, written as extents and differences, the innermost first."""
    extents = list[int]()
    rest = length
    for _ in range(chance.choice((1, 2, 3))):
        extents.append(chance.choice([k for k in range(1, rest + 1) if rest % k == 0]))
        rest //= extents[-1]
    extents.append(rest)
    steps = [chance.randrange(-1, 3) for _ in extents]
    at, now = list[int](), 0
    for number in range(length):
        if number:
            now += steps[_turned(number, extents)]
        at.append(now)
    if max(at) - min(at) >= SIZE:
        return _access(chance, array, length)
    offset = chance.randrange(-min(at), SIZE - max(at))
    dimensions, strides = (", ".join(map(str, items)) for items in (extents, steps))
    text = (
        f"@get_dsd(mem4d_dsd, .{{ .base_address = &{array}, .offset = {offset}, "
        f".extent = .{{ {dimensions} }}, .stride = .{{ {strides} }} }})"
    )
    return text, [offset + where for where in at]


def _turned(number: int, extents: list[int]) -> int:
    """The dimension that an access goes on in: the innermost that does not begin anew."""
    for at, extent in enumerate(extents):
        if number % extent:
            return at
        number //= extent
    raise AssertionError("no access comes after the last")


def _moved(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    """A DSD of another place whose base is set anew: its offset is gone."""
    stride, offset = _affine(chance, length)
    text = (
        f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{length}}} -> {array}[3 + {stride} * i] }})"
    )
    if stride < 0:
        text = text.replace("[3 +", f"[{SIZE - 1} +")
    base = f"&{array}[{offset}]" if offset or chance.random() < 0.5 else array
    return f"@set_dsd_base_addr({text}, {base})", [offset + stride * i for i in range(length)]


def _shortened(chance: random.Random, array: str, length: int) -> tuple[str, list[int]]:
    """A DSD whose length and stride are set anew."""
    stride, offset = _affine(chance, length)
    text = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{1}} -> {array}[{offset} + i] }})"
    text = f"@set_dsd_stride(@set_dsd_length({text}, {length}), {stride})"
    return text, [offset + stride * i for i in range(length)]


_FORMS = (_access, _access, _based, _nested, _deep, _moved, _shortened)
