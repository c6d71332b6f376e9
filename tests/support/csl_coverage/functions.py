# ruff: noqa: E501 - rows of a table
"""Functions, modules, and what runs at compile time."""

from tests.support.csl_coverage.rows import Row

FP = "fn twice(x: i16) i16 { return 2 * x; } fn neg(x: i16) i16 { return -x; } var c: bool = true;"
KNOWN = 'fn w(comptime t: type) u16 { if (t == u16 or t == i16 or t == f16) return 16; return if (t == u32 or t == i32 or t == f32) 32 else 0; } fn dbl(k: u16) u16 { return 2 * k; } fn pw(comptime n: u16, x: i32) i32 { var r: i32 = 1; inline for (@range(u16, n)) |i| { r *= x; } return r; } fn name(k: u16) comptime_string { return if (k == 2) "<math>" else "x"; } '
ROWS = (
    Row(
        page="functions",
        says="a function is called through its pointer, with '.*' or without",
        top=FP,
        body="const p: *const fn (i16) i16 = &twice; out[0] = p(3); out[1] = p.*(4); const q = if (c) &neg else &twice; out[2] = q(5); out[3] = q.*(6);",
        out=(6, 8, -5, -6),
    ),
    Row(
        page="functions",
        says="a pointer to a function in a variable",
        top=FP + "var p: *const fn (i16) i16 = &twice;",
        body="out[0] = p(1); p = &neg; out[1] = p.*(2); p = if (c) twice else neg; out[2] = p(3);",
        out=(2, -2, 6),
    ),
    Row(
        page="functions",
        says="pointers to functions in arrays and structs",
        top=FP
        + "var t = [2]*const fn (i16) i16{ &twice, &neg }; const s = struct { f: *const fn (i16) i16, n: i16 }; var v = s{ .f = &neg, .n = 3 }; var i: u16 = 1;",
        body="out[0] = t[i](7); i = 0; out[1] = t[i](7); out[2] = v.f(v.n); v.f = &twice; out[3] = v.f.*(v.n);",
        out=(-7, 14, -3, 6),
    ),
    Row(
        page="functions",
        says="a function is a param of a module",
        files={
            "m.csl": "param f: fn (i16) i16; param g: *const fn (i16) i16; fn both(x: i16) i16 { return f(x) + g(x); }"
        },
        top=FP + 'const m = @import_module("m.csl", .{ .f = twice, .g = &neg });',
        body="out[0] = m.both(5);",
        out=(5,),
    ),
    Row(
        page="functions",
        says="a member of a module's module",
        files={
            "m.csl": 'const n = @import_module("n.csl", .{ .k = 4 }); param z: i16; fn f() i16 { return n.f() + z; }',
            "n.csl": "param k: i16; var count: i16 = 0; fn f() i16 { count += 1; return k * count; } const limit: i16 = k + 1;",
        },
        top='const m = @import_module("m.csl", .{ .z = 100 }); const f = m.n.f;',
        body="out[0] = m.f(); out[1] = f(); out[2] = m.n.limit; out[3] = m.n.count;",
        out=(104, 8, 5, 2),
    ),
    Row(
        page="functions",
        says="every import has variables of its own",
        files={
            "n.csl": "param k: i16; var count: i16 = 0; fn f() i16 { count += k; return count; }"
        },
        top='const a = @import_module("n.csl", .{ .k = 1 }); const b = @import_module("n.csl", .{ .k = 1 });',
        body="out[0] = a.f(); out[0] = a.f(); out[1] = b.f(); a.count = 50; out[2] = a.f(); out[3] = b.count;",
        out=(2, 1, 51, 1),
    ),
    Row(
        page="functions",
        says="params of a module that are types, structs, colors and tasks",
        files={
            "m.csl": "param t: type; param cfg; param n: u16 = 3; param c: color; param q; var a = @zeros([n]t); fn f(x: t) t { a[n - 1] = x + @as(t, cfg.add); return a[n - 1]; } fn color_number() u16 { return @get_int(c); } fn first() u16 { return q[0]; }"
        },
        top='const m = @import_module("m.csl", .{ .t = i32, .cfg = .{ .add = 5 }, .c = @get_color(7), .q = [2]u16{ 2, 3 } }); const n = @import_module("m.csl", .{ .t = f32, .cfg = .{ .add = 5, .other = 1 }, .n = 8, .c = @get_color(9), .q = .{ 4 } });',
        body="out[0] = m.f(1); out[1] = @as(i32, n.f(2.5) * 2.0); out[2] = @as(i32, n.color_number()); out[3] = @as(i32, m.first() + n.first()); out[4] = @as(i32, @element_count(@type_of(n.a)));",
        out=(6, 15, 9, 6, 8),
    ),
    Row(
        page="functions",
        says="the path of a module is any known string",
        files={"a1.csl": "const v: i16 = 11;", "a2.csl": "const v: i16 = 22;"},
        top='fn path(comptime n: u16) comptime_string { return if (n == 1) "a1.csl" else "a2.csl"; } const m = @import_module(path(2)); const o = @import_module(@strcat("a", "1", ".csl"));',
        body="out[0] = m.v; out[1] = o.v;",
        out=(22, 11),
    ),
    Row(
        page="comptime",
        says="the other side of a known condition is not checked",
        top="fn f(x: i32) i32 { return x; }",
        body='if (@type_of(out) == void) { out[0] = f(1, 2, nothing); } else { out[0] = 1; } out[1] = if (true) 2 else f(); if (false and f(1, 2) == 3) out[2] = 9; const s = if (@is_arch("wse2")) .{ .a = 1 } else .{ .b = 2 }; out[3] = if (@is_arch("wse2")) s.a + 1 else s.b;',
        out=(1, 2, 0, 2),
    ),
    Row(
        page="comptime",
        says="a function that nothing calls is not checked",
        top='const m = @import_module("m.csl");',
        body="out[0] = m.used();",
        files={"m.csl": "fn unused() void { nothing(1) + 2; } fn used() i16 { return 1; }"},
        out=(1,),
    ),
    Row(
        page="comptime",
        says="tables are computed before the run",
        top="fn table(comptime n: u16) [n]u16 { var t = @zeros([n]u16); for (@range(u16, n)) |i| { t[i] = i * i; } return t; } const squares = table(9); var i: u16 = 5; fn bits(x: u32) u16 { var n: u16 = 0; var y = x; while (y != 0) : (y >>= 1) { if (y & 1 == 1) n += 1; } return n; } const b = bits(0xff0f);",
        body="out[0] = @as(i32, squares[i]); out[1] = @as(i32, b); out[2] = @as(i32, @element_count(@type_of(squares)));",
        out=(25, 12, 9),
    ),
    Row(
        page="comptime",
        says="'comptime' expressions, variables and blocks in functions",
        top="fn f(x: u16) u16 { return x * 3; }",
        body="const a = comptime f(4); comptime var n: u16 = 0; inline for (@range(u16, 4)) |i| { comptime { n += i; } } out[0] = @as(i32, a); out[1] = @as(i32, n); comptime { @comptime_assert(n == 6); }",
        out=(12, 6),
    ),
    Row(
        page="comptime",
        says="'@comptime_assert' tells what is wrong",
        top='const n: u16 = 3; comptime { $$@comptime_assert(n == 4, "n is four"); }',
        refused="n is four",
    ),
    Row(
        page="comptime",
        says="'@is_comptime' tells where a function runs",
        top="fn f() i32 { if (@is_comptime()) return 1; return 2; } const k = f();",
        body="out[0] = k; out[1] = f();",
        out=(1, 2),
    ),
    Row(
        page="comptime",
        says="a variable is not read at compile time",
        top="var v: i32 = 4; const k = $$v + 1;",
        body="out[0] = k;",
        refused="v",
    ),
    Row(
        page="comptime",
        says="structs of structs with types and strings",
        top='const cfg = .{ .name = "ab", .t = f32, .sub = .{ .n = 3, .list = [2]u16{ 5, 6 } } }; var a = @zeros([cfg.sub.n]cfg.t);',
        body="out[0] = @strlen(cfg.name); a[1] = 2.5; out[1] = @as(i32, a[1] * 2.0); out[2] = @as(i32, cfg.sub.list[1]);",
        out=(2, 5, 6),
    ),
    Row(
        page="comptime",
        says="an 'if' over types and strings",
        top='fn w(comptime t: type) u16 { if (t == f16 or t == i16) return 16; return if (t == f32) 32 else 0; } fn s(comptime n: comptime_string) u16 { if (n == "a") return 1; return 2; }',
        body='out[0] = @as(i32, comptime w(f16)); out[1] = @as(i32, comptime w(f32)); out[2] = @as(i32, comptime w(bool)); out[3] = @as(i32, comptime s("a"));',
        out=(16, 32, 0, 1),
    ),
    Row(
        page="comptime",
        says="what must be known may call a function",
        top=KNOWN
        + 'fn f(comptime t: type, x: t) t { @comptime_assert(w(t) > 0, "no width"); comptime { @comptime_assert(dbl(w(t)) >= 32); } var a = @zeros([dbl(2)]t); a[dbl(1)] = x; return a[2]; }',
        body="out[0] = f(i16, 5); out[1] = pw(dbl(2), 3); out[2] = @as(i32, @get_int(@get_color(dbl(4)))); var b = @constants([dbl(1), 3]i32, 4); out[3] = b[1, 2]; inline for (@range(u16, dbl(2))) |i| { out[4] += @as(i32, i); } const s = comptime dbl(9); out[5] = @as(i32, s); out[6] = @as(i32, @strlen(name(2)));",
        out=(5, 81, 8, 4, 6, 18, 6),
    ),
    Row(
        page="comptime",
        says="what must be known does not call with what is not",
        top=KNOWN + "var n: u16 = 3;",
        body="out[0] = pw(dbl($$n), 3);",
        refused="n",
    ),
    Row(
        page="functions",
        says="a function that gives an id, a color or a queue of known numbers gives a known one",
        top='param c: color = @get_color(5); fn q(comptime i: u16) input_queue { return @get_input_queue(i + 2); } fn o(i: u16) output_queue { if (i > 3) { return @get_output_queue(2); } return @get_output_queue(i + 1); } fn col(i: u16) color { const t = [2]color{ @get_color(3), @get_color(4) }; return t[i]; } fn id(comptime k: u16) local_task_id { return @get_local_task_id(k); } var a = @zeros([2]u32); const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> a[i] }); fn out_to(comptime i: u16) fabout_dsd { return @get_dsd(fabout_dsd, .{ .extent = 2, .fabric_color = col(1), .output_queue = o(i) }); } task done() void { out[0] = 1; sys.unblock_cmd_stream(); } comptime { @bind_local_task(done, id(9)); @set_local_color_config(col(1), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{} } }); if (@is_arch("wse3")) { @initialize_queue(o(2), .{ .color = col(1) }); } }',
        finishes=False,
        body="out[1] = @as(i32, @get_int(q(3))); @mov32(out_to(2), da, .{ .async = true, .activate = id(9) });",
        out=(1, 5),
    ),
)
