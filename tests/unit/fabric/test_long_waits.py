"""Wavelets that wait longer than 32 bits of cycles can count."""

import pytest

from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  @set_tile_code(0, 0, "sender.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @set_tile_code(1, 0, "receiver.csl", .{ .memcpy_params = memcpy.get_params(1) });
  @export_name("send", fn () void);
  @export_name("take", fn () void);
  @export_name("got", [*]u32, true);
}
"""
SENDER = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const color = @get_color(10);
const out = @get_dsd(fabout_dsd, .{ .extent = 2, .output_queue = @get_output_queue(2),
  .fabric_color = color });
fn send() void { @mov32(out, @as(u32, 7)); sys_mod.unblock_cmd_stream(); }
fn take() void { sys_mod.unblock_cmd_stream(); }
comptime {
  @set_local_color_config(color, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @export_symbol(send);
  @export_symbol(take);
}
"""
RECEIVER = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const color = @get_color(10);
const queue = @get_input_queue(2);
var got = @zeros([2]u32);
var target: [*]u32 = &got;
const place = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> got[i] });
const stream = @get_dsd(fabin_dsd, .{ .extent = 2, .input_queue = queue });
fn send() void { sys_mod.unblock_cmd_stream(); }
fn take() void { @mov32(place, stream); sys_mod.unblock_cmd_stream(); }
comptime {
  @block(@get_data_task_id(color));
  @initialize_queue(queue, .{ .color = color });
  @set_local_color_config(color, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @export_symbol(send);
  @export_symbol(take);
  @export_symbol(target, "got");
}
"""


@pytest.mark.parametrize("waited", [1 << 30, (1 << 31) + 5, 3 << 31, (5 << 32) + 7])
def test_a_wavelet_may_wait_for_billions_of_cycles(waited: int) -> None:
    texts = {"layout.csl": LAYOUT, "sender.csl": SENDER, "receiver.csl": RECEIVER}
    simulator = Simulator(program_of(texts, memcpy=True))
    region = Region(1, 0, 1, 1)
    simulator.submit(Launch("send"))
    simulator.wait(simulator.submit(CopyOut("got", region, 2)))
    simulator._kernel.let_pass(simulator._handle, waited)
    simulator.submit(Launch("take"))
    got = simulator.wait(simulator.submit(CopyOut("got", region, 2)))
    assert got is not None
    assert got.ravel().tolist() == [7, 7]
    assert waited < simulator.cycle() < waited + 1000
