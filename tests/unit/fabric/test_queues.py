"""Queues that a program binds to another color while it runs."""

import pytest

from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import program_of

LENGTH = 9
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  @set_tile_code(0, 0, "sender.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @set_tile_code(1, 0, "receiver.csl", .{ .memcpy_params = memcpy.get_params(1) });
  @export_name("run", fn () void);
  @export_name("got", [*]u32, true);
}
"""
SENDER = f"""
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
var ones = @constants([{LENGTH}]u32, 1);
var twos = @constants([{LENGTH}]u32, 2);
const first = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{LENGTH}}} -> ones[i] }});
const second = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{LENGTH}}} -> twos[i] }});
const out = @get_output_queue(2);
const next = @get_output_queue(3);
const red = @get_color(10);
const blue = @get_color(12);
const wse3 = @is_arch("wse3");
const to_red = @get_dsd(fabout_dsd, if (wse3) .{{ .extent = {LENGTH}, .output_queue = out }}
  else .{{ .extent = {LENGTH}, .output_queue = out, .fabric_color = red }});
const to_blue = @get_dsd(fabout_dsd, if (wse3) .{{ .extent = {LENGTH}, .output_queue = next }}
  else .{{ .extent = {LENGTH}, .output_queue = out, .fabric_color = blue }});
fn run() void {{ @mov32(to_red, first, .{{ .async = true, .activate = more }}); }}
task more() void {{ @mov32(to_blue, second, .{{ .async = true, .activate = done }}); }}
task done() void {{ sys_mod.unblock_cmd_stream(); }}
comptime {{
  @bind_local_task(more, @get_local_task_id(14));
  @bind_local_task(done, @get_local_task_id(15));
  @initialize_queue(out, if (wse3) .{{ .color = red }} else .{{}});
  if (wse3) @initialize_queue(next, .{{ .color = blue }});
  @set_local_color_config(red, .{{ .routes = .{{ .rx = .{{ RAMP }}, .tx = .{{ EAST }} }} }});
  @set_local_color_config(blue, .{{ .routes = .{{ .rx = .{{ RAMP }}, .tx = .{{ EAST }} }} }});
  @export_symbol(run);
}}
"""
RECEIVER = f"""
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const tile = @import_module("<tile_config>");
var got = @zeros([2 * {LENGTH}]u32);
var target: [*]u32 = &got;
var spent = @zeros([100]u16);
const queue = @get_input_queue(2);
const red = @get_color(10);
const blue = @get_color(12);
const stream = @get_dsd(fabin_dsd, .{{ .extent = {LENGTH}, .input_queue = queue }});
const place = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{LENGTH}}} -> got[i] }});
fn wait() void {{
  for (@range(u16, 100)) |i| {{ spent[i] = i; }}
}}
fn run() void {{ wait(); @mov32(place, stream, .{{ .async = true, .activate = turn }}); }}
task turn() void {{
  wait();  // wavelets of the second color are there before a queue is bound to it
  tile.input_queue_config.encode_input_queue(@as(i16, 2), @get_int(blue), true);
  const behind = @increment_dsd_offset(place, {LENGTH}, u32);
  @mov32(behind, stream, .{{ .async = true, .activate = done }});
}}
task done() void {{ sys_mod.unblock_cmd_stream(); }}
comptime {{
  @block(if (@is_arch("wse3")) @get_data_task_id(queue) else @get_data_task_id(red));
  @bind_local_task(turn, @get_local_task_id(14));
  @bind_local_task(done, @get_local_task_id(15));
  @initialize_queue(queue, .{{ .color = red }});
  @set_local_color_config(red, .{{ .routes = .{{ .rx = .{{ WEST }}, .tx = .{{ RAMP }} }} }});
  @set_local_color_config(blue, .{{ .routes = .{{ .rx = .{{ WEST }}, .tx = .{{ RAMP }} }} }});
  @export_symbol(run);
  @export_symbol(target, "got");
}}
"""


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_what_has_come_before_a_queue_is_bound_to_its_color_is_read_from_it(
    architecture: str,
) -> None:
    texts = {"layout.csl": LAYOUT, "sender.csl": SENDER, "receiver.csl": RECEIVER}
    simulator = Simulator(program_of(texts, architecture=architecture, memcpy=True))
    simulator.submit(Launch("run"))
    got = simulator.wait(simulator.submit(CopyOut("got", Region(1, 0, 1, 1), 2 * LENGTH)))
    assert got is not None
    assert got.ravel().tolist() == [1] * LENGTH + [2] * LENGTH
