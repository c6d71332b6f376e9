# ruff: noqa: E501 - rows of a table
"""One rule a row: a program that keeps it, and one that breaks it with the place of its error.

What stands in the code of `main`, or at the top of the file, is exchanged; `$$` marks where the
error has to be shown. Rules that have a test of their own elsewhere are not repeated.
"""

import pytest

from tests.support.csl_rules import check_at_the_top, check_in_code

IN_CODE = [
    # Values and conversions.
    ("ok = !ok;", "ok = $$!x;", "'!' needs a bool, got 'u16'"),
    ("ok = ok and x > 1;", "ok = $$x and ok;", "'and' needs bools, got 'u16'"),
    ("ok = ok or x > 1;", "ok = ok or $$x;", "'or' needs bools, got 'u16'"),
    ("x = x << 2;", "x = x $$<< i;", "the count of '<<' must be unsigned, got 'i16'"),
    ("x = @as(u16, 1) << x;", "x = $$1 << x;", "needs a type at run time; write @as(TYPE, ...)"),
    ("x = @bitcast(u16, i);", "x = $$@bitcast(u16, y);", "'@bitcast' from 'f32' (32 bits) to 'u16'"),
    ("var q = @ptrcast(*i16, p); q.* = 1;", "var q = @ptrcast($$u16, p);", "gives a pointer, not"),
    ("x = @as(u16, E.B);", "x = @as(u16, E.$$C);", "has no member 'C'"),
    ("x = if (ok) x else 2;", "x = $$if (ok) x;", "needs an 'else' to have a value"),
    ("x = twice(x);", "x = $$twice(x, x);", "function 'twice' takes 1 argument, got 2"),
    ("x = @field(s, \"p\");", "x = $$@field(s);", "'@field' takes 2 arguments, got 1"),
    # Pointers, arrays, structs.
    ("p.* = 2;", "$$p[0] = 2;", "points to one value; write '.*'"),
    ("a[1] = 2;", "$$x[1] = 2;", "type 'u16' has no elements"),
    ("m[1, 2] = 2.0;", "$$m[1] = 2.0;", "takes 2 indices, got 1"),
    ("a[7] = 2;", "a[$$8] = 2;", "index 8 is outside '[8]u16' (0 to 7)"),
    ("a[x] = 2;", "a[$$y] = 2;", "an index must be an integer, got 'f32'"),
    ("s.p = 1;", "s.$$r = 1;", "has no field 'r'"),
    ("s.p = 1;", "$$p.q = 1;", "type '*u16' has no member 'q'"),
    ("const t = .{ 1, 2 }; x = t[1];", "const t = .{ 1, 2 }; x = t[$$2];", "index 2 of a tuple of 2"),
    # Statements.
    ("while (ok) { break; }", "$$break;", "this is not inside a loop"),
    ("l: while (ok) { break :l; }", "while (ok) { $$break :l; }", "label 'l' is not around this"),
    ("var z: u16 = 1; x = z;", "$$var z;", "'z' needs a type or a value"),
    ("var z: u16 = 1; x = z;", "$$var z = 1;", "variable of type 'comptime_int' must be comptime-known"),
    ("const z: u16 = 1; x = z;", "$$param z: u16;", "a param is declared at the top of a file only"),
    ("for (range) |k| { x = k; }", "for ($$x) |k| { x = k; }", "u16"),
    ("inline for (range) |k| { x = k; }",
     "inline while ($$x > 1) { x = 1; }", "the condition of an unrolled loop must be known"),
    ("switch (x) { 0, 1 => {}, else => {} }",
     "switch (x) { 0 => {}, $$0 => {}, else => {} }", "the value 0 is in two prongs"),
    ("switch (E.A) { E.A => {}, E.B => {} }",
     "var t = E.A; $$switch (t) { E.A => {} }", "'switch' has no prong for B; add them or 'else'"),
    ("comptime { @comptime_assert(1 == 1); }",
     "comptime { $$@comptime_assert(1 == 2, \"no\"); }", "the assertion does not hold: no"),
    ("@assert(x == 1);", "@assert($$x);", "'@assert' needs a bool, got 'u16'"),
    # DSDs and operations.
    ("@mov16(d, e);", "$$@mov16(d);", "'@mov16' takes at least 2 arguments, got 1"),
    ("@fmacs(g, g, g, y);", "@fmacs(g, g, g, $$g);", "the factor of a fused operation is a scalar"),
    ("@map(twice, d, e);", "$$@map(twice, d);", "'@map' of 'twice' takes 1 input"),
    ("const h = @set_dsd_stride(d, 2); @mov16(h, e);",
     "const h = @set_dsd_stride($$x, 2);", "u16"),
    ("@load_to_dsr(dest, d);", "@load_to_dsr($$x, d);", "a DSR must be known at compile time"),
    ("@load_to_dsr(dest, d);", "@load_to_dsr(dest, $$x);", "expected a DSD, got 'u16'"),
    ("@block(red);", "@block($$x);", "or a task, got 'u16'"),
]  # fmt: skip

AT_THE_TOP = [
    # Types.
    ("const T = enum(u16) { A };", "const T = $$enum(f32) { A };", "an enum needs an integer type"),
    ("const T = enum { A, B };", "const T = enum { A, $$A };", "member 'A' is defined twice"),
    ("const T = struct { p: u16 };",
     "const T = struct { p: u16, $$p: u16 };", "field 'p' is defined twice"),
    ("const T = [4]u16;", "const T = [$$1.5]u16;", "a dimension must be a known integer"),
    ("export var z: [4]u16 align(16);", "export var z: [4]u16 align($$3);", "alignment 3 is no power of two"),
    ("const z: u16 = 1;", "const z: u16 = $$x;", "not known at compile time"),
    ("const z = @zeros([2]u16);", "const z = @zeros($$u16);", "expected an array type, got 'u16'"),
    ("const n = @rank([2, 2]u16);", "const n = @rank($$u16);", "expected an array type, got 'u16'"),
    ("const z = @get_array(\"ab\");", "const z = @get_array($$1);", "expected a string"),
    ("const z = @get_string_from_byte(65);",
     "const z = @get_string_from_byte($$256);", "'256' is no byte"),
    ("const z = @concat_structs(.{ .p = 1 }, .{ .q = 1 });",
     "const z = $$@concat_structs(.{ .p = 1 }, .{ 1 });", "a struct with names and a tuple"),
    ("const z = @range(u16, 3);", "const z = @range($$f32, 3);", "a range is of integers, not 'f32'"),
    ("const z = @range_start(range);",
     "const z = $$@range_start(1);", "'@range_start' needs a range"),
    # Identifiers.
    ("const z = @get_color(23);", "const z = @get_color($$24);", "color 24 is outside 0 to 23"),
    ("const z = @get_data_task_id(red);",
     "const z = @get_data_task_id($$iq);", "a data task id of wse2 needs a value of type 'color'"),
    ("const z = @get_dsr(dsr_dest, 1);",
     "const z = @get_dsr($$u16, 1);", "expected a DSR type, got 'u16'"),
    # Tensor accesses and DSDs.
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[2 * k] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[$$k * k] });",
     "an index must be a sum of multiples of the access's variables"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[k] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> $$x[k] });", "a tensor access walks over an array, not 'u16'"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[k] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{$$70000} -> a[k] });",
     "extent 70000 is outside 0 to 65535"),
    ("const z = @get_dsd(mem4d_dsd, .{ .tensor_access = |k, l|{4, 4} -> m[k, l] });",
     "const z = @get_dsd(mem4d_dsd, .{ .tensor_access = $$|k, l|{4} -> m[k, l] });",
     "2 variables and 1 extents do not match"),
    ("const z = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = red, .output_queue = oq });",
     "const z = @get_dsd(fabout_dsd, $$.{ .extent = 1, .fabric_color = red, "
     ".output_queue = oq, .simd_mode = .{ .wide = true } });", "'.simd_mode' is one of"),
    # Tasks, queues, FIFOs.
    ("comptime { @set_teardown_handler(nothing, red); }",
     "comptime { @set_teardown_handler(nothing, red); "
     "$$@bind_local_task(work, @get_local_task_id(29)); }",
     "local task id 29 belongs to the teardown handler"),
    ("comptime { @bind_local_task(work, @get_local_task_id(9)); }",
     "comptime { @bind_local_task($$nothing, @get_local_task_id(9)); }", "needs a task"),
    ("comptime { @initialize_queue(iq, .{ .color = red, .priority = .{ .high = true } }); }",
     "comptime { @initialize_queue(iq, $$.{ .color = red, .priority = .{ .most = true } }); }",
     "'.priority' is one of"),
    ("const z = @allocate_fifo(a);", "const z = @allocate_fifo($$x);", "is an array, not 'u16'"),
    # Colors.
    ("comptime { @set_local_color_config(red, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }); }",
     "comptime { @set_local_color_config(red, $$.{ .routes = .{ .rx = .{ WEST } } }); }",
     "the routes of a color need '.tx'"),
    ("comptime { @set_local_color_config(red, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }); }",
     "comptime { @set_local_color_config(red, $$.{ .routes = .{ .rx = .{ 1 }, .tx = .{ RAMP } } }); }",
     "'.rx' needs directions, got 'comptime_int'"),
    ("comptime { @set_local_color_config(red, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }); }",
     "comptime { @set_local_color_config($$@get_color(32), .{ .routes = .{ .rx = .{ WEST }, "
     ".tx = .{ RAMP } } }); }", "color 32 cannot be routed; routable colors are 0 to 23"),
    ("comptime { @set_teardown_handler(nothing, red); }",
     "comptime { @set_teardown_handler($$twice, red); }", "a handler is a function without arguments"),
    # Modules.
    ("const z = @import_module(\"<time>\", .{});",
     "const z = @import_module(\"<time>\", $$1);", "the parameters of a module are a struct"),
    ("const z = @is_arch(\"wse3\");",
     "const z = @is_arch($$\"wse9\");", "there is no architecture 'wse9'"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "text"), IN_CODE, ids=lambda text: text[:40])
def test_a_rule_of_statements_and_expressions(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text)


@pytest.mark.parametrize(("right", "wrong", "text"), AT_THE_TOP, ids=lambda text: text[:40])
def test_a_rule_of_declarations(right: str, wrong: str, text: str) -> None:
    check_at_the_top(right, wrong, text)
