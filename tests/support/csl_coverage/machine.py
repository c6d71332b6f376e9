# ruff: noqa: E501 - rows of a table
"""Builtins, tasks and DSDs on one PE."""

from tests.support.csl_coverage.rows import Row

TY = "var n: i32 = 0; fn f() i32 { n += 1; return n; } fn g(x: anytype) @type_of(x) { n += 1; return x; } inline fn h(x: i16) i16 { n += 1; return x; } const pt = struct { a: i16, b: f32 }; fn mk() pt { n += 1; return pt{ .a = 1, .b = 2.0 }; } fn never() f32 { return undeclared; } "
ROWS = (
    Row(
        page="builtins",
        says="'@constants' and '@zeros' of several dimensions and types",
        top="var a = @constants([2,3]i16, 7); var z = @zeros([2]f32); const k = @constants([4]bool, true);",
        body="out[0] = a[1, 2]; out[1] = @as(i32, z[1]); out[2] = @as(i32, k[3]); a = @constants([2,3]i16, 4); out[3] = a[0, 0];",
        out=(7, 0, 1, 4),
    ),
    Row(
        page="builtins",
        says="'@range' of one, two and three bounds",
        body="for (@range(i16, 3)) |i| out[0] += i; for (@range(i16, 2, 5)) |i| out[1] += i; for (@range(i16, 1, 10, 4)) |i| out[2] += i; for (@range(i16, 5, 0, -2)) |i| out[3] += i; for (@range(i16, 5, 2)) |i| out[4] += 1;",
        out=(3, 9, 15, 9, 0),
    ),
    Row(
        page="builtins",
        says="a 'range' whose bounds are known at run time",
        top="var n: u16 = 4; var s: u16 = 2;",
        body="for (@range(u16, n)) |i| out[0] += @as(i32, i); for (@range(u16, 1, n + 5, s)) |i| out[1] += @as(i32, i);",
        out=(6, 16),
    ),
    Row(
        page="builtins",
        says="'@get_int' of colors, ids, queues and enums",
        top="const e = enum(u16) { A, B };",
        body="out[0] = @as(i32, @get_int(@get_color(5))); out[1] = @as(i32, @get_int(@get_input_queue(3))); out[2] = @as(i32, @get_int(@get_output_queue(2))); out[3] = @as(i32, @get_int(@get_local_task_id(12))); out[4] = @as(i32, @get_int(@get_control_task_id(40))); out[5] = @as(i32, @get_int(e.B)); out[6] = @as(i32, @get_int(@as(u16, 6)));",
        out=(5, 3, 2, 12, 40, 1, 6),
    ),
    Row(
        page="builtins",
        says="ids from any integer type",
        top="const a: i16 = 5; const b: u32 = 6; const c: i8 = 7;",
        body="out[0] = @as(i32, @get_int(@get_color(a))); out[1] = @as(i32, @get_int(@get_color(b))); out[2] = @as(i32, @get_int(@get_local_task_id(c + 2)));",
        out=(5, 6, 9),
    ),
    Row(
        page="builtins",
        says="a local task activates another, by id and by name",
        finishes=False,
        top="const a = @get_local_task_id(9); const b = @get_local_task_id(10); task one() void { out[0] = 1; @activate(b); } task two() void { out[1] = 2; sys.unblock_cmd_stream(); } comptime { @bind_local_task(one, a); @bind_local_task(two, b); }",
        body="@activate(a);",
        out=(1, 2),
    ),
    Row(
        page="builtins",
        says="a task that is active and one that is blocked from the start",
        finishes=False,
        top="const a = @get_local_task_id(9); const b = @get_local_task_id(10); var n: i32 = 0; task one() void { n += 1; out[0] = n; @unblock(b); } task two() void { n += 10; out[1] = n; sys.unblock_cmd_stream(); } comptime { @bind_local_task(one, a); @bind_local_task(two, b); @activate(b); @block(b); }",
        body="@activate(a);",
        out=(1, 11),
    ),
    Row(
        page="builtins",
        says="activation of an active task is one activation",
        finishes=False,
        top="const a = @get_local_task_id(9); const b = @get_local_task_id(10); var n: i32 = 0; task one() void { n += 1; } task two() void { out[0] = n; sys.unblock_cmd_stream(); } comptime { @bind_local_task(one, a); @bind_local_task(two, b); @block(b); @block(a); }",
        body="@activate(a); @activate(a); @activate(b); @unblock(a); n += 100; @unblock(b);",
        out=(101,),
    ),
    Row(
        page="dsds",
        says="a tensor access by an affine index, a diagonal and a fixed row",
        top="var a = [3,3]i16{ 1, 2, 3, 4, 5, 6, 7, 8, 9 }; var r = @zeros([3]i16); const d1 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[i, i] }); const d2 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[2 - i, 1] }); const d3 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[1, i] }); const rd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> r[i] });",
        body="@add16(rd, d1, d2); out[0] = r[0]; out[1] = r[1]; out[2] = r[2]; @mov16(rd, d3); out[3] = r[0] + 10 * r[2];",
        out=(9, 10, 11, 64),
    ),
    Row(
        page="dsds",
        says="stride 0 repeats an element",
        top="var a = [3]f32{ 2.0, 3.0, 4.0 }; var r = [3]f32{ 1.0, 1.0, 1.0 }; const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[1] }); const rd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> r[i] });",
        body="@fadds(rd, rd, d); out[0] = @as(i32, r[0]); out[1] = @as(i32, r[2]);",
        out=(4, 4),
    ),
    Row(
        page="dsds",
        says="mem4d walks the last variable fastest",
        top="var a = @zeros([2,3]i16); var r = @zeros([6]i16); const d = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{3, 2} -> a[j, i] }); const rd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> r[i] });",
        body="for (@range(u16, 6)) |i| { a[i / 3, i % 3] = @as(i16, i); } @mov16(rd, d); for (@range(u16, 6)) |i| { out[i] = r[i]; }",
        out=(0, 3, 1, 4, 2, 5),
    ),
    Row(
        page="dsds",
        says="DSDs in structs, arrays, arguments and results",
        top="var a = [4]f32{ 1.0, 2.0, 3.0, 4.0 }; var r = @zeros([4]f32); const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] }); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] }); const io = struct { from: mem1d_dsd, to: mem1d_dsd }; fn run(x: io) void { @fmovs(x.to, x.from); } fn half(d: mem1d_dsd) mem1d_dsd { return @set_dsd_length(d, 2); } var v: mem1d_dsd = da;",
        body="run(io{ .from = half(da), .to = dr }); out[0] = @as(i32, r[1]); out[1] = @as(i32, r[2]); v = @increment_dsd_offset(v, 2, f32); @fmovs(dr, @set_dsd_length(v, 2)); out[2] = @as(i32, r[0]);",
        out=(2, 0, 3),
    ),
    Row(
        page="dsds",
        says="a sum into a number, a dot product by a loop",
        top="var a = [4]f32{ 1.0, 2.0, 3.0, 4.0 }; const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] }); var s: f32 = 0.0; var p: f32 = 1.0; var y = @zeros([4]f32); const dy = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> y[i] });",
        body="@fadds(&s, s, da); out[0] = @as(i32, s); @fmacs(dy, dy, da, 2.0); @fmacs(dy, dy, da, s); out[1] = @as(i32, y[3]); @fmuls(dy, da, da); @fmaxs(&p, p, dy); out[2] = @as(i32, p); @fmovs(&s, da); out[3] = @as(i32, s);",
        out=(10, 48, 16, 4),
    ),
    Row(
        page="dsds",
        says="a DSD of a base address that is a run-time pointer",
        top="var a = [4]i16{ 1, 2, 3, 4 }; var b = [4]i16{ 5, 6, 7, 8 }; var r = @zeros([4]i16); const rd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> r[i] }); fn copy(p: [*]i16, n: u16, s: i8) void { const d = @get_dsd(mem1d_dsd, .{ .base_address = p, .extent = n, .stride = s, .offset = 1 }); @mov16(rd, d); }",
        body="copy(&b, 2, 2); out[0] = r[0]; out[1] = r[1]; copy(&a, 3, 1); out[2] = r[2];",
        out=(6, 8, 4),
    ),
    Row(
        page="dsds",
        says="'@map' with several inputs, a scalar and an output",
        top="var a = [3]i16{ 1, 2, 3 }; var b = [3]f32{ 0.5, 1.5, 2.5 }; var r = @zeros([3]f32); const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[i] }); const db = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> b[i] }); const dr = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> r[i] }); fn f(x: i16, y: f32, k: f32) f32 { return @as(f32, x) * y + k; } var total: f32 = 0.0; fn g(x: f32, t: f32) f32 { return x + t; } fn h(x: f32) void { out[4] += @as(i32, x); }",
        body="@map(f, da, db, 10.0, dr); out[0] = @as(i32, 2.0 * r[0]); out[1] = @as(i32, 2.0 * r[2]); @map(h, dr);",
        out=(21, 35, 0, 0, 10 + 13 + 17),
    ),
    Row(
        page="dsds",
        says="'@map' into a number",
        top="var a = [3]i16{ 1, 2, 3 }; const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[i] }); var last: i16 = 0; fn f(x: i16, p: *i16) i16 { p.* += x; return x * 10; } var acc: i16 = 0;",
        body="@map(f, da, &acc, &last); out[0] = last; out[1] = acc;",
        out=(30, 6),
    ),
    Row(
        page="builtins",
        says="'@type_of' of calls",
        top=TY
        + "var a = @zeros([3]@type_of(f())); const t1 = @type_of(g(@as(i16, 3))); const t2 = @type_of(f() + 1); const t3 = @type_of(mk().b); const t4 = @type_of(h(3) * 2); const t5 = @type_of(n + 4); const t6 = @type_of(never());",
        body="const x: @type_of(f()) = 5; var y: @type_of(mk()) = mk(); out[0] = n; out[1] = x + y.a; if (@type_of(a) == [3]i32) out[2] = 1; if (t1 == i16 and t2 == i32 and t3 == f32 and t4 == i16 and t5 == i32 and t6 == f32) out[3] = 1; out[4] = @as(i32, @type_of(f() * 2) == i32); out[5] = @as(i32, @type_of(&y.b) == *f32); out[6] = n;",
        out=(1, 6, 1, 1, 1, 1, 1),
    ),
    Row(
        page="builtins",
        says="'@type_of' in a function that runs at compile time",
        top="const pt = struct { a: i16 }; fn mk(k: i16) pt { return pt{ .a = k }; } fn f(comptime k: i16) i16 { var v: @type_of(mk(k)) = mk(k); var z = k + 1; const w: @type_of(z) = z; const u: @type_of(mk(z).a) = 5; return v.a + w + u; } const c = f(3);",
        body="out[0] = c;",
        out=(12,),
    ),
    Row(
        page="dsds",
        says="the same property twice is refused",
        top="var a = @zeros([4]f32); const d = @get_dsd(mem1d_dsd, $$.{ .tensor_access = |i|{4} -> a[i], .stride = 2 });",
        body="@fmovs(d, 1.0);",
        refused="stride",
    ),
)
