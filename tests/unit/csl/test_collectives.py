"""Our collectives on the simulated fabric: every operation, every root, one after another."""

from pathlib import Path

import numpy as np
import pytest

from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from benchmarks.csl import of_row
from benchmarks.fabric_cycles.measured import cycles_of
from benchmarks.fabric_cycles.rows import ROWS, Kind, Row
from tests.support.csl import program_of

LENGTH = 5
LAYOUT = """
param size: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = size, .height = size });
const c2d = @import_module("<collectives_2d/params>");
layout {
  @set_rectangle(IN_ROW, IN_COLUMN);
  for (@range(u16, IN_ROW)) |x| {
    for (@range(u16, IN_COLUMN)) |y| {
      @set_tile_code(x, y, "pe.csl", .{
        .memcpy_params = memcpy.get_params(x),
        .size = size,
        .dimension = c2d.get_params(x, y, .{
          .x_colors = .{ @get_color(0), @get_color(1) },
          .x_entrypoints = .{ @get_local_task_id(10), @get_local_task_id(11) },
          .y_colors = .{ @get_color(4), @get_color(5) },
          .y_entrypoints = .{ @get_local_task_id(12), @get_local_task_id(13) },
        }).AXIS,
      });
    }
  }
  @export_name("data", [*]u32, true);
  @export_name("result", [*]u32, true);
  @export_name("run", fn (u16, u16) void);
}
"""
PE = f"""
param memcpy_params; param size: u16; param dimension;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const mpi = @import_module("<collectives_2d/pe>", .{{ .dim_params = dimension }});
const n: u16 = {LENGTH};
var data = @zeros([size * n]u32); var result = @zeros([size * n]u32);
var p: [*]u32 = &data; var r: [*]u32 = &result;
const done = @get_local_task_id(20);
fn run(operation: u16, root: u16) void {{
  mpi.init();
  switch (operation) {{
    0 => mpi.broadcast(root, p, n, done),
    1 => mpi.scatter(root, p, r, n, done),
    2 => mpi.gather(root, p, r, n, done),
    else => mpi.reduce_fadds(root, @ptrcast([*]f32, p), @ptrcast([*]f32, r), n, done),
  }}
}}
task finish() void {{ sys_mod.unblock_cmd_stream(); }}
comptime {{
  @bind_local_task(finish, done);
  @export_symbol(p, "data"); @export_symbol(r, "result"); @export_symbol(run);
}}
"""
BROADCAST, SCATTER, GATHER, REDUCE = range(4)


class _Line:
    """A row or column of PEs that run collectives."""

    def __init__(self, size: int, axis: str, architecture: str) -> None:
        shape = (size, 1) if axis == "x" else (1, size)
        layout = LAYOUT.replace("IN_ROW", str(shape[0])).replace("IN_COLUMN", str(shape[1]))
        sources = {"layout.csl": layout.replace("AXIS", axis), "pe.csl": PE}
        program = program_of(
            sources, architecture=architecture, parameters=(("size", size),), memcpy=True
        )
        assert len(program.classes) == 1
        self.size = size
        self.region = Region(0, 0, *shape)
        self.shape = (shape[1], shape[0], size * LENGTH)
        self.simulator = Simulator(program)

    def run(self, operation: int, root: int, data: np.ndarray, result: str) -> np.ndarray:
        """Writes `data[pe]`, runs, and reads a symbol of every PE."""
        self.simulator.submit(CopyIn("data", self.region, data.reshape(self.shape)))
        self.simulator.submit(Launch("run", (operation, root)))
        ticket = self.simulator.submit(CopyOut(result, self.region, self.size * LENGTH))
        found = self.simulator.wait(ticket)
        assert found is not None
        return np.asarray(found).reshape(self.size, self.size, LENGTH)


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize(("size", "axis"), [(1, "x"), (2, "y"), (3, "x"), (4, "y"), (5, "x")])
def test_every_operation_from_every_root(size: int, axis: str, architecture: str) -> None:
    line = _Line(size, axis, architecture)
    generator = np.random.default_rng(size)
    for root in [*range(size), 0, size - 1]:
        data = generator.integers(0, 1 << 20, (size, size, LENGTH)).astype(np.uint32)
        sent = line.run(BROADCAST, root, data, "data")
        assert (sent[:, 0] == data[root, 0]).all()
        chunks = line.run(SCATTER, root, data, "result")
        assert (chunks[:, 0] == data[root]).all()
        collected = line.run(GATHER, root, data, "result")
        assert (collected[root] == data[:, 0]).all()
        numbers = generator.integers(0, 1000, data.shape).astype(np.float32)
        sums = line.run(REDUCE, root, numbers.view(np.uint32), "result").view(np.float32)
        assert (sums[root, 0] == numbers[:, 0].sum(axis=0)).all()


SEQUENCE_LAYOUT = LAYOUT.replace("fn (u16, u16) void", "fn () void").replace(
    '@export_name("result", [*]u32, true);',
    """@export_name("result", [*]u32, true);
  @export_name("steps", [*]u16, true);
  @export_name("seen", [*]u32, true);""",
)
SEQUENCE_PE = f"""
param memcpy_params; param size: u16; param dimension;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const layout_module = @import_module("<layout>");
const mpi = @import_module("<collectives_2d/pe>", .{{ .dim_params = dimension }});
const n: u16 = {LENGTH}; const num_steps: u16 = 40;
var data = @zeros([size * n]u32); var result = @zeros([size * n]u32);
var steps = @zeros([num_steps * 2]u16); var seen = @zeros([num_steps]u32);
var p: [*]u32 = &data; var r: [*]u32 = &result; var s: [*]u16 = &steps; var l: [*]u32 = &seen;
var step: u16; var idle: u16;
const next_id = @get_local_task_id(20);
fn begin() void {{
  const place: u16 = layout_module.get_x_coord() + layout_module.get_y_coord();
  const pause: u16 = (place * 37 + step * 101) % 7 * 50;
  for (@range(u16, pause)) |_| {{ idle += 1; }}
  const root: u16 = steps[2 * step + 1];
  switch (steps[2 * step]) {{
    0 => mpi.broadcast(root, r, n, next_id),
    1 => mpi.scatter(root, p, r, n, next_id),
    2 => mpi.gather(root, p, r, n, next_id),
    else => mpi.reduce_fadds(root, @ptrcast([*]f32, p), @ptrcast([*]f32, r), n, next_id),
  }}
}}
fn run() void {{ mpi.init(); step = 0; begin(); }}
task next() void {{
  seen[step] = result[n - 1];
  step += 1;
  if (step < num_steps) {{ begin(); }} else {{ sys_mod.unblock_cmd_stream(); }}
}}
comptime {{
  @bind_local_task(next, next_id);
  @export_symbol(p, "data"); @export_symbol(r, "result"); @export_symbol(s, "steps");
  @export_symbol(l, "seen"); @export_symbol(run);
}}
"""


@pytest.mark.parametrize(("size", "axis"), [(2, "x"), (3, "y"), (6, "x")])
def test_operations_follow_each_other_at_once_on_pes_that_are_late(size: int, axis: str) -> None:
    shape = (size, 1) if axis == "x" else (1, size)
    layout = SEQUENCE_LAYOUT.replace("IN_ROW", str(shape[0])).replace("IN_COLUMN", str(shape[1]))
    sources = {"layout.csl": layout.replace("AXIS", axis), "pe.csl": SEQUENCE_PE}
    simulator = Simulator(program_of(sources, parameters=(("size", size),), memcpy=True))
    generator = np.random.default_rng(size)
    steps = generator.integers(0, (4, size), (40, 2)).astype(np.uint16)
    data = generator.integers(0, 1000, (size, size, LENGTH)).astype(np.float32)
    region = Region(0, 0, *shape)

    simulator.submit(CopyIn("data", region, data.view(np.uint32).reshape(shape[1], shape[0], -1)))
    simulator.submit(CopyIn("steps", region, steps.reshape(1, 1, -1).astype(np.uint32), bits=16))
    simulator.submit(Launch("run", ()))
    seen = simulator.wait(simulator.submit(CopyOut("seen", region, len(steps))))
    assert seen is not None
    found = np.asarray(seen).reshape(size, len(steps)).view(np.float32)
    assert (found == _seen_after_each(steps, data)).all()


def _seen_after_each(steps: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return the last word of each PE's first chunk of results, after each step."""
    size, result, seen = len(data), np.zeros_like(data), []
    for operation, root in steps:
        if operation == BROADCAST:
            result[:, 0] = result[root, 0]
        elif operation == SCATTER:
            result[:, 0] = data[root]
        elif operation == GATHER:
            result[root] = data[:, 0]
        else:
            result[root, 0] = data[:, 0].sum(axis=0)
        seen.append(result[:, 0, LENGTH - 1].copy())
    return np.array(seen).T.reshape(size, len(steps))


@pytest.mark.parametrize(
    ("is_sum", "cycles_a_pe"),
    [pytest.param(0, 1, id="broadcast"), pytest.param(1, 6, id="reduce_fadds")],
)
def test_a_collective_takes_a_chain_s_cycles_a_pe_and_one_a_word(
    tmp_path: Path, is_sum: int, cycles_a_pe: int
) -> None:
    def cycles(num_pes: int, length: int) -> float:
        parameters = {"num_pes": num_pes, "length": length, "is_sum": is_sum}
        row = Row(
            name="", kind=Kind.COLLECTIVE, cycles=0, program="collective", parameters=parameters
        )
        return cycles_of(row, of_row(row), str(tmp_path))

    few, many = cycles(8, 20), cycles(24, 20)
    assert many - few == 16 * cycles_a_pe
    assert cycles(8, 120) - few == 100


@pytest.mark.parametrize(
    "name",
    [
        *("broadcast of 512 words, 128 PEs", "reduce_fadds of 512 words, 128 PEs"),
        *(
            "broadcast of 16 words, 4 PEs, words alone",
            "broadcast of 16 words, 128 PEs, words alone",
            "reduce_fadds of 16 words, 4 PEs, words alone",
            "reduce_fadds of 16 words, 128 PEs",
        ),
        *("reduce_fadds of 16 words, 32 PEs, words alone",),
    ],
)
def test_a_collective_is_within_five_percent_of_its_closed_form(tmp_path: Path, name: str) -> None:
    row = next(row for row in ROWS if row.name == name)
    assert cycles_of(row, of_row(row), str(tmp_path)) == pytest.approx(row.cycles, rel=0.05)


def test_a_program_s_own_dsrs_keep_what_they_hold_beside_collectives() -> None:
    pe = PE.replace(
        "fn run(",
        """var kept = @zeros([n]u32);
const kept_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> kept[i] });
const mine = @get_dsr(dsr_dest, 0);
fn run(""",
    )
    pe = pe.replace("  mpi.init();", "  mpi.init(); @load_to_dsr(mine, kept_dsd);")
    pe = pe.replace(
        "task finish() void {",
        "task finish() void { @mov32(mine, @as(u32, 7));"
        " for (@range(u16, n)) |i| { result[i] = kept[i]; }",
    )
    layout = LAYOUT.replace("IN_ROW", "3").replace("IN_COLUMN", "1").replace("AXIS", "x")
    simulator = Simulator(
        program_of({"layout.csl": layout, "pe.csl": pe}, parameters=(("size", 3),), memcpy=True)
    )
    region = Region(0, 0, 3, 1)
    data = np.arange(3 * 3 * LENGTH, dtype=np.uint32).reshape(1, 3, -1)
    simulator.submit(CopyIn("data", region, data))
    simulator.submit(Launch("run", (BROADCAST, 1)))
    sent = simulator.wait(simulator.submit(CopyOut("data", region, LENGTH)))
    kept = simulator.wait(simulator.submit(CopyOut("result", region, LENGTH)))
    assert sent is not None
    assert kept is not None
    assert (sent == data[0, 1, :LENGTH]).all()
    assert (kept == 7).all()
