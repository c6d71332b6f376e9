# ruff: noqa: E501 - rows of a table
"""Rules of values, types, places and statements; see `test_diagnostics`."""

import pytest

from tests.support.csl_rules import check_at_the_top, check_in_code

IN_CODE = [
    # Conversions.
    ("x = @as(u16, i);", "const z = $$@as(comptime_int, i);", "'@as' to 'comptime_int' is not possible at run time"),
    ("x = @as(u16, 1.5);", "comptime { const z = $$@as(u16, 1.0e300 * 1.0e300); }", "inf is no integer"),
    ("x = @bitcast(u16, i);", "x = $$@bitcast(u16, work);", "'@bitcast' does not apply to 'task() void'"),
    ("const q = @ptrcast(*i16, p);", "const q = @ptrcast(*i16, $$x);", "'@ptrcast' needs a pointer, got 'u16'"),
    ("x = @get_int(red);", "x = $$@get_int(y);", "'@get_int' does not apply to 'f32'"),
    ("x = @field(s, \"p\");", "x = $$@field(s, \"r\");", "has no field 'r'"),
    ("@field(s, \"p\") = 1;", "$$@field(s) = 1;", "'@field' takes 2 arguments, got 1"),
    ("for (@range(u16, x)) |k| {}", "for (@range(u16, $$y)) |k| {}", "a bound of a range must be an integer, got 'f32'"),
    ("for (@range(u16, x)) |k| {}", "for (@range(comptime_int, $$x)) |k| {}", "a bound of type 'comptime_int' must be known at compile time"),
    ("@comptime_print(red);", "@comptime_print($$x);", "'@comptime_print' needs values known at compile time"),
    ("x = @bitcast(u16, i);", "const z = $$@bitcast(cb16, x);", "'@bitcast' to 'cb16' is not possible at run time"),
    ("comptime var c: u16 = 1; c = 2;", "comptime var c: u16 = 1; $$c = x;", "a compile-time variable needs a value known at compile time"),
    # Operators.
    ("x = ~x;", "x = $$~y;", "'~' does not apply to 'f32'"),
    ("x = x << 1;", "y = y $$<< 1;", "'<<' does not apply to 'f32'"),
    ("ok = x == 1;", "ok = s $$== 1;", "'==' needs two values of one type"),
    ("ok = x == 1;", "ok = s $$== x;", "'==' does not apply to 'struct"),
    ("ok = x == 1;", "ok = s $$== s;", "at run time"),
    ("ok = red == @get_color(3);", "ok = a $$== a;", "'==' does not apply to '[8]u16' at run time"),
    ("comptime { const z = 1 << 2; }", "comptime { const z = $$1 << (0 - 1); }", "shift by a negative count (-1)"),
    ("comptime { const z = 4 >> 2; }", "comptime { const z = $$1 >> (0 - 1); }", "shift by a negative count (-1)"),
    ("comptime { const z = 1 << 100; }",
     "comptime { const v = 1 << 600000; const z = $$v * v; }", "the product is too long a number"),
    # Places.
    ("const q = &x;", "const q = $$&u16;", "has no address"),
    ("const q = &s; q.*.p = 1;", "const q = &s; $$q.p = 1;", "is a pointer; write '.*.p'"),
    ("const t = .{ 1, 2 }; x = t[1];", "const t = .{ 1, 2 }; x = $$t[1, 1];", "a tuple takes one index"),
    ("const q: [*]u16 = &a; x = q[1];", "const q: [*]u16 = &a; x = $$q[1, 1];", "'[*]u16' takes one index, got 2"),
    ("x = 1;", "const z: u16 = 1; $$z = 2;", "cannot assign"),
    ("const q: *u16 = &x; q.* = 1;", "const q: *const u16 = &x; $$q.* = 1;", "cannot assign to a constant"),
    # Calls.
    ("const q: *const fn (u16) u16 = &twice; x = q(1);",
     "const q: *const fn (u16) u16 = &twice; x = $$q(1, 2);", "takes 1 argument, got 2"),
    ("const q: *const fn (u16) u16 = &twice; x = q(1);",
     "comptime { const q = @bitcast(*const fn (u16) u16, @as(u16, 64)); const z = $$q(1); }",
     "a call through a pointer is not possible at compile time"),
    # Blocks, branches, switches.
    ("x = b: { break :b x; };", "x = $${ return; };", "a block used as a value is left by 'break :label value' only"),
    ("x = switch (@as(u16, 1)) { 1 => 2, else => 3 };", "x = switch (@as(u16, 1)) { $$1 => {}, else => 3 };", "this prong has no value"),
    ("switch (x) { 1 => {}, else => {} }", "switch (x) { $$x => {}, else => {} }", "the value of a prong must be known at compile time"),
    ("switch (x) { 1 => {}, else => {} }", "switch ($$y) { 1.0 => {}, else => {} }", "'switch' takes an integer with a width or an enum, not 'f32'"),
    ("const z = if (ok) x else 2;", "const z = $$if (ok) 1 else 2;", "'comptime_int' needs a type at run time; write @as(TYPE, ...)"),
    ("const z = if (ok) x else 2;", "const z = $$if (ok) x else y;", "the sides have different types: 'u16' and 'f32'"),
    ("const z = if (ok) x else 2;", "const z = $$if (ok) u16 else i16;", "a value of type 'type' cannot depend on a run-time condition"),
    ("const z = b: { if (ok) { break :b x; } break :b 2; };",
     "const z = b: { if (ok) { $$break :b u16; } break :b i16; };", "a value of type 'type' cannot depend on a run-time condition"),
    ("for (a) |k| { x = k; }", "for ($$m) |k| { y = k; }", "'for' needs an array of one dimension, got '[4, 4]f32'"),
    ("inline for (range) |k| { x = k; }", "inline for ($$@range(u16, x)) |k| { x = k; }", "the range of an unrolled loop must be known"),
    ("for (range) |k| { x = k; }", "for ($$@range(comptime_int, 4)) |k| {}", "a range of 'comptime_int' cannot run; give a type of fixed width"),
    ("while (ok) { break; }", "l: while (ok) { $$break :l 1; }", "a loop has no value"),
    ("const z: u16 = 1;", "$$const z: u16;", "const 'z' has no value"),
    ("var z: u16;", "$$var z: comptime_int;", "variable of type 'comptime_int' must be comptime-known"),
    ("comptime { var z: u16 = 1; }", "comptime { var z = $$x; }", "the value of run-time variable 'x' is not known at compile time"),
    ("var z: u16 = x; x = z;", "var z: u16 = x; comptime { const v = $$z; }", "the value of a run-time variable is not known at compile time"),
    ("const q: *const fn (u16) u16 = &twice;", "const q: *const fn (u16) u16 = $$x;", "expected type '*const fn(u16) u16', got: 'u16'"),
]  # fmt: skip

AT_THE_TOP = [
    ("const Z = [2]u16{ 1, 2 };\nfn user() void { x = Z[x]; }\ncomptime { @set_teardown_handler(user, red); }",
     "const Z = [2]comptime_int{ 1, 2 };\nfn user() void { x = $$Z[x]; }\ncomptime { @set_teardown_handler(user, red); }", "has no address"),
    # Values.
    ("const z = @concat_structs(.{ .p = 1 }, .{ .q = 1 });",
     "const z = @concat_structs(.{ .p = 1 }, $$1);", "expected a known struct, got 'comptime_int'"),
    ("const z = @strcat(\"a\", \"b\");",
     "const u = @strcat(\"0123456789abcdef\", \"0123456789abcdef\");\n"
     "fn more(t: comptime_string) comptime_string { return $$@strcat(t, t, t, t, t, t, t, t); }\n"
     "fn most(t: comptime_string) comptime_string { return more(more(more(more(more(more(t)))))); }\n"
     "const z = most(u);", "a string of more than"),
    ("const z = @range(u16, 3);", "const z = @range(u16, $$1.5);", "a bound of a range must be an integer"),
    # Literals.
    ("const z = 'a';", "const z = $$'\u00e9';", "a character literal holds one byte"),
    ("const z = \"\\x41\";", "const z = $$\"\\x4g\";", "'\\x' needs two hexadecimal digits"),
    ("const z = 0xff;", "const z = $$0x_;", "is not a number"),
    ("const z = 123;", "const z = $$" + "1_" * 4400 + "1;", "a number of 4401 digits is too long"),
    ("const z = ((1));", "const z = " + "(" * 100 + "$$(" + "(" * 99 + "1" + ")" * 200 + ";", "nested more than 200 levels deep"),
    # Types.
    ("const T = *u16;", "const T = *$$4;", "expected a type, got a value of type 'comptime_int'"),
    ("const T = enum { A = 1 };", "const T = enum { A = $$x };", "the value of run-time variable 'x' is not known"),
    ("const z = E.A;", "const z = $$u16.A;", "type 'u16' has no members"),
    ("var z: [4]u16 align(8);", "export var z: [4]u16 align($$1.5);", "an alignment is a known integer"),
    ("var z: u16 linkname(\"zz\");", "export var z: u16 linkname($$1);", "a linkname is a known string"),
    ("var z: u16;", "$$var z: comptime_int;", "variable of type 'comptime_int' must be comptime-known"),
    ("var z: u16;", "$$var z;", "'z' needs a type or a value"),
    ("const z = 1;", "$$const z: u16;", "const 'z' has no value"),
    ("const z = .{ .p = 1 };", "const z = $$u16{ .p = 1 };", "type 'u16' takes no fields"),
    ("const T = struct { p: u16 }; const z = T{ .p = 1 };",
     "const T = struct { p: u16 };\nconst z = T{ .p = 1, $$2 };", "needs '.name = value'"),
    ("const T = struct { p: u16 }; const z = T{ .p = 1 };",
     "const T = struct { p: u16 };\nconst z = T{ .p = 1, $$.p = 2 };", "field 'p' is given twice"),
    ("const T = union { p: u16, q: i16 }; var z: T;",
     "const T = union { p: u16, q: *u16 };\nconst z = $$T{ .p = 1 };", "has fields whose bits are not known at compile time"),
    ("const z = [2]u16{ 1, 2 };", "const z = [1]u16{ $$.p = 1 };", "an element of an array has no name"),
    ("fn there(k: u16) void;", "fn there(k: u16) void;\ncomptime { $$there(1); }", "function 'there' is only declared"),
    ("fn there() void;", "fn there() void;\ncomptime { @export_symbol($$there, \"main\"); }", "is only declared"),
    # Calls and modules.
    ("inline fn deep(k: u16) u16 { return k; }",
     "inline fn deep(k: u16) u16 { return $$deep(k + 1); }\nfn user() void { x = deep(x); }\ncomptime { const u: *const fn () void = &user; @set_teardown_handler(user, red); }",
     "inlined calls nest more than"),
    ("const t = @import_module(\"<time>\"); const z = t.tsc_size_words;",
     "const t = @import_module(\"<time>\");\nconst z = t.$$nothing;", "module '<time>' has no member 'nothing'"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "text"), IN_CODE, ids=lambda text: text[:40])
def test_a_rule_of_statements_and_expressions(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text)


@pytest.mark.parametrize(("right", "wrong", "text"), AT_THE_TOP, ids=lambda text: text[:40])
def test_a_rule_of_declarations(right: str, wrong: str, text: str) -> None:
    check_at_the_top(right, wrong, text)
