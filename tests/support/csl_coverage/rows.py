"""What a row of the table of the language is, and how its program runs.

A row is a statement of the language reference with a program that shows it. The program's `main`
writes numbers to `out`, which the host reads; or the compiler refuses it with words that the row
gives. docs/csl-coverage.md is the table.
"""

from dataclasses import dataclass, field

import numpy as np

from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import compile_files

BOTH = ("wse2", "wse3")
NUM_WORDS = 8
ONE = Region(0, 0, 1, 1)
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("out", [*]i32, true);
  @export_name("main", fn () void);
}
"""
PRELUDE = """
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var out = @zeros([8]i32);
const out_pointer: [*]i32 = &out;
comptime { @export_symbol(out_pointer, "out"); @export_symbol(main); }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A statement of the reference and its program.

    Attributes:
        page: Page of the language reference.
        says: What the program shows, as a sentence.
        top: Declarations.
        body: Statements of `main`, which set `out[0]` and so on.
        out: What they are then; the rest is 0.
        prints: Lines that the program prints with <simprint>.
        finishes: Whether `main` is all; otherwise the program itself calls
            `sys.unblock_cmd_stream()`.
        without_out: Whether `out` is not exported.
        given: Floats of 32 bits that the host writes to symbols first.
        calls: What the host launches.
        symbol: What it reads then: integers of `out`, rounded floats of others.
        architectures: Where it holds.
        refused: Words of the error, for what is refused; `$$` marks its place.
        files: More files by path; `layout.csl` replaces the usual one.
        options: Of the compilation.
    """

    page: str
    says: str
    top: str = ""
    body: str = ""
    out: tuple[int, ...] = ()
    prints: tuple[str, ...] = ()
    finishes: bool = True
    without_out: bool = False
    given: dict[str, tuple[float, ...]] = field(default_factory=dict)
    calls: tuple[Launch, ...] = (Launch("main"),)
    symbol: str = "out"
    architectures: tuple[str, ...] = BOTH
    refused: str = ""
    files: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tests call it."""
        return f"{self.page}: {self.says}"

    def texts(self) -> dict[str, str]:
        """The program's files."""
        end = "sys.unblock_cmd_stream();" if self.finishes else ""
        prelude = PRELUDE
        if self.without_out:
            prelude = prelude.replace('@export_symbol(out_pointer, "out");', "")
        main = f"fn main() void {{ {self.body}\n{end} }}"
        return {"layout.csl": LAYOUT, "pe.csl": f"{prelude}{self.top}\n{main}\n", **self.files}


def result_of(row: Row, architecture: str) -> tuple[list[int], list[str]]:
    """Compile a row's program and run it; return `out` and what it printed."""
    compilation = compile_files(row.texts(), architecture=architecture, memcpy=True, **row.options)
    assert compilation.program is not None, compilation.render()
    simulator = Simulator(compilation.program)
    for symbol, numbers in row.given.items():
        words = np.array(numbers, np.float32).view(np.uint32).reshape(1, 1, -1)
        simulator.submit(CopyIn(symbol, ONE, words, 32))
    for call in row.calls:
        simulator.submit(call)
    raw = simulator.wait(simulator.submit(CopyOut(row.symbol, ONE, NUM_WORDS, 32)))
    assert raw is not None
    kind = np.int32 if row.symbol == "out" else np.float32
    return [round(float(word)) for word in raw.ravel().view(kind)], simulator.console()


def expected_of(row: Row) -> tuple[list[int], list[str]]:
    """Return what `out` is to be, and what the program prints."""
    return [*row.out, *[0] * (NUM_WORDS - len(row.out))], list(row.prints)
