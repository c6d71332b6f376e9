"""A program that stands still for commands that a test gives."""

from collections.abc import Sequence

from appliance.csl.program import Program
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import SimulatorOptions
from appliance.sdk.host.debugger.session import DebugSession
from appliance.sdk.host.debugger.targets import Target
from tests.support.csl_coverage.rows import LAYOUT, PRELUDE

CODE = f"""{PRELUDE}
const Pair = struct {{ left: i16, right: i16 }};
var total: i32 = 0;
var grid = [2, 3]f32{{ 0.5, 1.0, 1.5, 2.0, 2.5, 3.0 }};
var half = [2]f16{{ 0.25, -2.0 }};
var flag = true;
var pair = Pair{{ .left = 1, .right = -1 }};
const Bits = packed struct {{ low: u3, high: i5, half: f16, on: bool }};
const Nest = struct {{ n: i8, pair: Pair, row: [3]u16, pairs: [2]Pair, bits: Bits }};
const Both = union {{ word: u32, half: f16 }};
var pairs = @constants([2, 2]Pair, Pair{{ .left = 1, .right = -1 }});
var bits = Bits{{ .low = 5, .high = -3, .half = 1.5, .on = true }};
var nest = Nest{{ .n = -2, .pair = Pair{{ .left = 3, .right = 4 }}, .row = [3]u16{{ 1, 2, 3 }},
  .pairs = [2]Pair{{ Pair{{ .left = 5, .right = 6 }}, Pair{{ .left = 7, .right = 8 }} }},
  .bits = Bits{{ .low = 1, .high = 2, .half = -0.5, .on = false }} }};
var both = Both{{ .word = 0x3e00 }};
const done_id = @get_local_task_id(9);
const out_dsd = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{8}} -> out[i] }});
fn add(by: i32) void {{
  total += by;
  if (total > 100) {{
    total = 100;
  }}
  out[0] = total;
}}
fn mark() void {{
  flag = false;
}}
task done() void {{
  mark();
  sys.unblock_cmd_stream();
}}
fn main() void {{
  add(2);
  for (@range(i16, 3)) |i| {{
    add(@as(i32, i));
  }}
  grid[1, 2] = 9.0;
  pair.left = 7;
  pairs[1, 0].right = nest.pair.left;
  bits.low = @as(u3, both.word);
  half[0] = 8.0;
  @activate(done_id);
}}
comptime {{ @bind_local_task(done, done_id); }}
"""
FILES = {"layout.csl": LAYOUT, "pe.csl": CODE}
LINES = CODE.split("\n")


def line_of(text: str) -> int:
    """The number of the line with a text."""
    return next(number for number, line in enumerate(LINES, 1) if text in line)


class Typed:
    """Commands, and what was said."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = list(commands)
        self.said: list[str] = []

    def read(self) -> str | None:
        """Return the next command."""
        if not self._commands:
            return None
        self.said.append(f"> {self._commands[0]}")
        return self._commands.pop(0)

    def after(self, command: str) -> list[str]:
        """What was said after a command, up to the next one."""
        start = self.said.index(f"> {command}") + 1
        end = next(
            (at for at in range(start, len(self.said)) if self.said[at].startswith("> ")),
            len(self.said),
        )
        return self.said[start:end]


def debugged(
    program: Program, *commands: str, sources: dict[str, str] | None = None
) -> tuple[Simulator, Typed]:
    """A run of `main` to its end, in which these commands are typed."""
    simulator = Simulator(program, options=SimulatorOptions(is_checked=True))
    typed = Typed(commands)
    parts = simulator.parts()
    texts = FILES if sources is None else sources
    target = Target(
        program=program,
        memory=parts.memories,
        sources={name: text.split("\n") for name, text in texts.items()},
        origin=(0, 0),
    )
    simulator.debug(DebugSession(simulator, target, typed.read, typed.said.append))
    simulator.submit(Launch("main"))
    simulator.wait(simulator.submit(CopyOut("out", Region(0, 0, 1, 1), 8, 32)))
    return simulator, typed
