# ruff: noqa: E501 - rows of a table
"""A value is a copy: what a variable holds later does not change it."""

from tests.support.csl_coverage.rows import Row

_TOP = """
const V = struct { x: i32, y: i16, a: [2]i16 };
const U = union { w: u32, i: i32 };
const N = struct { v: V, k: i16 };
var vs = [2]V{ .{ .x = 1, .y = 2, .a = .{ 3, 4 } }, .{ .x = 10, .y = 20, .a = .{ 30, 40 } } };
var n = N{ .v = .{ .x = 5, .y = 6, .a = .{ 7, 8 } }, .k = 9 };
var r = [3]i32{ 1, 2, 3 };
var m = [2, 2]i16{ 1, 2, 3, 4 };
var u: U = .{ .w = 5 };
var c: bool = true;
var one: u16 = 1;
fn spoil() void { vs[0].x = 90; vs[0].y = 91; vs[0].a[1] = 92; n.v.x = 93; n.v.a[0] = 94; n.k = 95; r[1] = 96; m[1, 1] = 97; u.w = 98; vs[1].x = 99; }
inline fn after(v: V) i32 { spoil(); return v.x + v.a[1]; }
fn taken(v: V) i32 { vs[0].x = 70; return v.x; }
"""


def _row(says: str, body: str, *out: int) -> Row:
    return Row(page="copies", says=says, top=_TOP, body=body, out=out)


ROWS = (
    _row(
        "of an element",
        "const w = vs[0]; spoil(); out[0] = w.x; out[1] = w.y; out[2] = w.a[1];",
        1,
        2,
        4,
    ),
    _row(
        "of an element by a run-time index",
        "const w = vs[one]; spoil(); out[0] = w.x; out[1] = w.a[0];",
        10,
        30,
    ),
    _row(
        "of a variable",
        "const w = n; spoil(); out[0] = w.v.x; out[1] = w.v.a[0]; out[2] = w.k;",
        5,
        7,
        9,
    ),
    _row("of a field", "const w = n.v; spoil(); out[0] = w.x; out[1] = w.a[0];", 5, 7),
    _row("of an array", "const w = r; spoil(); out[0] = w[1]; out[1] = w[one];", 2, 2),
    _row("of an array of two dimensions", "const w = m; spoil(); out[0] = w[1, one];", 4),
    _row("of an array field", "const w = vs[0].a; spoil(); out[0] = w[1];", 4),
    _row("of a union", "const w = u; spoil(); out[0] = w.i;", 5),
    _row(
        "of what a pointer names",
        "const p = &vs[0]; const w = p.*; spoil(); out[0] = w.x; out[1] = w.a[1];",
        1,
        4,
    ),
    _row(
        "of a local variable",
        "var l = vs[1]; const w = l; l.x = 60; l.a[1] = 61; const q = &l; q.*.y = 62; out[0] = w.x; out[1] = w.a[1]; out[2] = w.y; out[3] = l.y;",
        10,
        40,
        20,
        62,
    ),
    _row(
        "in a swap",
        "const t = vs[0]; vs[0] = vs[1]; vs[1] = t; out[0] = vs[0].x; out[1] = vs[0].a[1]; out[2] = vs[1].x; out[3] = vs[1].a[1];",
        10,
        40,
        1,
        4,
    ),
    _row(
        "in a struct",
        "const w = .{ .v = vs[0], .r = r }; spoil(); out[0] = w.v.x; out[1] = w.r[1];",
        1,
        2,
    ),
    _row(
        "of a conditional",
        "const w = if (c) vs[0] else vs[1]; spoil(); out[0] = w.x; out[1] = w.a[1];",
        1,
        4,
    ),
    _row(
        "of a block",
        "const w = k: { break :k vs[0]; }; spoil(); out[0] = w.x; out[1] = w.a[1];",
        1,
        4,
    ),
    _row("as an argument of an inline function", "out[0] = after(vs[0]);", 5),
    _row("as an argument", "out[0] = taken(vs[0]); out[1] = vs[0].x;", 1, 70),
    _row(
        "as the item of a loop",
        "for (vs) |v| { vs[1].x = 50; vs[0].x = 51; out[0] += v.x; out[1] += v.a[0]; }",
        51,
        33,
    ),
)
