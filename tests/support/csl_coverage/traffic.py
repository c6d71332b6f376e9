# ruff: noqa: E501 - rows of a table
"""What happens to wavelets on their way: teardown, color swap, sparse filters, lists of commands."""

from tests.support.csl_coverage.pairs import (
    ADVANCE,
    COMMANDS,
    ROUTES,
    TAKE_2,
    TAKE_3,
    TAKE_4,
    TASK,
    filtered,
    pair,
    switched,
)
from tests.support.csl_coverage.rows import Row

TORN = ROUTES.replace(".tx = .{ RAMP } }", ".tx = .{ RAMP } }, .teardown = true")
TILE = 'const tile = @import_module("<tile_config>"); '
WAITING = (
    TAKE_4
    + TILE
    + "const lt = @get_local_task_id(10); var k: u16 = 0; task tick() void { k += 1; if (k < 30) { @activate(lt); } else { out[4] = @as(i32, n); EXIT } } comptime { @bind_local_task(tick, lt); }"
)
TEARDOWN = "@mov32(fc, ctrl.encode_single_payload(ctrl.opcode.TEARDOWN, true, {}, 0)); "
LEAVE = (
    TILE
    + "fn leave() void { tile.teardown.exit(c0); LEFT } comptime { @set_teardown_handler(leave, c0); }"
)
SWAP_ROUTES = "@set_color_config(1, 0, @get_color(2), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); @set_color_config(0, 0, c0, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP }, SWAP } });"
SENT_ON_2 = 'const c2 = @get_color(2); const o2 = @get_output_queue(3); comptime { if (@is_arch("wse3")) @initialize_queue(o2, .{ .color = c2 }); } const f2 = @get_dsd(fabout_dsd, .{ .extent = 4, .fabric_color = c2, .output_queue = o2 });'
SWITCHES = (
    COMMANDS
    + 'const sw = @import_module("<memcpy/memcpy_switches>"); fn put(v: u32) void { @mov32(one, v); } '
)
POSITIONS = ".pos1 = .{ .tx = EAST }, .ring_mode = true, .pop_mode = .{ .always_pop = true }"


def _sparse(settings: str) -> str:
    """The routes with a filter that counts sparsely at the receiver."""
    return filtered(
        ".filter = .{ .kind = .{ .sparse_counter = true }, .count_data = true, .count_control = false, "
        + settings
        + " }"
    )


def _swapped(swap: str) -> str:
    return SWAP_ROUTES.replace("SWAP", swap)


def _direction(says: str, body: str, out: tuple[int, ...]) -> Row:
    return Row(
        page="libraries",
        says=f"<directions>: {says}",
        top='const d = @import_module("<directions>"); fn i(x: direction) i32 { return @as(i32, @get_int(x)); } var side: direction = NORTH; ',
        body=body,
        out=out,
    )


def _payload(says: str, top: str, body: str, out: tuple[int, ...]) -> Row:
    return Row(
        page="libraries",
        says=says,
        top='const ctrl = @import_module("<control>"); const op = ctrl.opcode; fn w(x: u32) i32 { return @bitcast(i32, x); }'
        + top,
        body=body,
        out=out,
    )


ROWS = (
    pair(
        "teardown",
        "nothing moves on a color that begins in teardown until the program ends it",
        pe=WAITING.replace("EXIT", "tile.teardown.exit(c0);"),
        main="@activate(lt);",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40, 0),
        routes=TORN,
    ),
    pair(
        "teardown",
        "a color is pending from its TEARDOWN until its handler ends it",
        pe=TAKE_2
        + TILE
        + "fn leave() void { out[5] = @bitcast(i32, tile.teardown.get_pending()); if (tile.teardown.is_pending(tile.teardown.get_pending(), c0)) { out[6] = 1; } tile.teardown.exit(c0); out[7] = @bitcast(i32, tile.teardown.get_pending()); } comptime { @set_teardown_handler(leave, c0); }",
        main="out[4] = @bitcast(i32, tile.teardown.get_pending());",
        sender=COMMANDS + LEAVE.replace("LEFT", ""),
        sends="for (@range(i16, 50)) |_| { @mov32(dd, dd); } @mov32(one, @as(u32, 1)); "
        + TEARDOWN
        + "@mov32(one, @as(u32, 2));",
        out=(1, 2, 0, 0, 0, 8, 1, 0),
    ),
    pair(
        "teardown",
        "a TEARDOWN runs the handler of each PE that it reaches, and traffic goes on",
        pe=TAKE_4 + LEAVE.replace("LEFT", "out[4] += 1;"),
        main="",
        sender=COMMANDS + LEAVE.replace("LEFT", ""),
        sends="@mov32(one, @as(u32, 1)); @mov32(one, @as(u32, 2)); "
        + TEARDOWN
        + "const two = @set_dsd_length(fo, 2); @mov32(two, @set_dsd_length(dd, 2), .{ .async = true });",
        out=(1, 2, 10, 20, 1),
    ),
    pair(
        "teardown",
        "the handler may give the color other routes",
        pe=TAKE_3,
        main="",
        sender=COMMANDS
        + TILE
        + "fn leave() void { tile.color_config.reset_routes(c0, .{ .rx = RAMP, .tx = WEST }); tile.teardown.exit(c0); } comptime { @set_teardown_handler(leave, c0); }",
        sends="@mov32(one, @as(u32, 1)); " + TEARDOWN + "@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
        routes=ROUTES.replace(".tx = .{ WEST }", ".tx = .{ NORTH }"),
    ),
    pair(
        "switches",
        "'ctrl' of <memcpy/memcpy_switches> commands one router after another",
        pe=TAKE_3,
        main="",
        sender=SWITCHES,
        sends="put(1); @mov32(fc, sw.ctrl(sw.switch_cmd_11())); put(2); "
        + ADVANCE
        + "put(3); put(4);",
        out=(1, 3, 4),
        routes=switched(POSITIONS),
    ),
    pair(
        "teardown",
        "'teardown_cmd_1' of <memcpy/memcpy_switches> is a TEARDOWN",
        pe=TAKE_2,
        main="",
        sender=SWITCHES
        + TILE
        + "fn leave() void { tile.teardown.exit(c0); } comptime { @set_teardown_handler(leave, c0); }",
        sends="put(1); @mov32(fc, sw.ctrl(sw.teardown_cmd_1())); put(2);",
        out=(1, 2),
        routes=switched(".pos1 = .{ .tx = EAST }, .pop_mode = .{ .always_pop = true }"),
    ),
    pair(
        "routes",
        "a color that swaps along x takes the wavelets of its partner from east and west",
        pe=TAKE_4,
        main="",
        sender=SENT_ON_2,
        sends="@mov32(f2, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
        routes=_swapped(".color_swap_x = true"),
    ),
    pair(
        "routes",
        "two colors that both swap exchange their wavelets",
        pe=TAKE_4.replace("n == 4", "n + m == 4")
        + 'var m: u16 = 0; const i2 = @get_input_queue(3); const c2 = @get_color(2); comptime { @initialize_queue(i2, .{ .color = c2 }); } task two(w: u32) void { out[4 + m] = @bitcast(i32, w); m += 1; if (n + m == 4) sys.unblock_cmd_stream(); } comptime { @bind_data_task(two, if (@is_arch("wse3")) @get_data_task_id(i2) else @get_data_task_id(c2)); }',
        main="",
        sender=SENT_ON_2,
        sends="@mov32(@set_dsd_length(f2, 2), @set_dsd_length(dd, 2)); @mov32(@set_dsd_length(fo, 2), @increment_dsd_offset(@set_dsd_length(dd, 2), 2, u32));",
        out=(10, 20, 0, 0, 30, 40),
        routes=_swapped(".color_swap_x = true")
        + "@set_color_config(1, 0, c0, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); @set_color_config(0, 0, @get_color(2), .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP }, .color_swap_x = true } });",
    ),
    pair(
        "filters",
        "a sparse counter that has hit its limit is off",
        pe=TAKE_3,
        main="",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 30, 40),
        routes=_sparse(".init_counter = 0, .max_counter = 0, .limit1 = 1"),
    ),
    pair(
        "filters",
        "a sparse counter takes its second limit once",
        pe=TAKE_2,
        main="",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 30),
        routes=_sparse(".init_counter = 0, .max_counter = 0, .limit1 = 1, .limit2 = 5"),
    ),
    pair(
        "filters",
        "a range filter passes control wavelets whatever they carry",
        pe=TASK
        + "var n: u16 = 0; task got(v: u16, i: u16) void { out[n] = @as(i32, v); n += 1; } task ct(v: u16) void { out[7] = @as(i32, v); sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); @bind_control_task(ct, @get_control_task_id(40)); }",
        main="",
        sender=COMMANDS,
        sends="@mov32(one, @as(u32, 0x10007)); @mov32(one, @as(u32, 0x70008)); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.NOP, false, @get_control_task_id(40), 9));",
        out=(8, 0, 0, 0, 0, 0, 0, 9),
        routes=filtered(".filter = .{ .kind = .{ .range = true }, .min_idx = 5, .max_idx = 8 }"),
    ),
    Row(
        page="dsrs",
        says="'@map' over registers that are loaded with 'single_step'",
        top="var a = [4]f32{ 1.0, 2.0, 3.0, 4.0 }; var r = @zeros([4]f32); const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] }); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] }); const s = @get_dsr(dsr_src0, 2); const t = @get_dsr(dsr_dest, 2); fn f(x: f32, k: f32) f32 { return x * k; }",
        body="@load_to_dsr(s, da, .{ .single_step = true }); @load_to_dsr(t, dr, .{ .single_step = true }); @map(f, s, 3.0, t); for (@range(u16, 4)) |i| { out[i] = @as(i32, r[i]); }",
        out=(3, 6, 9, 12),
    ),
    Row(
        page="dsrs",
        says="registers that are loaded at compile time",
        top="var a = [4]u16{ 1, 2, 3, 4 }; var r = @zeros([4]u16); const s = @get_dsr(dsr_src0, 2); const t = @get_dsr(dsr_dest, 2); comptime { @load_to_dsr(s, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> a[i] }), .{ .save_address = true }); @load_to_dsr(t, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> r[i] }), .{ .save_address = true }); }",
        body="@mov16(t, s); @add16(t, s, 10); for (@range(u16, 4)) |i| { out[i] = @as(i32, r[i]); }",
        out=(1, 2, 13, 14),
    ),
    _direction(
        "the opposite side",
        "out[0] = @as(i32, d.flip(NORTH) == SOUTH); out[1] = @as(i32, d.flip(side) == SOUTH); out[2] = @as(i32, d.flip(WEST) == EAST); out[3] = @as(i32, d.flip(RAMP) == RAMP); out[4] = @as(i32, d.flip(d.flip(side)) == side);",
        (1, 1, 1, 1, 1),
    ),
    _direction(
        "mirrored on one axis",
        "out[0] = @as(i32, d.flip_horizontal(EAST) == WEST); out[1] = @as(i32, d.flip_horizontal(NORTH) == NORTH); out[2] = @as(i32, d.flip_vertical(side) == SOUTH); out[3] = @as(i32, d.flip_vertical(WEST) == WEST); out[4] = @as(i32, d.flip_vertical(RAMP) == RAMP);",
        (1, 1, 1, 1, 1),
    ),
    _direction(
        "turned",
        "out[0] = @as(i32, d.rotate_clockwise(NORTH) == EAST); out[1] = @as(i32, d.rotate_clockwise(WEST) == NORTH); out[2] = @as(i32, d.rotate_counterclockwise(side) == WEST); out[3] = @as(i32, d.rotate_counterclockwise(d.rotate_clockwise(SOUTH)) == SOUTH); out[4] = @as(i32, d.rotate_clockwise(RAMP) == RAMP);",
        (1, 1, 1, 1, 1),
    ),
    _direction(
        "bits of both sides, of every direction",
        "var all: u16 = d.RX_RAMP | d.TX_RAMP; out[0] = @as(i32, all == (d.dirToRxBits(RAMP) | d.dirToTxBits(RAMP))); for ([5]direction{ WEST, EAST, SOUTH, NORTH, RAMP }) |side_of| { all |= d.dirToRxBits(side_of) | d.dirToTxBits(side_of); } out[1] = @as(i32, all); out[2] = @as(i32, d.dirToRxBits(side) & d.dirToTxBits(side));",
        (1, 1023, 0),
    ),
    pair(
        "routes",
        "routes and switch positions as bits",
        pe=TAKE_3,
        main="",
        sender=COMMANDS,
        sends="@mov32(one, @as(u32, 1)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 2)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 3)); @mov32(one, @as(u32, 4));",
        out=(1, 3, 4),
        routes='const d = @import_module("<directions>"); @set_color_config(1, 0, c0, .{ .routes = d.RX_RAMP | d.dirToTxBits(WEST), .switches = .{ .pos1 = d.dirToTxBits(EAST), .ring_mode = true, .pop_mode = .{ .always_pop = true } } }); @set_color_config(0, 0, c0, .{ .routes = d.dirToRxBits(EAST) | d.TX_RAMP });',
    ),
    _payload(
        "<control>: the payload that names a control task",
        "",
        "out[0] = w(ctrl.encode_control_task_payload(@get_control_task_id(43))); out[1] = w(ctrl.encode_single_payload(op.SWITCH_ADV, true, {}, 7)); out[2] = @as(i32, ctrl.MAX_CMDS);",
        (43 << 16, 0x015F0007, 8),
    ),
    _payload(
        "<control>: the payload of a list of commands",
        "",
        "out[0] = w(ctrl.encode_payload(2, [2]op{ op.SWITCH_ADV, op.SWITCH_RST }, [2]bool{ true, false }, true, @get_control_task_id(5))); out[1] = w(ctrl.encode_payload(0, [0]op{}, [0]bool{}, false, {})); out[2] = w(ctrl.encode_payload(8, @constants([8]op, op.TEARDOWN), @constants([8]bool, true), true, {}));",
        ((5 << 16) | 0x05400000 | 0x9249, 31 << 16, -1 & 0x3FFFFFFF & ~(63 << 16) | (31 << 16)),
    ),
    _payload(
        "<memcpy/memcpy_switches>: commands that no core sees",
        'const s = @import_module("<memcpy/memcpy_switches>");',
        "out[0] = w(s.ctrl(s.teardown_cmd_1())); out[1] = w(s.ctrl(@zeros([8]u16))); out[2] = w(s.ctrl(s.switch_cmd_11()));",
        (0x09DF9249, 0x091F9249, 0x0B5F9249),
    ),
)
