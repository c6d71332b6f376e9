# ruff: noqa: E501 - rows of a table
"""Libraries that print, trace, count and communicate, member by member."""

from tests.support.csl_coverage.rows import PRELUDE, Row

_PRINT = 'const p = @import_module("<simprint>"); var u: u16 = 42; var w: u32 = 70000; var h: f16 = 42.0; var g: f32 = -1.5;\n'
_TRACE = 'const t = @import_module("<debug>", .{ .key = "k", .buffer_size = 12 }); fn show() void { out[0] = t.buffer_index; for (@range(u16, 7)) |i| { out[i + 1] = @as(i32, t.buffer[i]); } }\n'


def _prints(says: str, body: str, *lines: str, top: str = _PRINT) -> Row:
    return Row(page="libraries", says=f"<simprint>: {says}", top=top, body=body, prints=lines)


def _traces(says: str, body: str, *words: int) -> Row:
    """A row whose trace has these words, after their number."""
    return Row(
        page="libraries",
        says=f"<debug>: {says}",
        top=_TRACE,
        body=f"{body} show();",
        out=(len(words), *words),
    )


_LINE = """
const c2d = @import_module("<collectives_2d/params>");
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 3, .height = 1 });
layout {
  @set_rectangle(3, 1);
  for (@range(u16, 3)) |i| {
    const params = c2d.get_params(i, 0, .{
      .x_colors = .{ @get_color(0), @get_color(1) },
      .x_entrypoints = .{ @get_local_task_id(10), @get_local_task_id(11) },
    });
    @set_tile_code(i, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(i), .x_params = params.x });
  }
  @export_name("out", [*]i32, true);
  @export_name("main", fn () void);
}
"""
_PE = (
    PRELUDE
    + """
param x_params;
const line = @import_module("<collectives_2d/pe>", .{ .dim_params = x_params });
const end = @get_local_task_id(12);
var a = @zeros([6]u32); var b = @zeros([6]u32); var f = @zeros([2]f32); var g = @zeros([2]f32);
fn fill(n: u16) void { for (@range(u16, n)) |i| { a[i] = @as(u32, 10 * line.pe_id + i); } }
task done() void { WHAT sys.unblock_cmd_stream(); }
comptime { @bind_local_task(done, end); }
fn main() void { line.init(); BODY }
"""
)


def _line(says: str, body: str, what: str, *out: int) -> Row:
    """A row of three PEs, of which the first one's `out` is read."""
    pe = _PE.replace("BODY", body).replace("WHAT", what)
    files = {"layout.csl": _LINE, "pe.csl": pe}
    return Row(page="libraries", says=f"<collectives_2d>: {says}", files=files, out=out)


_TALLY = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 3 });
const tally = @import_module("<kernels/tally/layout>", .{
  .kernel_width = 1, .kernel_height = 3, .phase2_tally = TOTAL,
  .colors = [3]color{ @get_color(1), @get_color(2), @get_color(3) }, .output_color = @get_color(4),
});
layout {
  @set_rectangle(1, 3);
  for (@range(u16, 3)) |j| {
    @set_tile_code(0, j, "pe.csl", .{ .memcpy_params = memcpy.get_params(0), .tally_params = tally.get_params(0, j), .row = j });
  }
  @export_name("out", [*]i32, true);
  @export_name("main", fn () void);
}
"""
_COUNTER = (
    PRELUDE
    + """
param tally_params; param row: u16;
const end = @get_local_task_id(12);
const tally = @import_module("<kernels/tally/pe>", .{ .tally_params = tally_params, .input_queues = [2]u16{ 2, 3 }, .output_queues = [2]u16{ 2, 3 }, .callback = end });
task done() void { out[0] = @as(i32, tally.local_tally); out[1] += 1; sys.unblock_cmd_stream(); }
comptime { @bind_local_task(done, end); }
fn main() void { tally.bump_tally(row + 1); tally.signal_completion(); LATER if (row > 0) sys.unblock_cmd_stream(); }
"""
)


def _tally(says: str, total: int, later: str, *out: int) -> Row:
    files = {
        "layout.csl": _TALLY.replace("TOTAL", str(total)),
        "pe.csl": _COUNTER.replace("LATER", later),
    }
    return Row(page="libraries", says=f"<kernels/tally>: {says}", files=files, out=out)


ROWS = (
    _prints(
        "a line that ends is printed, the rest is not",
        'p.print_string("ab"); p.print_string("c\\n"); p.print_string("rest");',
        "abc",
    ),
    _prints(
        "a string ends at its zero byte",
        'p.print_string("ab\\x00cd"); p.print_string("\\n");',
        "ab",
    ),
    _prints(
        "numbers of 16 bits in decimal, hexadecimal and binary",
        'p.print_u16_decimal(u); p.print_string(" "); p.print_u16_hex(u); p.print_string(" "); p.print_u16_binary(u); p.print_string("\\n");',
        "42 002A 0000000000101010",
    ),
    _prints(
        "numbers of 32 bits in decimal, hexadecimal and binary",
        'p.print_u32_decimal(w); p.print_string(" "); p.print_u32_hex(w); p.print_string(" "); p.print_u32_binary(w); p.print_string("\\n");',
        "70000 00011170 00000000000000010001000101110000",
    ),
    _prints(
        "floats",
        'p.print_f16(h); p.print_string(" "); p.print_f32(g); p.print_string("\\n");',
        "42.0 -1.5",
    ),
    _prints(
        "a format with its values",
        'p.fmt("{d} {X} {b} {f}", .{ u, u, u, h });',
        "42 002A 0000000000101010 42.0",
    ),
    _prints("a format of 32 bits", 'p.fmt("{d} {X} {f}", .{ w, w, g });', "70000 00011170 -1.5"),
    _prints("a brace that is doubled", 'p.fmt("{{hello} {d}", .{u});', "{hello} 42"),
    _prints(
        "a format without values, and one without an end of line",
        'p.fmt_no_nl("a{d}", .{u}); p.fmt("b", .{});',
        "a42b",
    ),
    _prints("the coordinates of the PE", 'p.fmt_with_coords("x = {d}", .{u});', "PE(0,0): x = 42"),
    _prints(
        "nothing is printed where it is not enabled",
        'p.fmt("{d}", .{u}); p.print_string("no\\n"); p.print_u16_hex(u); p.fmt_with_coords("x", .{}); q.fmt("yes", .{});',
        "yes",
        top=_PRINT.replace('"<simprint>"', '"<simprint>", .{ .enable = false }')
        + 'const q = @import_module("<simprint>", .{ .enable = true });\n',
    ),
    _traces(
        "a truth value and bytes are in their word",
        "var b = true; var v: u8 = 200; var i: i8 = -2; t.trace_bool(b); t.trace_u8(v); t.trace_i8(i);",
        0x013F,
        0xC842,
        0xFE62,
    ),
    _traces(
        "numbers of 16 bits follow their word",
        "var v: u16 = 0x1234; var i: i16 = -2; var h: f16 = 1.5; t.trace_u16(v); t.trace_i16(i); t.trace_f16(h);",
        0x48,
        0x1234,
        0x68,
        0xFFFE,
        0x65,
        0x3E00,
    ),
    _traces(
        "numbers of 32 bits, the low half first",
        "var v: u32 = 0x12345678; var i: i32 = -2; t.trace_u32(v); t.trace_i32(i);",
        0x49,
        0x5678,
        0x1234,
        0x69,
        0xFFFE,
        0xFFFF,
    ),
    _traces("a float of 32 bits", "var g: f32 = 1.5; t.trace_f32(g);", 0x66, 0, 0x3FC0),
    _traces("a string with its length", 't.trace_string("abc");', 0x0473, 0x6261, 0x0063),
    _traces(
        "any value by its type",
        'var v: u16 = 7; var b = true; t.trace(v); t.trace(b); t.trace("ab");',
        0x48,
        7,
        0x013F,
        0x0273,
        0x6261,
    ),
    _traces(
        "words without a type",
        "var v: u32 = 0x12345678; var a: u8 = 3; t.tagged_put_u8('B', a); t.put_u16(9); t.put_u32(v);",
        0x0342,
        9,
        0x5678,
        0x1234,
    ),
    Row(
        page="libraries",
        says="<debug>: a time is four words, and what has no room is left out",
        top=_TRACE,
        body="t.trace_timestamp(); t.trace_timestamp(); t.trace_timestamp(); t.trace_timestamp(); var v: u16 = 1; t.trace_u16(v); out[0] = t.buffer_index; out[1] = @as(i32, t.buffer[0]); out[2] = @as(i32, t.buffer[4]); out[3] = @as(i32, t.buffer[8]);",
        out=(12, 0x74, 0x74, 0x74),
    ),
    _line(
        "the root's words reach all others",
        "if (line.pe_id == 2) { fill(3); } line.broadcast(2, @ptrcast([*]u32, &a), 3, end);",
        "for (@range(u16, 3)) |i| { out[i] = @as(i32, a[i]); }",
        20,
        21,
        22,
    ),
    _line(
        "each gets its part of the root's words",
        "fill(6); line.scatter(1, @ptrcast([*]u32, &a), @ptrcast([*]u32, &b), 2, end);",
        "out[0] = @as(i32, b[0]); out[1] = @as(i32, b[1]);",
        10,
        11,
    ),
    _line(
        "the root gets the words of all",
        "fill(2); line.gather(0, @ptrcast([*]u32, &a), @ptrcast([*]u32, &b), 2, end);",
        "for (@range(u16, 6)) |i| { out[i] = @as(i32, b[i]); }",
        0,
        1,
        10,
        11,
        20,
        21,
    ),
    _line(
        "the root gets the sums",
        "f[0] = @as(f32, line.pe_id + 1); f[1] = 0.5; line.reduce_fadds(0, @ptrcast([*]f32, &f), @ptrcast([*]f32, &g), 2, end);",
        "out[0] = @as(i32, g[0]); out[1] = @as(i32, 2.0 * g[1]);",
        6,
        3,
    ),
    _tally("every PE has signalled", 0, "", 0, 1),
    _tally(
        "every PE has signalled and their counts are enough",
        16,
        "tally.bump_tally(10 * row);",
        16,
        1,
    ),
)
