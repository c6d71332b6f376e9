"""Our collectives on the simulated fabric: every operation, every root, one after another."""

import numpy as np
import pytest

from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
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
