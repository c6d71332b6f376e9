# ruff: noqa: E501 - rows of a table
"""Two PEs: what one sends, the other receives in tasks, operations, switches and filters."""

from tests.support.csl_coverage.rows import BOTH, PRELUDE, Row

WSE3 = ("wse3",)
ROUTES = "@set_color_config(1, 0, c0, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }); @set_color_config(0, 0, c0, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } });"
SEND = 'const oq = @get_output_queue(2); comptime { if (@is_arch("wse3")) @initialize_queue(oq, .{ .color = c0 }); } var data = [4]u32{ 10, 20, 30, 40 }; const dd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> data[i] }); const fo = @get_dsd(fabout_dsd, .{ .extent = 4, .fabric_color = c0, .output_queue = oq });'
RECV = "const iq = @get_input_queue(2); comptime { @initialize_queue(iq, .{ .color = c0 }); }"
TASK = 'const did = if (@is_arch("wse3")) @get_data_task_id(iq) else @get_data_task_id(c0);'
TAKE_4 = (
    TASK
    + "var n: u16 = 0; task got(w: u32) void { out[n] = @bitcast(i32, w); n += 1; if (n == 4) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); }"
)
TAKE_3 = TAKE_4.replace("n == 4", "n == 3")
TAKE_2 = TAKE_4.replace("n == 4", "n == 2")
COMMANDS = 'const ctrl = @import_module("<control>"); const fc = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c0, .output_queue = oq, .control = true }); const one = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c0, .output_queue = oq });'
ADVANCE = "@mov32(fc, ctrl.encode_single_payload(ctrl.opcode.SWITCH_ADV, true, {}, 0)); "
COLORS = "const c0 = @get_color(3);"
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
const c0 = @get_color(3);
layout {
  @set_rectangle(2, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @set_tile_code(1, 0, "sender.csl", .{ .memcpy_params = memcpy.get_params(1) });
  ROUTES
  @export_name("out", [*]i32, true);
  @export_name("main", fn () void);
}
"""


def pair(
    page: str,
    says: str,
    *,
    pe: str,
    main: str,
    sends: str,
    out: tuple[int, ...],
    sender: str = "",
    routes: str = "",
    architectures: tuple[str, ...] = BOTH,
) -> Row:
    """A row whose PE receives what the PE to its east sends."""
    files = {
        "layout.csl": LAYOUT.replace("ROUTES", routes or ROUTES),
        "sender.csl": f"{PRELUDE}{COLORS}{SEND}{sender}\nfn main() void {{ {sends} sys.unblock_cmd_stream(); }}\n",
    }
    return Row(
        page=page,
        says=says,
        top=COLORS + RECV + pe,
        body=main,
        out=out,
        finishes=False,
        architectures=architectures,
        files=files,
    )


def switched(positions: str) -> str:
    """The routes with a switch at the sender."""
    return ROUTES.replace(
        ".tx = .{ WEST } }", ".tx = .{ WEST } }, .switches = .{ " + positions + " }"
    )


def filtered(settings: str) -> str:
    """The routes with a filter at the receiver."""
    return ROUTES.replace(".tx = .{ RAMP } }", ".tx = .{ RAMP } }, " + settings)


ROWS = (
    pair(
        "tasks",
        "a data task gets the whole word, halves, or a float",
        pe=TASK
        + "var n: u16 = 0; task got(lo: i16, hi: u16) void { out[n] = lo; out[n + 4] = @as(i32, hi); n += 1; if (n == 4) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); }",
        main="",
        sends="data[0] = 0x0005ffff; @mov32(fo, dd, .{ .async = true });",
        out=(-1, 20, 30, 40, 5, 0, 0, 0),
    ),
    pair(
        "tasks",
        "a data task that blocks itself until a local task unblocks it",
        pe=TASK
        + 'const lt = @get_local_task_id(10); var n: u16 = 0; task got(w: u32) void { out[n] = @as(i32, w); if (@is_arch("wse3")) { @block(iq); } else { @block(c0); } @activate(lt); } task next() void { out[n] += 1; n += 1; if (n == 4) { sys.unblock_cmd_stream(); } if (@is_arch("wse3")) { @unblock(iq); } else { @unblock(c0); } } comptime { @bind_data_task(got, did); @bind_local_task(next, lt); }',
        main="",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(11, 21, 31, 41),
    ),
    pair(
        "tasks",
        "a data task with a float and one of two floats of 16 bits",
        pe=TASK
        + "var n: u16 = 0; task got(a: f16, b: f16) void { out[n] = @as(i32, a + b); n += 1; if (n == 4) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); }",
        main="",
        sends="data[0] = 0x40003c00; data[1] = 0; data[2] = 0xbc00; data[3] = 0x3c000000; @mov32(fo, dd, .{ .async = true });",
        out=(3, 0, -1, 1),
    ),
    pair(
        "dsds",
        "received words are added to memory",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); const lt = @get_local_task_id(10); var acc = [4]u16{ 1, 2, 3, 4 }; const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> acc[i] }); task done() void { for (@range(u16, 4)) |i| { out[i] = @as(i32, acc[i]); } sys.unblock_cmd_stream(); } comptime { @bind_local_task(done, lt); }",
        main="@add16(da, da, fin, .{ .async = true, .activate = done });",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(11, 22, 33, 44),
    ),
    pair(
        "dsds",
        "an operation from the fabric into a number, awaited",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); var s: f32 = 0.5;",
        main="@fadds(&s, s, fin); out[0] = @as(i32, s); sys.unblock_cmd_stream();",
        sends="@fmovs(fo, df, .{ .async = true });",
        out=(11,),
        sender="var f = [4]f32{ 1.0, 2.0, 3.0, 4.5 }; const df = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> f[i] });",
    ),
    pair(
        "dsds",
        "an operation reads memory and sends what it computes",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); var r = @zeros([4]f32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] });",
        main="@fmovs(dr, fin); out[0] = @as(i32, r[0]); out[1] = @as(i32, r[3]); sys.unblock_cmd_stream();",
        sends="@fmuls(fo, df, 2.0);",
        out=(2, 9),
        sender="var f = [4]f32{ 1.0, 2.0, 3.0, 4.5 }; const df = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> f[i] });",
    ),
    pair(
        "dsds",
        "an operation unblocks a data task at its end",
        pe=TASK
        + "const fin = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = c0, .input_queue = iq }); var r = @zeros([2]u32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> r[i] }); var n: u16 = 2; task got(w: u32) void { out[0] = @as(i32, r[0]); out[1] = @as(i32, r[1]); out[n] = @as(i32, w); n += 1; if (n == 4) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); @block(did); }",
        main="@mov32(dr, fin, .{ .async = true, .unblock = did });",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
    ),
    pair(
        "dsds",
        "operations run on microthreads of their own",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); const lt = @get_local_task_id(10); var r = @zeros([4]u32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] }); task done() void { out[0] = @as(i32, r[3]); sys.unblock_cmd_stream(); } comptime { @bind_local_task(done, lt); }",
        main="@mov32(dr, fin, .{ .async = true, .activate = lt, .ut_id = @get_ut_id(5) });",
        sends="@mov32(fo, dd, .{ .async = true, .ut_id = @get_ut_id(6) });",
        out=(40,),
        architectures=WSE3,
    ),
    pair(
        "control",
        "a control wavelet ends an operation and activates a task",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 100, .fabric_color = c0, .input_queue = iq }); const lt = @get_local_task_id(10); var r = @zeros([100]u32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{100} -> r[i] }); task done() void { for (@range(u16, 5)) |i| { out[i] = @as(i32, r[i]); } sys.unblock_cmd_stream(); } comptime { @bind_local_task(done, lt); }",
        main="@mov32(dr, fin, .{ .async = true, .on_control = .{ .activate = lt } });",
        sends="@mov32(fo, dd, .{ .async = true, .activate = lt });",
        out=(10, 20, 30, 40, 0),
        sender='const ctrl = @import_module("<control>"); const fc = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c0, .output_queue = oq, .control = true }); const lt = @get_local_task_id(10); task go() void { @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.NOP, false, {}, 0), .{ .async = true }); sys.unblock_cmd_stream(); } comptime { @bind_local_task(go, lt); }',
    ),
    pair(
        "control",
        "a control wavelet runs a control task with its data",
        pe='task ct(v: u16) void { out[0] = @as(i32, v); sys.unblock_cmd_stream(); } comptime { @bind_control_task(ct, @get_control_task_id(40)); if (@is_arch("wse3")) { @unblock(iq); } else { @unblock(c0); } }',
        main="",
        sends="@mov32(fc, ctrl.encode_single_payload(ctrl.opcode.NOP, false, @get_control_task_id(40), 77), .{ .async = true });",
        out=(77,),
        sender='const ctrl = @import_module("<control>"); const fc = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c0, .output_queue = oq, .control = true });',
    ),
    pair(
        "switches",
        "a switch advances with a control wavelet and goes back to position 0",
        pe=TASK
        + "var n: u16 = 0; task got(w: u32) void { out[n] = @as(i32, w); n += 1; if (n == 3) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); }",
        main="",
        sends="@mov32(one, @as(u32, 1)); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.SWITCH_ADV, true, {}, 0)); @mov32(one, @as(u32, 2)); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.SWITCH_ADV, true, {}, 0)); @mov32(one, @as(u32, 3)); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.SWITCH_RST, true, {}, 0)); @mov32(one, @as(u32, 4));",
        out=(1, 3, 4),
        sender='const ctrl = @import_module("<control>"); const fc = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c0, .output_queue = oq, .control = true }); const one = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c0, .output_queue = oq });',
        routes=ROUTES.replace(
            ".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } }",
            ".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } }, .switches = .{ .pos1 = .{ .tx = EAST }, .ring_mode = true, .pop_mode = .{ .always_pop = true } } }",
        ),
    ),
    pair(
        "filters",
        "a counting filter passes every second word",
        pe=TASK
        + "var n: u16 = 0; task got(w: u32) void { out[n] = @as(i32, w); n += 1; if (n == 2) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); }",
        main="",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 30),
        routes=ROUTES.replace(
            ".tx = .{ RAMP } }",
            ".tx = .{ RAMP } }, .filter = .{ .kind = .{ .counter = true }, .count_data = true, .count_control = false, .init_counter = 0, .limit1 = 1, .max_counter = 0 }",
        ),
    ),
    pair(
        "filters",
        "a filter that is not told what it counts passes everything",
        pe=TAKE_4,
        main="",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
        routes=ROUTES.replace(
            ".tx = .{ RAMP } }",
            ".tx = .{ RAMP } }, .filter = .{ .kind = .{ .counter = true }, .limit1 = 1, .max_counter = 0 }",
        ),
    ),
    pair(
        "filters",
        "a range filter passes the indices between its bounds",
        pe=TASK
        + "var n: u16 = 0; task got(v: u16, i: u16) void { out[n] = @as(i32, v) + 100 * @as(i32, i); n += 1; if (n == 2) sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); }",
        main="",
        sends="for (@range(u16, 4)) |i| { data[i] = (@as(u32, i) << 16) + 7; } @mov32(fo, dd, .{ .async = true });",
        out=(107, 207),
        routes=ROUTES.replace(
            ".tx = .{ RAMP } }",
            ".tx = .{ RAMP } }, .filter = .{ .kind = .{ .range = true }, .min_idx = 1, .max_idx = 2 }",
        ),
    ),
    pair(
        "dsds",
        "one index for all elements",
        pe=TAKE_3,
        main="",
        sender="var h = [3]u16{ 7, 8, 9 }; const hd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> h[i] }); const f3 = @get_dsd(fabout_dsd, .{ .extent = 3, .fabric_color = c0, .output_queue = oq });",
        sends="@mov16(f3, hd, .{ .async = true, .index = 5 });",
        out=(7 + (5 << 16), 8 + (5 << 16), 9 + (5 << 16)),
    ),
    pair(
        "dsds",
        "'advance_switch' advances after the last word",
        pe=TAKE_4,
        main="",
        sender="const f2 = @get_dsd(fabout_dsd, .{ .extent = 2, .fabric_color = c0, .output_queue = oq, .advance_switch = true }); const d2 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> data[i] });",
        sends="@mov32(f2, d2); @mov32(f2, d2); data[0] = 50; data[1] = 60; @mov32(f2, d2);",
        out=(10, 20, 50, 60),
        routes=switched(".pos1 = .{ .tx = EAST }, .ring_mode = true"),
    ),
    pair(
        "dsds",
        "'zero' clears the source that was sent",
        pe=TAKE_4,
        main="",
        sender="const fz = @get_dsd(fabout_dsd, .{ .extent = 2, .fabric_color = c0, .output_queue = oq, .zero = .{ .first_source = true } }); const d2 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> data[i] });",
        sends="@mov32(fz, d2); @mov32(fz, d2);",
        out=(10, 20, 0, 0),
    ),
    pair(
        "switches",
        "'current_switch_pos' is where a switch begins",
        pe=TAKE_2,
        main="",
        sender=COMMANDS,
        sends="@mov32(one, @as(u32, 1)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 2)); @mov32(one, @as(u32, 3));",
        out=(2, 3),
        routes=switched(".pos1 = .{ .tx = EAST }, .current_switch_pos = 1, .ring_mode = true"),
    ),
    pair(
        "switches",
        "a switch without 'ring_mode' stays at its last position",
        pe=TAKE_2,
        main="",
        sender=COMMANDS,
        sends="@mov32(one, @as(u32, 1)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 2)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 3)); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.SWITCH_RST, true, {}, 0)); @mov32(one, @as(u32, 4));",
        out=(1, 4),
        routes=switched(".pos1 = .{ .tx = EAST }"),
    ),
    pair(
        "switches",
        "an invalid position is passed over",
        pe=TAKE_2,
        main="",
        sender=COMMANDS,
        sends="@mov32(one, @as(u32, 1)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 2)); "
        + ADVANCE
        + "@mov32(one, @as(u32, 3)); ",
        out=(1, 3),
        routes=switched(".pos1 = .{ .tx = EAST }, .pos2 = .{ .invalid = true }, .ring_mode = true"),
    ),
    pair(
        "switches",
        "a popped command leaves the next one for the next router",
        pe=TAKE_4,
        main="",
        sender=COMMANDS,
        sends="@mov32(fc, ctrl.encode_payload(2, [2]ctrl.opcode{ ctrl.opcode.NOP, ctrl.opcode.SWITCH_ADV }, [2]bool{ true, true }, true, {})); @mov32(one, @as(u32, 1)); @mov32(one, @as(u32, 2)); @mov32(one, @as(u32, 3)); @mov32(one, @as(u32, 4));",
        out=(1, 2, 3, 4),
        routes=switched(".pop_mode = .{ .always_pop = true }"),
    ),
    pair(
        "control",
        "a control wavelet ends an operation and unblocks a task",
        pe=TASK
        + "const fin = @get_dsd(fabin_dsd, .{ .extent = 100, .fabric_color = c0, .input_queue = iq }); var r = @zeros([100]u32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{100} -> r[i] }); task got(w: u32) void { out[0] = @as(i32, r[0]); out[1] = @as(i32, r[3]); out[2] = @as(i32, w); sys.unblock_cmd_stream(); } comptime { @bind_data_task(got, did); @block(did); }",
        main="@mov32(dr, fin, .{ .async = true, .on_control = .{ .unblock = did } });",
        sender=COMMANDS
        + "const lt = @get_local_task_id(10); task go() void { @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.NOP, false, {}, 0)); @mov32(one, @as(u32, 99)); } comptime { @bind_local_task(go, lt); }",
        sends="@mov32(fo, dd, .{ .async = true, .activate = lt });",
        out=(10, 40, 99),
    ),
    pair(
        "control",
        "a synchronous operation ends with a control wavelet",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 100, .fabric_color = c0, .input_queue = iq }); var s: f32 = 0.0;",
        main="@fadds(&s, s, fin, .{ .on_control = .{ .terminate = true } }); out[0] = @as(i32, s); sys.unblock_cmd_stream();",
        sender=COMMANDS
        + "var f = [3]f32{ 1.0, 2.0, 4.0 }; const df = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> f[i] }); const f3 = @get_dsd(fabout_dsd, .{ .extent = 3, .fabric_color = c0, .output_queue = oq });",
        sends="@fmovs(f3, df); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.NOP, false, {}, 0));",
        out=(7,),
    ),
    pair(
        "filters",
        "control wavelets are counted where the filter says so",
        pe=TAKE_2,
        main="",
        sender=COMMANDS,
        sends="@mov32(one, @as(u32, 1)); @mov32(fc, ctrl.encode_single_payload(ctrl.opcode.NOP, false, {}, 0)); @mov32(one, @as(u32, 2)); @mov32(one, @as(u32, 3));",
        out=(1, 2),
        routes=filtered(
            ".filter = .{ .kind = .{ .counter = true }, .count_data = true, .count_control = true, .init_counter = 0, .limit1 = 1, .max_counter = 0 }"
        ),
    ),
    pair(
        "fifos",
        "words wait in a FIFO between the fabric and an operation",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); var buf = @zeros([2]u32); const fifo = @allocate_fifo(buf); var r = @zeros([4]u32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] }); const lt = @get_local_task_id(10); var n: u16 = 0; task pop() void { const k = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> r[i] }); while (@mov32(@increment_dsd_offset(k, @as(i16, n), u32), fifo)) { n += 1; if (n == 4) { break; } } if (n == 4) { for (@range(u16, 4)) |i| { out[i] = @as(i32, r[i]); } sys.unblock_cmd_stream(); } else { @activate(lt); } } comptime { @bind_local_task(pop, lt); }",
        main="@mov32(fifo, fin, .{ .async = true }); @activate(lt);",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
    ),
    pair(
        "fifos",
        "a pop or push that ends a wait activates a task",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); var buf = @zeros([4]u32); const lt = @get_local_task_id(10); const fifo = @allocate_fifo(buf, .{ .activate_push = lt }); var r: u32 = 0; var n: u16 = 0; fn drain() void { while (@mov32(&r, fifo)) { out[n] = @as(i32, r); n += 1; } if (n == 4) sys.unblock_cmd_stream(); } task more() void { drain(); } comptime { @bind_local_task(more, lt); }",
        main="drain(); @mov32(fifo, fin, .{ .async = true });",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
    ),
    pair(
        "dsrs",
        "an address that is saved goes on where the last operation ended",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = c0, .input_queue = iq }); const ds = @get_dsr(dsr_dest, 4); var r = @zeros([4]u32); const d2 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> r[i] });",
        main="@load_to_dsr(ds, d2, .{ .save_address = true }); @mov32(ds, fin); @mov32(ds, fin); for (@range(u16, 4)) |i| { out[i] = @as(i32, r[i]); } sys.unblock_cmd_stream();",
        sends="@mov32(fo, dd);",
        out=(10, 20, 30, 40),
    ),
    pair(
        "dsrs",
        "a DSR that is loaded with 'async' and 'activate'",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c0, .input_queue = iq }); const sr = @get_dsr(dsr_src1, 3); const lt = @get_local_task_id(10); var r = @zeros([4]u32); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] }); task done() void { for (@range(u16, 4)) |i| { out[i] = @as(i32, r[i]); } sys.unblock_cmd_stream(); } comptime { @bind_local_task(done, lt); }",
        main="@load_to_dsr(sr, fin, .{ .async = true, .activate = done }); @mov32(dr, sr);",
        sends="@mov32(fo, dd);",
        out=(10, 20, 30, 40),
    ),
    pair(
        "tasks",
        "data tasks of two colors, one blocked for a while",
        pe=TAKE_2.replace("n == 2", "n == 3")
        + "const lt = @get_local_task_id(10); var k: u16 = 0; task tick() void { k += 1; if (k < 20) { @activate(lt); } else { @unblock(did); } } comptime { @bind_local_task(tick, lt); @block(did); }",
        main="@activate(lt);",
        sends="@mov32(fo, dd, .{ .async = true });",
        out=(10, 20, 30, 40),
    ),
    pair(
        "dsds",
        "an index moves a memory DSD that says so",
        pe="const fin = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = c0, .input_queue = iq }); var r = @zeros([6]u16); const dr = @get_dsd(mem1d_dsd, .{ .base_address = &r, .extent = 2, .wavelet_index_offset = true }); var k: u16 = 0;",
        main="@mov16(dr, fin, .{ .index = 3 }); @mov16(dr, fin, .{ .index = k }); for (@range(u16, 6)) |i| { out[i] = @as(i32, r[i]); } sys.unblock_cmd_stream();",
        sends="@mov32(fo, dd);",
        out=(30, 40, 0, 10, 20),
    ),
)
