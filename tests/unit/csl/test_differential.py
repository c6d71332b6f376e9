"""Random programs in CSL, compiled and run on our PE, against numpy, bit for bit.

Statements are scalar expressions with the operators of the language, and vector operations; results
of earlier ones are operands of later ones, so that a wrong bit anywhere shows. numpy has neither
bf16 nor cb16: their values are doubles here, rounded by `appliance.fabric.floats` after each
operation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.floats import decode_float, encode_float
from appliance.fabric.host_interface import Simulator
from tests.support.csl import program_of

Draw = Callable[[st.SearchStrategy[Any]], Any]
LENGTH, NUM_VECTORS, NUM_SCALARS = 5, 3, 4
ONE = Region(0, 0, 1, 1)
WIDTHS = {"f32": 32, "f16": 16, "bf16": 16, "cb16": 16}
NUMPY: dict[str, type[np.floating[Any]]] = {"f32": np.float32, "f16": np.float16}
SCALAR = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
VECTOR = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply}
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("data", [*]FLOAT, true);
  @export_name("run", fn () void);
}
"""
PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
var data = @zeros([SIZE]FLOAT);
var p: [*]FLOAT = &data;
VECTORS
fn run() void {
BODY
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(p, "data"); @export_symbol(run); }
"""


class _Program:
    """A program and what it does to an array, statement by statement."""

    def __init__(self, kind: str, data: NDArray[Any]) -> None:
        self.kind, self.data, self.lines = kind, data, list[str]()
        self.letter = "s" if kind == "f32" else "h"

    def rounded(self, value: Any) -> Any:
        """A result in the precision of the program's numbers."""
        return value if self.kind in NUMPY else _decoded(_encoded(value, self.kind), self.kind)

    def scalar(self, draw: Draw, depth: int = 3) -> tuple[str, Any]:
        """A scalar expression: its text and value."""
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            at = draw(st.integers(0, len(self.data) - 1))
            return f"data[{at}]", self.data[at]
        if draw(st.integers(0, 4)) == 0:
            text, value = self.scalar(draw, depth - 1)
            return f"(-{text})", -value
        op = draw(st.sampled_from(sorted(SCALAR)))
        (left, a), (right, b) = self.scalar(draw, depth - 1), self.scalar(draw, depth - 1)
        return f"({left} {op} {right})", self.rounded(SCALAR[op](a, b))

    def assign(self, draw: Draw) -> None:
        """`data[n] = expression;`, perhaps by a branch that a comparison chooses."""
        text, value = self.scalar(draw)
        at = NUM_VECTORS * LENGTH + draw(st.integers(0, NUM_SCALARS - 1))
        if draw(st.booleans()):
            self.lines.append(f"  data[{at}] = {text};")
            self.data[at] = value
            return
        (left, a), (right, b) = self.scalar(draw, 1), self.scalar(draw, 1)
        self.lines.append(f"  if ({left} < {right}) {{ data[{at}] = {text}; }}")
        if a < b:
            self.data[at] = value

    def operate(self, draw: Draw) -> None:
        """A vector operation of two vectors, or of a vector and a scalar."""
        op = draw(st.sampled_from(sorted(VECTOR)))
        dest, left, right = (draw(st.integers(0, NUM_VECTORS - 1)) for _ in range(3))
        second, value = f"v{right}", self.vector(right).copy()
        if draw(st.booleans()):
            at = draw(st.integers(NUM_VECTORS * LENGTH, len(self.data) - 1))
            second, value = f"data[{at}]", np.full(LENGTH, self.data[at])
        self.lines.append(f"  @{op}{self.letter}(v{dest}, v{left}, {second});")
        self.vector(dest)[:] = self.rounded(VECTOR[op](self.vector(left), value))

    def vector(self, number: int) -> NDArray[Any]:
        """A vector, as a part of the data."""
        return self.data[number * LENGTH : (number + 1) * LENGTH]

    def texts(self) -> dict[str, str]:
        """The files."""
        vectors = "\n".join(
            f"const v{n} = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{LENGTH}}} -> "
            f"data[i + {n * LENGTH}] }});"
            for n in range(NUM_VECTORS)
        )
        code = PE.replace("VECTORS", vectors).replace("BODY", "\n".join(self.lines))
        code = code.replace("SIZE", str(len(self.data))).replace("FLOAT", self.kind)
        return {"layout.csl": LAYOUT.replace("FLOAT", self.kind), "pe.csl": code}


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize("kind", sorted(WIDTHS))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_random_programs_agree_with_numpy(
    kind: str, architecture: str, data: st.DataObject
) -> None:
    size = NUM_VECTORS * LENGTH + NUM_SCALARS
    before = _numbers(data.draw(st.integers(0, 1 << 30)), size, kind)
    program = _Program(kind, _decoded(before, kind))
    with np.errstate(all="ignore"):
        for is_vector in data.draw(st.lists(st.booleans(), min_size=1, max_size=12)):
            (program.operate if is_vector else program.assign)(data.draw)
    found = _run(program.texts(), before, architecture, kind)
    wanted = program.data
    assert wanted.dtype == NUMPY.get(kind, np.float64)
    assert (np.isnan(_decoded(found, kind)) == np.isnan(wanted)).all(), program.lines
    assert ((found == _encoded(wanted, kind)) | np.isnan(wanted)).all(), program.lines


def _numbers(seed: int, size: int, kind: str) -> NDArray[Any]:
    """Patterns: half ordinary numbers, half any: subnormal, infinite, no numbers among them."""
    generator = np.random.default_rng(seed)
    anything = generator.integers(0, 1 << WIDTHS[kind], size, dtype=np.uint64)
    ordinary = _encoded(generator.normal(0, 10, size).astype(NUMPY.get(kind, np.float64)), kind)
    return np.where(generator.random(size) < 0.5, ordinary, anything.astype(ordinary.dtype))


def _encoded(values: Any, kind: str) -> Any:
    """The patterns of numbers, rounded if need be."""
    if kind in NUMPY:
        return np.asarray(values, NUMPY[kind]).view(f"u{WIDTHS[kind] // 8}")
    return np.vectorize(lambda value: encode_float(float(value), 16, kind), [np.uint16])(values)


def _decoded(patterns: Any, kind: str) -> Any:
    """The numbers that patterns mean."""
    if kind in NUMPY:
        return patterns.view(NUMPY[kind]).copy()
    return np.vectorize(lambda pattern: decode_float(int(pattern), kind), [float])(patterns)


def _run(texts: dict[str, str], before: NDArray[Any], architecture: str, kind: str) -> NDArray[Any]:
    half = kind if WIDTHS[kind] == 16 else "f16"
    program = program_of(texts, architecture=architecture, memcpy=True, fp16_format=half)
    simulator = Simulator(program)
    words = before.astype(np.uint32).reshape(1, 1, -1)
    width = WIDTHS[kind]
    simulator.submit(CopyIn("data", ONE, words, width))
    simulator.submit(Launch("run"))
    raw = simulator.wait(simulator.submit(CopyOut("data", ONE, len(before), width)))
    assert raw is not None
    return raw.ravel().astype(before.dtype)
