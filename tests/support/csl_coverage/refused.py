# ruff: noqa: E501 - rows of a table
"""What the reference says is wrong: each statement with the program that is refused for it."""

from tests.support.csl_coverage.rows import Row


def _no(page: str, says: str, top: str, body: str, refused: str) -> Row:
    return Row(page=page, says=says, top=top, body=body, refused=refused)


def _on_wse3(says: str, top: str, refused: str) -> Row:
    return Row(page="builtins_wse3", says=says, top=top, refused=refused, architectures=("wse3",))


_TASK = "task t() void {} comptime { @bind_local_task(t, @get_local_task_id(12)); }\n"
_ARRAYS = "var a = @zeros([10]i16); var f = @zeros([10]f32); const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{10} -> a[i] }); const df = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{10} -> f[i] });\n"
_IN = "const iq = @get_input_queue(2); const fi = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq }); comptime { @initialize_queue(iq, .{ .color = @get_color(2) }); @set_local_color_config(@get_color(2), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }); }\n"
_WALKS = "var m = @zeros([40]i16); const to = @get_dsr(dsr_dest, 1); const x = @get_xdsr(1); const s = @get_sr(0); const rows = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 3} -> m[4 * i + j] }); const cube = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j, k|{2, 2, 2} -> m[9 * i + 3 * j + k] });\n"
_COLOR = "comptime {{ @set_local_color_config(@get_color(2), $$.{{ .routes = .{{ .rx = .{{ RAMP }}, .tx = .{{ WEST }} }}, {} }}); }}"


def _color(says: str, options: str, refused: str) -> Row:
    return _no("routes", says, _COLOR.format(options), "", refused)


ROWS = (
    _no(
        "types",
        "an integer does not become a float by itself",
        "var i: i16 = 1; var g: f32 = 0.0;",
        "g = $$i;",
        "expected type 'f32', got: 'i16'",
    ),
    _no(
        "types",
        "an integer and a float are not added",
        "var i: i16 = 1; var g: f32 = 0.0;",
        "g = g $$+ i;",
        "needs two values of one type",
    ),
    _no(
        "types",
        "an argument that is an integer is no float",
        "var i: u8 = 1; fn h(x: f32) f32 { return x; }",
        "out[0] = @as(i32, h($$i));",
        "expected type 'f32', got: 'u8'",
    ),
    _no(
        "types",
        "floats have no remainder",
        "var g: f32 = 1.0;",
        "out[0] = @as(i32, g $$% 2.0);",
        "'%' does not apply to 'f32'",
    ),
    _no(
        "types",
        "a number without a width has no complement",
        "",
        "out[0] = $$~5;",
        "write ~@as(TYPE, ...)",
    ),
    _no(
        "types",
        "a literal is not divided by zero",
        "const z = $$1.0 / 0.0;",
        "out[0] = @as(i32, z);",
        "division by zero",
    ),
    _no(
        "types",
        "an operation on literals has a number",
        "const z = ($$1.0e308 * 10.0) - (1.0e308 * 10.0);",
        "out[0] = @as(i32, z);",
        "is no number",
    ),
    _no(
        "types",
        "an enum becomes another one through an integer",
        "const a = enum(u16) { red }; const b = enum(u16) { big };",
        "out[0] = @as(i32, $$@as(a, b.big));",
        "convert it to an integer first",
    ),
    _no(
        "types",
        "a pointer to a function is constant",
        "fn g() void {} var p: *fn () void = $$g;",
        "p();",
        "write '*const fn() void'",
    ),
    _no(
        "types",
        "an element of a literal has no address",
        "const p = $$&(([2]i16{ 0, 0 })[1]);",
        "out[0] = p.*;",
        "not parts of a literal",
    ),
    _no(
        "types",
        "the fields of a packed union have one width",
        "const u = packed union { a: u16, $$b: u32 }; var v = u{ .a = 1 };",
        "out[0] = v.a;",
        "have one width",
    ),
    _no(
        "syntax",
        "a label is not around itself",
        "",
        "l: for ([2]i16{ 1, 2 }) |z| { l: $$for ([2]i16{ 1, 2 }) |y| { out[0] = y; } }",
        "redefinition of label 'l'",
    ),
    _no(
        "syntax",
        "a label of a loop is not around a block of that name",
        "var q: i16 = 1;",
        "l: while (q < 2) : (q += 1) { $$l: { break :l; } }",
        "redefinition of label 'l'",
    ),
    _no(
        "syntax",
        "an inline function has no linkname",
        'inline fn g(x: i32) linkname($$"g") i32 { return x; }',
        "out[0] = g(1);",
        "no linkname",
    ),
    _no(
        "comptime",
        "a variable at compile time does not change under a run-time condition",
        "var q: i16 = 1;",
        "comptime var x: i16 = 1; if (q == 1) { $$x = 2; } out[0] = x;",
        "where a run-time condition or loop decides",
    ),
    _no(
        "comptime",
        "nor in a loop that runs",
        "var q: i16 = 1;",
        "comptime var x = [2]i16{ 1, 2 }; while (q < 3) : (q += 1) { $$x[1] += 2; } out[0] = x[1];",
        "where a run-time condition or loop decides",
    ),
    _no(
        "builtins",
        "a color of a number that is not known needs a 'u16'",
        "var i: i16 = 3;",
        "out[0] = @as(i32, @get_int(@get_color($$i)));",
        "needs a 'u16', got 'i16'",
    ),
    _no(
        "builtins",
        "whether pointers are exported is asked in code",
        "comptime { _ = $$@has_exported_tensors(); }",
        "",
        "is for code",
    ),
    _color(
        "a switch position is invalid or given",
        ".switches = .{ .pos1 = .{ .invalid = false } }",
        "'.invalid' of a switch position is true",
    ),
    _color(
        "a switch position has one input",
        ".switches = .{ .pos1 = .{ .rx = .{ EAST, WEST } } }",
        "is one direction",
    ),
    _color(
        "one pop mode is true",
        ".switches = .{ .pos1 = .{ .tx = EAST }, .pop_mode = .{ .no_pop = false } }",
        "got 0 that are true",
    ),
    _color("a filter has a kind", ".filter = .{ .limit1 = 3 }", "a filter needs '.kind'"),
    _color(
        "a filter has the numbers of its kind",
        ".filter = .{ .kind = .{ .range = true }, .limit1 = 3 }",
        "a filter of kind 'range' has no '.limit1'",
    ),
    _color(
        "a counting filter has one limit",
        ".filter = .{ .kind = .{ .counter = true }, .limit2 = 3 }",
        "a filter of kind 'counter' has no '.limit2'",
    ),
    _color(
        "the numbers of a filter are not negative",
        ".filter = .{ .kind = .{ .counter = true }, .limit1 = -3 }",
        "are not negative, got -3",
    ),
    _on_wse3(
        "the table of control tasks is made once",
        "comptime { @set_control_task_table(); $$@set_control_task_table(); }",
        "is called twice",
    ),
    _on_wse3(
        "an entry of the table of control tasks has 2, 4 or 8 instructions",
        "comptime { @set_control_task_table($$.{ .instructions = 3 }); }",
        "is 2, 4 or 8, got 3",
    ),
    _on_wse3(
        "the tables of control tasks are 1 to 7 entries apart",
        "comptime { @set_control_task_table($$.{ .stride = 8 }); }",
        "is 1 to 7, got 8",
    ),
    _no(
        "builtins",
        "an operation of two sources has a DSD among them",
        _ARRAYS,
        "$$@fadds(df, 2.0, 3.0);",
        "needs a DSD among its sources",
    ),
    _no(
        "builtins",
        "integer operations write no number through a pointer",
        _ARRAYS + "var i: i16 = 1;",
        "@add16($$&i, i, da);",
        "is a DSD, not a pointer",
    ),
    _no(
        "builtins",
        "one-operand operations write no number through a pointer",
        _ARRAYS + "var g: f32 = 1.0;",
        "@fnegs($$&g, df);",
        "is a DSD, not a pointer",
    ),
    _no(
        "builtins",
        "'@map' writes its results through a pointer to their type",
        _ARRAYS + "fn g(x: i16) i16 { return x; } var z: i32 = 1;",
        "@map(g, da, $$&z);",
        "is a pointer '*i16', not '*i32'",
    ),
    _no(
        "builtins",
        "'@map' writes no constant",
        _ARRAYS + "fn g(x: i16) i16 { return x; } const z: i16 = 1;",
        "@map(g, da, $$&z);",
        "is a pointer '*i16', not '*const i16'",
    ),
    _no(
        "builtins",
        "'@dfilt' has no index",
        _IN,
        "@dfilt(fi, $$.{ .async = true, .index = 3 });",
        "'@dfilt' has no '.index'",
    ),
    _no(
        "dsds",
        "a control wavelet ends an operation in one way",
        _ARRAYS + _IN + _TASK,
        "@mov16(da, fi, $$.{ .async = true, .on_control = .{ .terminate = true, .activate = t } });",
        "is one of '.terminate' and '.activate'",
    ),
    _no(
        "dsds",
        "one SIMD mode is true",
        _IN,
        "const d = @get_dsd(fabin_dsd, $$.{ .extent = 4, .input_queue = iq, .simd_mode = .{ .simd_32 = true, .simd_64 = true } });",
        "got 2 that are true",
    ),
    _no(
        "dsds",
        "one source is cleared",
        "",
        "const d = $$@get_dsd(fabout_dsd, .{ .extent = 3, .fabric_color = @get_color(2), .output_queue = @get_output_queue(3), .zero = .{ .first_source = true, .second_source = true } });",
        "not of both",
    ),
    _no(
        "dsds",
        "a FIFO has elements of 16 or 32 bits",
        "var b = @zeros([8]u8); const q = @allocate_fifo($$b);",
        "@mov16(q, 1);",
        "a FIFO has 16- or 32-bit elements, not 'u8'",
    ),
    _no(
        "dsds",
        "a FIFO's buffer is not aligned to less than it needs",
        "var b: [8]u32 align(2) = @zeros([8]u32); const q = @allocate_fifo($$b);",
        "@mov32(q, 1);",
        "is aligned to 4 bytes at least, not to 2",
    ),
    _no(
        "dsrs",
        "no address is saved of the fabric",
        _IN + "const from = @get_dsr(dsr_src1, 1);",
        "@load_to_dsr(from, fi, $$.{ .save_address = true });",
        "'.save_address' is for a memory DSD",
    ),
    _no(
        "dsrs",
        "one dimension needs no XDSR",
        _ARRAYS + _WALKS,
        "@load_to_dsr_xdsr(to, x, $$da);",
        "a mem1d_dsd needs '@load_to_dsr'",
    ),
    _no(
        "dsrs",
        "no stride register is given that is not needed",
        _WALKS,
        "@load_to_dsr_xdsr_sr(to, x, $$.{ s }, rows);",
        "needs 0 stride registers, got 1",
    ),
    _no(
        "dsrs",
        "every stride register is given that is needed",
        _WALKS,
        "@load_to_dsr_xdsr_sr(to, x, $$.{}, cube);",
        "needs 1 stride register, got 0",
    ),
    Row(
        page="dsrs",
        says="rows of words next to each other need no stride register, a cube needs one",
        top=_WALKS,
        body="@load_to_dsr_xdsr_sr(to, x, .{}, rows); @mov16(to, 3); @load_to_dsr_xdsr_sr(to, x, .{ s }, cube); @mov16(to, 7); out[0] = m[0]; out[1] = m[6]; out[2] = m[13];",
        out=(7, 3, 7),
    ),
    Row(
        page="storage",
        says="a linkname stands before or behind the result, and an extern function names types alone",
        top='export fn g(a: i16) i16 linkname("add") { return a + 2; } extern fn h(i16) i16 linkname("add"); export fn k(a: i16, b: i32) linkname("sum") i32 { return a + b; } extern fn sum(i16, b: i32) i32; const s = extern struct { a: i16, b: i32 }; export var v = s{ .a = 1, .b = 2 }; export var p: *const fn (i16) i16 = &g;',
        body="out[0] = h(5); out[1] = sum(1, 70000); v.b += 3; out[2] = v.b; out[3] = p(1);",
        out=(7, 70001, 5, 3),
    ),
    Row(
        page="types",
        says="a packed struct has a pointer among its fields",
        top="const p = packed struct { x: i8, y: i8, at: [*]u16 }; var b = [3]u16{ 7, 8, 9 }; var c = [2]u16{ 3, 4 }; var v = p{ .x = 1, .y = -2, .at = &b };",
        body="out[0] = @as(i32, v.at[1]); out[1] = v.y; v.at = &c; out[2] = @as(i32, v.at[1]); const w: [*]u16 = &b; var z = p{ .x = 5, .y = 6, .at = w }; z.at[2] = 77; out[3] = @as(i32, b[2]); v.at = z.at; v.x = 9; out[4] = @as(i32, v.at[2]); out[5] = v.x;",
        out=(8, -2, 4, 77, 77, 9),
    ),
    Row(
        page="syntax",
        says="a 'switch' that has every value of a narrow integer needs no 'else'",
        top="var g: u2 = 2; var h: i1 = -1;",
        body="switch (g) { 0, 1 => out[0] = 1, 2 => out[0] = 5, 3 => out[0] = 7 } out[1] = switch (h) { -1 => @as(i32, 4), 0 => 8 };",
        out=(5, 4),
    ),
    Row(
        page="comptime",
        says="a variable at compile time changes where its own block runs, and in unrolled loops",
        top="var q: i16 = 1;",
        body="if (q == 1) { comptime var x: i16 = 1; x += 4; out[0] = x; } for (@range(i16, 3)) |i| { comptime var y: i16 = 0; inline for (@range(i16, 4)) |j| { y += j; } out[1] += y; } comptime var z: i16 = 0; inline while (z < 3) : (z += 1) { if (q == z) { out[2] += 1; } } out[3] = z;",
        out=(5, 18, 1, 3),
    ),
    Row(
        page="syntax",
        says="a 'switch' over a known number without a width chooses, with a warning",
        top="const k = 3;",
        body="switch (k) { 3 => out[0] = 1, else => out[0] = 2 } out[1] = switch (k + 1) { 1, 4 => 7, else => 8 };",
        out=(1, 7),
    ),
    Row(
        page="syntax",
        says="a 'switch' takes no types and no strings",
        top="fn f(comptime k: type) i16 { switch ($$k) { i16 => return 1, else => return 2 } }",
        body="out[0] = f(i16);",
        refused="'switch' takes an integer with a width or an enum, not 'type'",
    ),
    Row(
        page="syntax",
        says="a known 'switch' covers every value, too",
        top="const k: u16 = 1;",
        body="$$switch (k) { 1 => out[0] = 1, 2 => out[0] = 2 }",
        refused="'switch' on 'u16' needs an 'else' prong",
    ),
    Row(
        page="syntax",
        says="the values of a known 'switch' are unique, too",
        top="const k: u16 = 1;",
        body="switch (k) { 1, 2 => out[0] = 1, $$2 => out[0] = 2, else => out[0] = 3 }",
        refused="the value 2 is in two prongs",
    ),
    Row(
        page="syntax",
        says="a 'switch' has one 'else'",
        top="var k: u16 = 1;",
        body="switch (k) { 1 => out[0] = 1, else => out[0] = 2, $$else => out[0] = 3 }",
        refused="a 'switch' has one 'else'",
    ),
    Row(
        page="builtins",
        says="colors beyond those that are routed have no number but 32",
        top="const c = @get_color($$27);",
        body="out[0] = @get_int(c);",
        refused="color 27 is outside 0 to 23",
    ),
    *(
        Row(
            page="types",
            says=f"a DSD walks over no '{type_}' ({says})",
            top=f"var a = @constants([4]{type_}, {value}); const d = @get_dsd(mem1d_dsd, {access});",
            body="@mov16(d, 1);",
            refused=f"a DSD walks over numbers of 16 or 32 bits, not over '{type_}'",
        )
        for type_, value in (("u8", 0), ("i64", 0), ("bool", "false"))
        for says, access in (
            ("as a tensor", "$$.{ .tensor_access = |i|{4} -> a[i] }"),
            ("from an address", "$$.{ .base_address = &a, .extent = 4 }"),
        )
    ),
    Row(
        page="builtins",
        says="a task takes no 8-bit number",
        top='const c = @get_color(2); const iq = @get_input_queue(2); task got(x: u8) void {} comptime { @initialize_queue(iq, .{ .color = c }); @bind_data_task($$got, @get_data_task_id(if (@is_arch("wse3")) iq else c)); }',
        refused="task 'got' cannot take a 'u8' from a wavelet",
    ),
    Row(
        page="builtins",
        says="'@zeros' makes no bools",
        top="var a = $$@zeros([4]bool);",
        body="out[0] = @as(i32, a[1]);",
        refused="'@zeros' makes no bools; write '@constants(TYPE, false)'",
    ),
    Row(
        page="builtins",
        says="SDK 1.1 has colors that are not routed",
        top="const c = @get_color(27);",
        body="out[0] = @as(i32, @get_int(c));",
        out=(27,),
        options={"dialect": "1.1"},
    ),
)
