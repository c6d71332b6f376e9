"""Types and values: what fits where, and the wrong program beside each rule."""

import re

import pytest

from tests.support.csl import check_error, check_right, printed


@pytest.mark.parametrize(
    "source",
    [
        "var a: u16 = 65535;",
        "var a: i8 = -128;",
        "const a: f32 = 1.5;",
        "const a: i16 = 3; const b: i32 = a;",
        "const a: u16 = 3; const b: i16 = a;",
        "const a: f16 = 1.5; const b: f32 = a;",
        "var a: [3]u16; const p: *[3]u16 = &a; const q: [*]u16 = &a;",
        "var a: [2, 3]u16; const q: [*]u16 = &a;",
        "var a: u16; const p: *const u16 = &a;",
        "var a: u16; const p: *[1]u16 = &a;",
        "const S = struct { a: u16, b: f32 }; const s: S = .{ .b = 1.0, .a = 2 };",
        "const a: [2]u16 = .{ 1, 2 };",
        "const S = struct { }; const s = S{};",
        "fn S(comptime T: type) type { return struct { }; } const s = S(u16){};",
        "fn f(a: u16) void { } const p: fn (u16) void = f; const q: *const fn (u16) void = &f;",
        "const a: u7 = 127; const b: i24 = -8388608;",
        "const E = enum(u16) { A, B }; const e: E = E.B; const n = @as(u32, e);",
        "const a: color = @get_color(3); const b: u16 = @get_int(a);",
    ],
)
def test_values_fit(source: str) -> None:
    names = re.findall(r"(?:const|var) (\w): ", source)
    uses = " ".join(f"_ = @type_of({name});" for name in names)
    check_right(f"{source}\ncomptime {{ {uses} }}")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("const a: u16 = $$65536;", "value 65536 does not fit type 'u16' (0 to 65535)"),
        ("const a: i8 = $$-129;", "value -129 does not fit type 'i8'"),
        ("const a: i32 = $$1.5;", "expected type 'i32', got: 'comptime_float'"),
        ("const b: f32 = 1.0; const a: i16 = $$b;", "expected type 'i16', got: 'f32'"),
        ("const b: i32 = 70000; const a: i16 = $$b;", "expected type 'i16', got: 'i32'"),
        ("const b: f32 = 1.0; const a: f16 = $$b;", "expected type 'f16', got: 'f32'"),
        ("const b: u16 = 3; const a: bool = $$b;", "expected type 'bool', got: 'u16'"),
        (
            "var v: [3]f32; const a: [*]u16 = $$&v;",
            "expected type '[*]u16', got: '*[3]f32'",
        ),
        (
            "const v: u16 = 3; const a: *u16 = $$&v;",
            "expected type '*u16', got: '*const u16'",
        ),
        ("const a: color = $$3;", "expected type 'color', got: 'comptime_int'"),
        ("const a: $$3 = 3;", "expected a type, got a value of type 'comptime_int'"),
        (
            "const S = struct { x: u16, y: u16 }; const a: S = $$.{ .x = 1 };",
            "needs field 'y'",
        ),
        (
            "const S = struct { x: u16 }; const a: S = $$.{ .x = 1, .z = 2 };",
            "has no field 'z'",
        ),
        (
            "const S = struct { x: u16 }; const a = S{ $$.xx = 1 };",
            "has no field 'xx'",
        ),
        ("const S = struct { x: u16, y: u16 }; const a = $$S{ .x = 1 };", "no value for field 'y'"),
        ("const a = $$[3]u16 { 1, 2 };", "'[3]u16' takes 3 elements, got 2"),
        ("const a: [2]$$[2]u16 = 0;", "an array of arrays does not exist"),
        ("const a = @zeros([$$-1]u16);", "dimension -1 is negative"),
        ("const E = enum(u16) { A }; const a = E.$$B;", "has no member 'B'"),
        ("const s = .{ .x = 1 }; const a = s.$$y;", "has no field 'y'"),
        ("const s = .{ .width = 1 }; const a = s.$$widht;", "did you mean 'width'?"),
        ("const a = .{ .x = 1, $$.x = 2 };", "field 'x' is given twice"),
        ("const a = $$.{ .x = 1, 2 };", "either all fields have names or none"),
        ("const t = .{ 1, 2 }; const a = t[$$2];", "index 2 of a tuple of 2"),
        ("const v = [2]u16{ 1, 2 }; const a = v[$$2];", "index 2 is outside '[2]u16' (0 to 1)"),
        ("const v = [2]u16{ 1, 2 }; const a = $$v[0, 1];", "'[2]u16' takes 1 indices, got 2"),
        ("const v: u16 = 1; const a = $$v.*;", "'.*' needs a pointer, got 'u16'"),
        ("var v: [2]u16; const p: [*]u16 = &v; const a = $$p.*;", "use an index"),
    ],
)
def test_values_do_not_fit(source: str, text: str) -> None:
    check_error(f"{source}\ncomptime {{ _ = a; }}", text)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("@as(i16, 3.9)", "3"),
        ("@as(i16, -3.9)", "-3"),
        ("@as(u8, 300)", "44"),
        ("@as(f16, 0.1)", "0.0999755859375"),
        ("@as(f32, 0.1)", "0.10000000149011612"),
        ("@as(f16, 2049)", "2048.0"),
        ("@as(f16, @as(f32, 70000.0))", "inf"),
        ("@as(bool, 2)", "true"),
        ("@as(u16, true)", "1"),
        ("@bitcast(u32, @as(f32, 1.0))", "1065353216"),
        ("@bitcast(f16, @as(u16, 0x3c00))", "1.0"),
        ("@bitcast(u16, @as(cb16, 6.0))", "22784"),
        ("@as(u16, 65535) + @as(u16, 1)", "0"),
        ("@as(i16, 32767) + @as(i16, 1)", "-32768"),
        ("@as(i16, -1) >> 4", "-1"),
        ("@as(u16, 1) << 16", "0"),
        ("@as(f16, 2048.0) + @as(f16, 1.0)", "2048.0"),
        ("1 << 100", "1267650600228229401496703205376"),
        ("@as(f32, 1.0) / 0.0", "inf"),
        ("u16 == u16", "true"),
        ("[3]u16 == [3]i16", "false"),
        ("@type_of(.{ .a = @as(u16, 1) }) == @type_of(.{ .a = @as(u16, 2) })", "true"),
        ("struct { a: u16 } == struct { a: u16 }", "false"),
    ],
)
def test_known_arithmetic_rounds_and_wraps(expression: str, value: str) -> None:
    assert printed(f"@comptime_print({expression});") == [value]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("const a = 1 $$+ true;", "needs two values of one type"),
        ("const a = $$1 / 0;", "division by zero"),
        ("const a = @as(f32, 1.0) $$& @as(f32, 1.0);", "'&' does not apply to 'f32'"),
        ("const a = 1 $$<< 1.5;", "the count of '<<' must be an integer"),
        ("const a = $$!1;", "'!' needs a bool"),
        ("const a = true and $$1;", "'and' needs bools"),
        ("const a = $$-true;", "'-' does not apply to 'bool'"),
        ("const a = $$@bitcast(u16, @as(f32, 1.0));", "(32 bits) to 'u16' (16 bits)"),
        (
            "const a = @as(i16, -5) $$+ @as(u32, 70000);",
            "needs two values of one type, got 'i16' and 'u32'",
        ),
        ("const a = u16 $$< u16;", "'<' does not apply to 'type'"),
    ],
)
def test_wrong_arithmetic(source: str, text: str) -> None:
    check_error(f"{source}\ncomptime {{ _ = a; }}", text)


def test_a_run_time_sum_needs_one_type() -> None:
    check_right("var x: u16 = 1; var y: u16 = 2; x += y;", body=True)
    wrong = "var x: u16 = 1; var y: i16 = 2; $$x += y;"
    check_error(wrong, "needs two values of one type", body=True)


def test_structs_of_one_place_are_one_type() -> None:
    source = """
fn Pair(comptime T: type) type { return struct { a: T, b: T }; }
comptime {
  @comptime_assert(Pair(u16) == Pair(u16));
  @comptime_assert(Pair(u16) != Pair(f32));
}
"""
    check_right(source)


def test_old_structs_are_errors_in_the_new_language() -> None:
    source = "const a = $$@concat_structs(.{ .x = 1 }, .{ .y = 2 }); comptime { _ = a; }"
    check_right(source.replace("$$", ""))
    check_error(source, "no longer supported", dialect="2.10")
    check_error(
        "const a = $$@concat_structs(.{ .x = 1 }, .{ .x = 2 }); comptime { _ = a; }".replace(
            "$$", ""
        ).replace(".{ .x = 2 }", "$$.{ .x = 2 }"),
        "field 'x' is in both structs",
    )
