"""What is passed, returned, copied and kept is a value: later changes of its source do not show."""

import pytest

from tests.support.csl_runs import run

TOP = """
var g = @zeros([3]u32);
var grid = @zeros([2, 2]u32);
const S = struct { x: [2]u32, y: u32 };
const Nested = struct { s: S, k: u32 };
const Mixed = struct { a: [2]i16, b: f32 };
var s: S;
var nested: Nested;
var list: [2]S;
var mixed: Mixed;
var word: u32;
fn of_array(a: [3]u32) u32 { g[0] = 99; return a[0]; }
fn of_grid(a: [2, 2]u32) u32 { grid[1, 1] = 99; return a[1, 1]; }
fn twice(a: [3]u32) u32 { return of_array(a) * 100 + a[0]; }
fn of_two(a: [3]u32, b: [3]u32) u32 { g[0] = 98; return a[0] * 100 + b[0]; }
fn of_struct(p: S) u32 { s.x[0] = 50; s.y = 51; return p.x[0] * 10 + p.y; }
fn of_nested(p: Nested) u32 {
  nested.s.x[0] = 50; nested.s.y = 51; nested.k = 52;
  return p.s.x[0] * 100 + p.s.y * 10 + p.k;
}
fn of_list(p: [2]S) u32 { list[1].x[0] = 50; list[1].y = 51; return p[1].x[0] * 10 + p[1].y; }
fn of_mixed(p: Mixed) u32 {
  mixed.a[0] = 5; mixed.b = 2.0;
  return @as(u32, @as(i32, p.a[0]) + 5) * 10 + @as(u32, p.b * 2.0);
}
fn of_word(p: u32) u32 { word = 70; return p; }
fn of_pointer(p: *const [3]u32) u32 { g[0] = 99; return p.*[0]; }
fn own(a: [3]u32) u32 { var b = a; b[0] = 77; return a[0] * 100 + b[0]; }
fn array() [3]u32 { return g; }
fn strukt() S { return s; }
fn pointee(p: *[3]u32) [3]u32 { return p.*; }
inline fn inlined(a: [3]u32) u32 { g[0] = 99; return a[0]; }
inline fn inlined_struct(p: S) u32 { s.x[0] = 50; s.y = 51; return p.x[0] * 10 + p.y; }
fn generic(a: anytype) u32 { g[0] = 99; return a[0]; }
var through: *const fn ([3]u32) u32 = &of_array;
"""

PASSED = [
    ("out[0] = of_array(g);", 5),
    ("out[0] = of_grid(grid);", 6),
    ("out[0] = twice(g);", 505),
    ("var l = g; l[1] = 2; out[0] = of_two(g, l);", 505),
    ("out[0] = of_struct(s);", 13),
    ("out[0] = of_struct(list[1]);", 46),
    ("out[0] = of_nested(nested);", 139),
    ("out[0] = of_list(list);", 46),
    ("out[0] = of_mixed(mixed);", 43),
    ("out[0] = of_word(word);", 5),
    ("out[0] = own(g);", 577),
    ("out[0] = inlined(g);", 5),
    ("out[0] = inlined_struct(s);", 13),
    ("out[0] = generic(g);", 5),
    ("out[0] = through(g);", 5),
    ("out[0] = of_pointer(&g);", 99),
]
"""How an argument is passed; only a pointer shows what the callee does to its target."""

KEPT = [
    ("const r = array(); g[0] = 6; out[0] = r[0];", 5),
    ("const r = strukt(); s.x[0] = 60; s.y = 61; out[0] = r.x[0] * 10 + r.y;", 13),
    ("const r = pointee(&g); g[0] = 6; out[0] = r[0];", 5),
    ("const a = array(); g[0] = 6; const b = array(); out[0] = a[0] * 10 + b[0];", 56),
    ("const c = g; g[0] = 6; out[0] = c[0];", 5),
    ("const c = a: { break :a g; }; g[0] = 6; out[0] = c[0];", 5),
    ("const c = if (word == 5) g else array(); g[0] = 6; out[0] = c[0];", 5),
    ("const c = switch (word) { 5 => g, else => array() }; g[0] = 6; out[0] = c[0];", 5),
    ("const c = .{ g, word }; g[0] = 6; word = 7; out[0] = c[0][0] * 10 + c[1];", 55),
    ("const c = .{ .a = g, .b = word }; g[0] = 6; word = 7; out[0] = c.a[0] * 10 + c.b;", 55),
    ("const c = list[0]; list[0].x[0] = 9; list[0].y = 8; out[0] = c.x[0] * 10 + c.y;", 13),
    ("const p = &list[0]; const c = p.*; p.*.y = 8; out[0] = c.y * 10 + p.*.y;", 38),
    ("var a = [2]S{ s, list[1] }; s.x[0] = 9; out[0] = a[0].x[0] * 10 + a[1].y;", 16),
    ("s = S{ .x = [2]u32{ s.x[1], s.x[0] }, .y = s.y }; out[0] = s.x[0] * 10 + s.x[1];", 21),
    ("list = [2]S{ list[1], list[0] }; out[0] = list[0].y * 10 + list[1].y;", 63),
    ("g = [3]u32{ g[1] + 1, g[0], 0 }; out[0] = g[0] * 10 + g[1];", 15),
]
"""How a value is kept, and an aggregate made of parts of the variable that it goes to."""


RESET = """
fn reset() void {
  g = [3]u32{ 5, 0, 0 }; grid = [2, 2]u32{ 0, 0, 0, 6 }; word = 5;
  s = S{ .x = [2]u32{ 1, 2 }, .y = 3 };
  nested = Nested{ .s = S{ .x = [2]u32{ 1, 2 }, .y = 3 }, .k = 9 };
  list = [2]S{ S{ .x = [2]u32{ 1, 2 }, .y = 3 }, S{ .x = [2]u32{ 4, 5 }, .y = 6 } };
  mixed = Mixed{ .a = [2]i16{ -1, -2 }, .b = 1.5 };
}
"""


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_a_value_does_not_change_with_the_variable_that_it_came_from(architecture: str) -> None:
    cases = PASSED + KEPT
    bodies = [body.replace("out[0]", f"out[{at}]") for at, (body, _) in enumerate(cases)]
    text = "\n".join(f"reset(); {{ {body} }}" for body in bodies)
    words, _ = run(TOP + RESET, text, architecture=architecture)
    assert [(body, word) for (body, _), word in zip(cases, words, strict=True)] == cases
