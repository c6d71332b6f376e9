# ruff: noqa: E501 - rows of a table
"""Tasks, symbols, modules: what a whole program says."""

from tests.support.csl_coverage.rows import LAYOUT, Row

ROTATION = """
const iq = @get_input_queue(2); const oq = @get_output_queue(2); const c = @get_color(3);
const did = @get_data_task_id(iq); const done = @get_local_task_id(10);
task rx(d: u32) void { out[0] += @as(i32, d); }
task alt() void { out[1] += 1; }
task fin() void { sys.unblock_cmd_stream(); }
const od = @get_dsd(fabout_dsd, .{ .extent = 6, .output_queue = oq });
var data = [6]u32{ 1, 2, 3, 4, 5, 6 };
comptime {
  @set_local_color_config(c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{RAMP} } });
  @initialize_queue(iq, .{ .color = c }); @initialize_queue(oq, .{ .color = c });
  @bind_local_task(fin, done);
}
"""
SEND = "@mov32(od, @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> data[i] }), .{ .async = true, .activate = done });"
LOCAL = """
var turns: i32 = 0; const id = @get_local_task_id(12);
task one() void { out[0] += 1; again(); } task two() void { out[1] += 1; again(); }
fn again() void { turns += 1; if (turns == 7) { sys.unblock_cmd_stream(); } else { @activate(id); } }
"""
SYMBOLS = LAYOUT.replace(
    '@export_name("main"',
    '@export_name("a", i16, true); @export_name("b", i16, true); @export_name("q", [*]u16, true);\n  @export_name("main"',
)
EXPORTED = """
var a: i16 = 5; var b: i16 = -6; var Q = [2]u16{ 3, 4 }; var q: [*]u16 = &Q; var n: u16 = 0;
comptime { @export_symbol(a); @export_symbol(b); @export_symbol(q); }
"""
STRUCT = "const pair = struct { a: u32, b: i32 };"
ROWS = (
    Row(
        page="builtins_wse3",
        says="rotating tasks: the alternate one after each 'limit' starts",
        top=ROTATION
        + "comptime { @bind_rotating_tasks(rx, alt, did, .{ .limit = 2 }); @set_control_task_table(); }",
        body=SEND,
        out=(12, 2),
        finishes=False,
        architectures=("wse3",),
    ),
    Row(
        page="builtins_wse3",
        says="rotating tasks with a limit that is not reached",
        top=ROTATION + "comptime { @bind_rotating_tasks(rx, alt, did, .{ .limit = 10 }); }",
        body=SEND,
        out=(21,),
        finishes=False,
        architectures=("wse3",),
    ),
    Row(
        page="builtins_wse3",
        says="rotating local tasks",
        top=LOCAL + "comptime { @bind_rotating_tasks(one, two, id, .{ .limit = 1 }); }",
        body="@activate(id);",
        out=(4, 3),
        finishes=False,
        architectures=("wse3",),
    ),
    Row(
        page="builtins_wse3",
        says="a rotating task is blocked and unblocked by its name",
        top=ROTATION
        + "comptime { @bind_rotating_tasks(rx, alt, did, .{ .limit = 2 }); @block(rx); }",
        body="@unblock(rx);" + SEND,
        out=(12, 2),
        finishes=False,
        architectures=("wse3",),
    ),
    Row(
        page="builtins_wse3",
        says="WSE-2 has no rotating tasks",
        top="task t() void {} task u() void {}\ncomptime { $$@bind_rotating_tasks(t, u, @get_local_task_id(9), .{ .limit = 2 }); }",
        refused="exists on wse3 only",
        architectures=("wse2",),
    ),
    Row(
        page="builtins_wse3",
        says="an alternate task takes no arguments",
        top="task t(d: u32) void {} task u(d: u32) void {}\ncomptime { @bind_rotating_tasks(t, $$u, @get_data_task_id(@get_input_queue(3)), .{ .limit = 2 }); }",
        refused="alternate task 'u' takes no arguments",
        architectures=("wse3",),
    ),
    Row(
        page="builtins_wse3",
        says="rotating tasks have a limit of at least 1",
        top="task t() void {} task u() void {}\ncomptime { @bind_rotating_tasks(t, u, @get_local_task_id(9), $$.{ .limit = 0 }); }",
        refused="needs '.limit' from 1 to 65535",
        architectures=("wse3",),
    ),
    Row(
        page="builtins_wse3",
        says="rotating tasks have a data or local id",
        top="task t() void {} task u() void {}\ncomptime { @bind_rotating_tasks(t, u, $$@get_control_task_id(9), .{ .limit = 2 }); }",
        refused="expected type 'data_task_id' or 'local_task_id'",
        architectures=("wse3",),
    ),
    Row(
        page="builtins",
        says="the pointer of an exported array by its run-time number",
        top="var n: u16 = 0;",
        body="n = @get_symbol_id(out); if (@has_exported_tensors()) { var p = @get_tensor_ptr(n); p[0] = 9; p[3] = 1; }",
        out=(9, 0x10000),
    ),
    Row(
        page="builtins",
        says="one of several exported pointers by its number",
        top=EXPORTED,
        body="n = @get_symbol_id(q); var p = @get_tensor_ptr(n); out[0] = p[1]; q = @ptrcast([*]u16, &a); out[1] = @get_tensor_ptr(n)[0];",
        out=(4, 5),
        files={"layout.csl": SYMBOLS},
    ),
    Row(
        page="builtins",
        says="the value of an exported variable by its number",
        top=EXPORTED,
        body="n = @get_symbol_id(a); out[0] = @get_symbol_value(i16, n); n = @get_symbol_id(b); out[1] = @get_symbol_value(i16, n); b = 77; out[2] = @get_symbol_value(i16, n);",
        out=(5, -6, 77),
        files={"layout.csl": SYMBOLS},
    ),
    Row(
        page="builtins",
        says="a value of a type that no symbol has",
        top=EXPORTED,
        body="out[0] = @as(i32, $$@get_symbol_value(f32, n));",
        refused="no symbol of type 'f32' is exported",
        files={"layout.csl": SYMBOLS},
    ),
    Row(
        page="builtins",
        says="pointers by number need an exported one",
        top="comptime { @export_symbol(a); } var a: i16 = 1;",
        body="out[0] = $$@get_tensor_ptr(0)[0];",
        refused="no pointer to an array is exported",
        files={
            "layout.csl": LAYOUT.replace(
                '@export_name("out", [*]i32, true)', '@export_name("a", i16, true)'
            )
        },
        without_out=True,
    ),
    Row(
        page="builtins",
        says="the number of a symbol is an integer",
        top=EXPORTED,
        body="out[0] = @get_tensor_ptr($$1.5)[0];",
        refused="the id of a symbol is an integer",
        files={"layout.csl": SYMBOLS},
    ),
    Row(
        page="builtins",
        says="a pointer to structs is exported",
        top='const t = @import_module("t.csl"); var items = [2]t.pair{ .{ .a = 1, .b = -2 }, .{ .a = 3, .b = 4 } }; var p: [*]t.pair = &items;\ncomptime { @export_symbol(p, "items"); }',
        body="for (@range(u16, 4)) |i| { out[i] = @ptrcast([*]i32, p)[i]; }",
        out=(1, -2, 3, 4),
        files={
            "t.csl": STRUCT,
            "layout.csl": 'const t = @import_module("t.csl");'
            + LAYOUT.replace(
                '@export_name("main"', '@export_name("items", [*]t.pair, true); @export_name("main"'
            ),
        },
    ),
    Row(
        page="builtins",
        says="a pointer to bytes is exported before 2.10",
        top='var bytes = [2]u8{ 1, 255 }; var p: [*]u8 = &bytes;\ncomptime { @export_symbol(p, "bytes"); }',
        body="out[0] = p[1];",
        out=(255,),
        files={
            "layout.csl": LAYOUT.replace(
                '@export_name("main"', '@export_name("bytes", [*]u8, true); @export_name("main"'
            )
        },
    ),
    Row(
        page="builtins",
        says="2.10 exports words of 16 and 32 bits only",
        files={"layout.csl": LAYOUT.replace("[*]i32", "$$[*]u8")},
        refused="'[*]u8' cannot be exported",
        options={"dialect": "2.10"},
    ),
    Row(
        page="builtins",
        says="a bool is not exported",
        files={"layout.csl": LAYOUT.replace("[*]i32", "$$[*]bool")},
        refused="'[*]bool' cannot be exported",
    ),
    Row(
        page="builtins",
        says="color 32 is none, and has no routes",
        top="const none = @get_color(32);\ncomptime { @set_local_color_config($$none, .{ .routes = .{ .rx = RAMP, .tx = RAMP } }); }",
        refused="color 32 cannot be routed",
    ),
    Row(
        page="builtins",
        says="color 32 is a value",
        top="const none = @get_color(32);",
        body="out[0] = @get_int(none); out[1] = if (none == @get_color(3)) 1 else 2;",
        out=(32, 2),
    ),
)
