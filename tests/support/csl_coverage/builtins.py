# ruff: noqa: E501 - rows of a table
"""Builtins, one by one."""

from tests.support.csl_coverage.rows import LAYOUT, Row

PAGE = "builtins"
H = """
var A = [3]u16{ 0xf0, 5, 0x8001 }; var B = [3]u16{ 1, 2, 4 }; var C = @zeros([3]u16);
var F = [3]f32{ 1.5, -2.0, 4.0 }; var G = @zeros([3]f32); var P = [3]f16{ 1.5, -2.0, 4.0 }; var Q = @zeros([3]f16); var s: f32 = 10.0; var t: f16 = 10.0; var I = [3]i16{ -7, 2, 3 };
const a = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> A[i] }); const b = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> B[i] }); const c = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> C[i] });
const f = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> F[i] }); const g = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> G[i] }); const p = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> P[i] }); const q = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> Q[i] }); const ii = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> I[i] });
"""


def op(name: str, call: str, shown: str, value: int, more: str = "") -> Row:
    """A vector operation and one of the numbers that it gives."""
    return Row(
        page=PAGE, says=f"'@{name}'{more}", top=H, body=f"{call} out[0] = {shown};", out=(value,)
    )


def known(says: str, shown: str, value: int, top: str = "") -> Row:
    """What is known at compile time."""
    return Row(page=PAGE, says=says, top=top, body=f"out[0] = {shown};", out=(value,))


OPERATIONS = (
    op("and16", "@and16(c, a, 0x30);", "C[0]", 0x30),
    op("or16", "@or16(c, a, b);", "C[1]", 7),
    op("xor16", "@xor16(c, a, 0xff);", "C[0]", 0x0F),
    op("sll16", "@sll16(c, b, 3);", "C[2]", 32),
    op("slr16", "@slr16(c, a, 4);", "C[0]", 15),
    op("sar16", "@sar16(c, a, 1);", "C[2]", 0xC000),
    op("addc16", "@addc16(c, a, b);", "C[1]", 7, " without a carry"),
    op("clz", "@clz(c, a);", "C[0]", 8),
    op("ctz", "@ctz(c, a);", "C[0]", 4),
    op("popcnt", "@popcnt(c, a);", "C[0]", 4),
    op("fabss", "@fabss(g, f);", "@as(i32, G[1])", 2),
    op("fabsh", "@fabsh(q, p);", "@as(i32, Q[1])", 2),
    op("fadds", "@fadds(g, f, 1.0);", "@as(i32, G[2])", 5),
    op("fadds", "@fadds(&s, s, f);", "@as(i32, s * 2.0)", 27, " that sums into a number"),
    op("faddh", "@faddh(&t, t, p);", "@as(i32, t * 2.0)", 27, " that sums into a number"),
    op("faddhs", "@faddhs(g, p, f);", "@as(i32, G[0])", 3),
    op("faddhs", "@faddhs(g, f, p);", "@as(i32, G[0])", 3, " of 32 and 16 bits"),
    op("faddhs", "@faddhs(g, t, f);", "@as(i32, G[1])", 8, " of a 16-bit number and 32 bits"),
    op("faddhs", "@faddhs(g, f, t);", "@as(i32, G[2])", 14, " of 32 bits and a 16-bit number"),
    op("faddhs", "@faddhs(&s, s, p);", "@as(i32, s * 2.0)", 27, " that sums into a number"),
    op("fsubs", "@fsubs(g, 1.0, f);", "@as(i32, G[1])", 3),
    op("fsubh", "@fsubh(q, p, 1.0);", "@as(i32, Q[2])", 3),
    op("fmuls", "@fmuls(g, f, f);", "@as(i32, G[2])", 16),
    op("fmulh", "@fmulh(q, p, 2.0);", "@as(i32, Q[0])", 3),
    op("fmacs", "@fmacs(g, f, f, 2.0);", "@as(i32, G[2])", 12),
    op("fmach", "@fmach(q, p, p, 2.0);", "@as(i32, Q[2])", 12),
    op("fmachs", "@fmachs(g, f, p, 2.0);", "@as(i32, G[2])", 12),
    op("fmaxs", "@fmaxs(&s, s, f);", "@as(i32, s)", 10),
    op("fmaxh", "@fmaxh(q, p, 0.0);", "@as(i32, Q[1])", 0),
    op("fnegs", "@fnegs(g, f);", "@as(i32, G[1])", 2),
    op("fnegh", "@fnegh(q, p);", "@as(i32, Q[2])", -4),
    op("fmovh", "@fmovh(q, 3.0);", "@as(i32, Q[2])", 3),
    op("fs2h", "@fs2h(q, f);", "@as(i32, Q[1])", -2),
    op("xp162fh", "@xp162fh(q, ii);", "@as(i32, Q[0])", -7),
    op("xp162fs", "@xp162fs(g, ii);", "@as(i32, G[0])", -7),
    op("fnorms", "@fnorms(&s, 12.0);", "@as(i32, s * 4.0)", 6),
    op("fnormh", "@fnormh(&t, 12.0);", "@as(i32, t * 4.0)", 6),
    op("fscales", "@fscales(&s, 3.0, 2);", "@as(i32, s)", 12),
    op("fscaleh", "@fscaleh(&t, 3.0, -1);", "@as(i32, t * 2.0)", 3),
    op("set_dsd_base_addr", "@mov16(c, @set_dsd_base_addr(a, B));", "C[2]", 4),
    op("set_dsd_stride", "@mov16(c, @set_dsd_stride(@set_dsd_length(a, 1), 2));", "C[0]", 0xF0),
    op(
        "increment_dsd_offset",
        "@mov16(@set_dsd_length(c, 2), @increment_dsd_offset(@set_dsd_length(b, 2), 1, u16));",
        "C[1]",
        4,
    ),
)
VALUES = (
    known(
        "'@dimensions', '@rank', '@element_count'",
        "@as(i32, @dimensions([3, 5]f16)[1]) + @rank([3, 5]f16) + @as(i32, @element_count([3, 5]f16))",
        22,
    ),
    known("'@element_type'", "if (@element_type([3]f16) == f16) 1 else 0", 1),
    known(
        "'@field' and '@has_field'",
        'if (@has_field(s, "b")) @field(s, "b") else 0',
        7,
        "const s = .{ .a = 1, .b = 7 };",
    ),
    known("'@fp16'", "if (@fp16() == f16) 1 else 0", 1),
    known("'@is_same_type'", "if (@is_same_type(u16, u16)) 1 else 0", 1),
    known("'@get_array'", '@get_array("abc")[1]', 98),
    known(
        "'@get_string_from_byte' and '@strcat'",
        '@strlen(@strcat("ab", @get_string_from_byte(65), @strcat()))',
        3,
    ),
    known("'@get_rectangle'", "@get_rectangle().width", 1),
    known(
        "'@range_start', '@range_stop', '@range_step'",
        "@range_start(r) + 10 * @range_stop(r) + 100 * @range_step(r)",
        293,
        "const r = @range(i32, 3, 9, 2);",
    ),
    known("'@get_ut_id' and '@get_int'", "@get_int(@get_ut_id(5))", 5),
    known("'@get_color_id' of SDK 1.1", "@get_color_id(@get_color(5))", 5),
    Row(
        page=PAGE,
        says="SDK 1.2 has no '@get_color_id'",
        body="out[0] = $$@get_color_id(@get_color(5));",
        refused="no longer supported in CSL; write '@get_int'",
        options={"dialect": "1.2"},
    ),
    Row(
        page=PAGE,
        says="SDK 1.4 has no packed structs",
        top="const T = $$packed struct { a: u8 };",
        body="out[0] = T{ .a = 1 }.a;",
        refused="'packed' came with SDK 2.10; the program is of 1.4",
        options={"dialect": "1.4"},
    ),
    Row(
        page=PAGE,
        says="'@import_comptime_value' of objects, arrays and colors",
        top='const v = @import_comptime_value(comptime_struct, "v.json"); const m = @import_comptime_value([2, 2]u16, "m.json"); const c = @import_comptime_value(color, "c.json");',
        body="out[0] = v.n; out[1] = v.arr[2]; out[2] = @strlen(v.name); out[3] = m[1, 0]; out[4] = @get_int(c);",
        out=(5, 3, 2, 7, 4),
        files={
            "v.json": '{"n:u16": 5, "arr:[3]i16": [1, 2, 3], "name:comptime_string": "ab"}',
            "m.json": "[5, 6, 7, 8]",
            "c.json": "4",
        },
    ),
    Row(
        page=PAGE,
        says="'@import_comptime_value' of a list of another length",
        top='const m = $$@import_comptime_value([2, 2]u16, "m.json");',
        body="out[0] = m[0, 0];",
        files={"m.json": "[5, 6, 7]"},
        refused="'[2, 2]u16' takes 4 elements, got 3",
    ),
    Row(
        page=PAGE,
        says="'@import_comptime_value' of a field without a known type",
        top='const m = $$@import_comptime_value(comptime_struct, "m.json");',
        body="out[0] = m.a;",
        files={"m.json": '{"a:thing": 3}'},
        refused="field 'a:thing' has no type that is known here",
    ),
    Row(
        page=PAGE,
        says="'@import_comptime_value' of a color that there is not",
        top='const m = $$@import_comptime_value(color, "m.json");',
        body="out[0] = @get_int(m);",
        files={"m.json": "24"},
        refused="color 24 is outside 0 to 23",
    ),
    Row(
        page=PAGE,
        says="'@comptime_print' prints once",
        body="@comptime_print(1); out[0] = 1;",
        out=(1,),
    ),
    Row(
        page=PAGE,
        says="'@is_comptime'",
        top="fn where() i32 { if (@is_comptime()) { return 1; } else { return 2; } }\nvar v: i32 = where();",
        body="out[0] = v; out[1] = where(); out[2] = comptime where();",
        out=(1, 2, 1),
    ),
    Row(
        page=PAGE,
        says="'@assert' that holds",
        top="var x: u16 = 3;",
        body="@assert(x == 3); out[0] = x;",
        out=(3,),
    ),
    Row(
        page=PAGE,
        says="'@random16' and '@set_active_prng'",
        top="var x: u16 = 0; var y: u16 = 0;",
        body="x = @random16(); @set_active_prng(1); y = @random16(); if (x == y) { out[0] = 1; } if (@random16() != y) { out[1] = 1; }",
        out=(1, 1),
    ),
    Row(
        page=PAGE,
        says="'@set_config' and '@get_config' of a color's routes",
        top="comptime { @set_config(0x7f23, 0x21); }",
        body="out[0] = @get_config(0x7f23); @set_config(0x7f23, 0x11); out[1] = @get_config_unchecked(0x7f23); @set_config_unchecked(0x7f23, 0x21); out[2] = @get_config(0x7f23, .{ 0x7f00, 0x7fff });",
        out=(0x21, 0x11, 0x21),
        architectures=("wse2",),
    ),
    Row(
        page=PAGE,
        says="'@set_color_config' in the layout",
        files={
            "layout.csl": LAYOUT.replace(
                '@export_name("main"',
                '@set_color_config(0, 0, @get_color(4), .{ .routes = .{ .rx = RAMP, .tx = RAMP } }); @export_name("main"',
            )
        },
        body="out[0] = 1;",
        out=(1,),
    ),
)
FABRIC = """
const r = @get_color(3); const iq = @get_input_queue(2); const oq = @get_output_queue(2); const done = @get_local_task_id(10);
comptime { @set_local_color_config(r, .{ .routes = .{ .rx = RAMP, .tx = RAMP } }); @initialize_queue(iq, .{ .color = r }); if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = r }); } }
const o = if (@is_arch("wse3")) @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq }) else @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq, .fabric_color = r });
const control = if (@is_arch("wse3")) @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq, .control = true }) else @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq, .fabric_color = r, .control = true });
const i = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq });
var D = [4]u32{ 1, 2, 3, 4 }; var E = @zeros([4]u32); const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> D[k] }); const e = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> E[k] });
task finish() void { out[0] = @as(i32, E[3]); sys.unblock_cmd_stream(); }
comptime { @bind_local_task(finish, done); }
"""
ID = 'const id = if (@is_arch("wse3")) @get_data_task_id(iq) else @get_data_task_id(r);\n'
LIVE = (
    Row(
        page=PAGE,
        says="'@bind_data_task': a task for each wavelet",
        top=FABRIC
        + ID
        + "var n: i32 = 0; task take(x: u32) void { n += @as(i32, x); if (x == 4) { E[3] = @as(u32, n); @activate(done); } }\ncomptime { @bind_data_task(take, id); }",
        body="@mov32(o, d, .{ .async = true });",
        out=(10,),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="'@bind_control_task': a task for a control wavelet",
        top=FABRIC
        + ID
        + 'const c = @import_module("<control>"); const cid = @get_control_task_id(40); task act(x: u16) void { E[3] = x; @activate(done); } comptime { @bind_control_task(act, cid); if (@is_arch("wse3")) { @unblock(iq); } else { @unblock(r); } }',
        body="@mov32(control, c.encode_single_payload(c.opcode.NOP, false, cid, 77));",
        out=(77,),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="'@load_to_dsr' and '@get_dsr': operations on registers",
        top=FABRIC + "const x = @get_dsr(dsr_dest, 1); const y = @get_dsr(dsr_src1, 1);",
        body="@load_to_dsr(x, e); @load_to_dsr(y, d); @mov32(x, y); out[1] = @as(i32, E[2]); @activate(done);",
        out=(4, 3),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="'@load_to_dsr_xdsr_sr': four dimensions in registers",
        top=FABRIC
        + "const four = @get_dsd(mem4d_dsd, .{ .tensor_access = |j, k|{2, 2} -> D[j + 2 * k] }); const y = @get_dsr(dsr_src1, 1);",
        body="@load_to_dsr_xdsr_sr(y, @get_xdsr(0), .{ @get_sr(0) }, four); @mov32(e, y); out[1] = @as(i32, E[1]); out[2] = @as(i32, E[2]); @activate(done);",
        out=(4, 3, 2),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="'@allocate_fifo': pushed and popped",
        top=FABRIC + "var buffer = @zeros([8]u32); const q = @allocate_fifo(buffer);",
        body="@mov32(q, d); @mov32(e, q); out[1] = @as(i32, E[0]); @activate(done);",
        out=(4, 1),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="'@set_fifo_read_length' and '@set_fifo_write_length'",
        top="var buffer = @zeros([8]u32); const q = @allocate_fifo(buffer); var x = [3]u32{ 7, 8, 9 }; const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> x[i] });",
        body="@mov32(q, d); @set_fifo_read_length(q, 2); @mov32(d, q); out[0] = @as(i32, x[2]); @set_fifo_write_length(q, 2); @mov32(q, 5); @set_fifo_read_length(q, 3); @mov32(d, q); for (x) |v, i| { out[1 + i] = @as(i32, v); }",
        out=(9, 9, 5, 5),
    ),
    Row(
        page="dsds",
        says="'.control_transform' keeps a control wavelet as data",
        top=FABRIC + 'const c = @import_module("<control>");',
        body="@mov32(control, c.encode_single_payload(c.opcode.NOP, false, {}, 9)); @mov32(&E[3], @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq, .control_transform = true }), .{ .async = true, .activate = done });",
        out=(-1071710199,),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="'@dfilt' drops data until a control wavelet",
        top=FABRIC + 'const c = @import_module("<control>");',
        body="@dfilt(@get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq }), .{ .async = true, .activate = done }); @mov32(o, d); @mov32(control, c.encode_single_payload(c.opcode.NOP, false, {}, 0)); E[3] = 6;",
        out=(6,),
        finishes=False,
    ),
    Row(
        page="builtins_wse3",
        says="'@queue_flush' and '@set_empty_queue_handler'",
        top=FABRIC
        + 'const tc = @import_module("<tile_config>"); fn empty() void { tc.queue_flush.exit(oq); @activate(done); } comptime { @set_empty_queue_handler(empty, oq); }',
        body="E[3] = 5; @queue_flush(oq);",
        out=(5,),
        finishes=False,
        architectures=("wse3",),
    ),
    Row(
        page=PAGE,
        says="'@set_teardown_handler': a color that is torn down",
        top=FABRIC
        + 'const c = @import_module("<control>"); const tc = @import_module("<tile_config>"); fn down() void { tc.teardown.exit(r); E[3] = 3; @activate(done); } comptime { @set_teardown_handler(down, r); }',
        body="@mov32(control, c.encode_single_payload(c.opcode.TEARDOWN, true, {}, 0));",
        out=(3,),
        finishes=False,
    ),
    Row(
        page="libraries_wse3",
        says="<message_passing>: imported",
        top='const m = @import_module("<message_passing>", .{ .input_queue_id = 2, .output_queue_id = 3 });',
        body="out[0] = @get_int(m.mp_input_queue);",
        out=(2,),
        architectures=("wse3",),
    ),
    Row(
        page="libraries_wse3",
        says="<message_passing>: its functions are refused",
        top='const m = @import_module("<message_passing>", .{ .enable_asserts = true });',
        body="$$m.init();",
        refused="messages of <message_passing> are not simulated",
        architectures=("wse3",),
    ),
    Row(
        page=PAGE,
        says="'@rpc': the older server, which the host's launches replace",
        top='const id = if (@is_arch("wse3")) @get_data_task_id(@get_input_queue(3)) else @get_data_task_id(@get_color(5));\ncomptime { @rpc(id); }',
        body="out[0] = 1;",
        out=(1,),
    ),
)
ROWS = (*OPERATIONS, *VALUES, *LIVE)
