# ruff: noqa: E501 - rows of a table
"""Types and values."""

from tests.support.csl_coverage.rows import Row

PAGE = "types"
PEERS = """
var c: bool = true; var x: i32 = 10; var s: i16 = 100; var l: i32 = 200; var h: f16 = 1.5; var q: f32 = 2.5;
var a = [3]i16{ 7, 8, 9 }; var b = [2]i16{ 5, 6 };
"""
VALUE = "const value = union { i: i16, f: f16, w: u16 };\n"
EXTERN_VALUE = VALUE.replace("union", "extern union")
WIDE = "integers of '{}' exist at compile time only"
ROWS = (
    Row(
        page=PAGE,
        says="an integer of more than 64 bits at compile time",
        top="const a: u128 = 1 << 127; const b: i100 = -(1 << 99); const s = struct { w: u128, n: u16 }; const c = s{ .w = a + 7, .n = 3 };",
        body="out[0] = @as(i32, a >> 125); out[1] = @as(i32, b >> 97); out[2] = @as(i32, c.w % 1000); out[3] = @as(i32, @as(u128, 5) - 6 == ~@as(u128, 0));",
        out=(4, -4, (2**127 + 7) % 1000, 1),
    ),
    *(
        Row(
            page=PAGE,
            says=f"no {says} of more than 64 bits at run time",
            top=top,
            body=body,
            refused=WIDE.format(name),
        )
        for says, name, top, body in (
            ("variable", "u128", "$$var a: u128 = 1;", "out[0] = @as(i32, a);"),
            ("local variable", "i65", "", "$$var a: i65 = 1; out[0] = @as(i32, a);"),
            ("array", "u100", "$$var a = @zeros([3]u100);", "out[0] = @as(i32, a[1]);"),
            (
                "struct",
                "i128",
                "const s = struct { n: u16, w: i128 }; $$var a = s{ .n = 1, .w = 2 };",
                "out[0] = a.n;",
            ),
            (
                "conversion to one",
                "u128",
                "var n: u64 = 3;",
                "const a = $$@as(u128, n); out[0] = @as(i32, a);",
            ),
        )
    ),
    Row(
        page=PAGE,
        says="the sides of a run-time 'if' meet in the wider integer",
        top=PEERS,
        body="const y = if (c) s else l; const z = if (!c) s else l; out[0] = y; out[1] = z;",
        out=(100, 200),
    ),
    Row(
        page=PAGE,
        says="the sides of a run-time 'if' meet in the wider float",
        top=PEERS,
        body="const y = if (c) h else q; out[0] = @as(i32, y * 2.0);",
        out=(3,),
    ),
    Row(
        page=PAGE,
        says="a literal adapts to the other side",
        top=PEERS,
        body="const y = if (c) 20 else x; const z = if (c) q else 3.5; out[0] = y; out[1] = @as(i32, z * 2.0);",
        out=(20, 5),
    ),
    Row(
        page=PAGE,
        says="the prongs of a run-time 'switch' meet in the wider integer",
        top=PEERS,
        body="const y = switch (s) { 0 => s, 100 => l, else => 7 }; out[0] = y;",
        out=(200,),
    ),
    Row(
        page=PAGE,
        says="values broken from a block meet in the wider integer",
        top=PEERS,
        body="const y = b: { if (c) { break :b s; } break :b l; }; const z = b: { if (!c) { break :b s; } if (x == 3) { break :b 4; } break :b l; }; out[0] = y; out[1] = z;",
        out=(100, 200),
    ),
    Row(
        page=PAGE,
        says="the sides meet whatever type is wanted around them",
        top=PEERS + "var w: u16 = 65535; var d: u16 = 2;",
        body="out[0] = @as(i32, if (c) w else d); out[1] = @as(i32, @as(u32, w + (if (c) d else 3))); const y: u32 = w + (if (!c) 1 else d); out[2] = @as(i32, y); const z: u32 = d * (switch (s) { 100 => w, else => 2 }); out[3] = @as(i32, z);",
        out=(65535, 1, 1, 65534),
    ),
    Row(
        page=PAGE,
        says="a literal that they do not hold makes them meet in what is wanted",
        top=PEERS,
        body="const y: i32 = if (c) 70000 else s; const z: i64 = if (!c) s else 5000000000; out[0] = y; out[1] = @as(i32, z / 1000000000);",
        out=(70000, 5),
    ),
    Row(
        page=PAGE,
        says="pointers to arrays of different lengths meet in a pointer to many",
        top=PEERS,
        body="const p = if (c) &a else &b; const q2 = if (!c) &a else &b; out[0] = p[2]; out[1] = q2[1];",
        out=(9, 6),
    ),
    Row(
        page=PAGE,
        says="an integer and a float do not meet",
        top=PEERS,
        body="const y = $$if (c) x else q;",
        refused="the sides have different types: 'i32' and 'f32'",
    ),
    Row(
        page=PAGE,
        says="signed and unsigned integers of one width do not meet",
        top=PEERS + "var u: u16 = 1;",
        body="const y = $$if (c) s else u;",
        refused="the sides have different types: 'i16' and 'u16'",
    ),
    Row(
        page=PAGE,
        says="a block used as a value has one on every way",
        top=PEERS,
        body="const y = $$b: { if (c) { break :b s; } };",
        refused="this block may end without a value",
    ),
    Row(
        page=PAGE,
        says="a union literal names one field",
        top=VALUE + "const k = value { .i = 57 };\nvar u: value = .{ .i = 5 };",
        body="out[0] = k.i; out[1] = u.i; u = value { .i = 9 }; out[2] = u.i; u = .{ .i = -3 }; out[3] = u.i;",
        out=(57, 5, 9, -3),
    ),
    Row(
        page=PAGE,
        says="every field of an 'extern' union reads the same bits",
        top=EXTERN_VALUE + "const one = value { .f = 1.0 };\nvar r: f16 = 1.0;",
        body="out[0] = one.w; const two = value { .f = r + r }; out[1] = two.w; out[2] = two.i;",
        out=(0x3C00, 0x4000, 0x4000),
    ),
    Row(
        page=PAGE,
        says="a field of an 'extern' union is assigned at compile time",
        top=EXTERN_VALUE
        + "fn bits(x: f16) u16 { var v = value { .i = 0 }; v.f = x; return v.w; }\nconst k = bits(1.0);",
        body="out[0] = k;",
        out=(0x3C00,),
    ),
    Row(
        page=PAGE,
        says="a union has a struct and an array among its fields",
        top="const parts = extern union { both: struct { low: u16, high: u16 }, words: [2]u16, all: u32 };\nconst k = parts { .all = 0x12345678 };\nvar v: parts = .{ .words = [2]u16{ 1, 2 } };",
        body="out[0] = k.both.high; out[1] = k.words[0]; out[2] = @as(i32, v.all);",
        out=(0x1234, 0x5678, 0x20001),
    ),
    Row(
        page=PAGE,
        says="a union in a struct in an array",
        top=VALUE
        + "const item = struct { n: i16, v: value };\nvar items = [2]item{ .{ .n = 1, .v = .{ .i = 2 } }, item { .n = 3, .v = value { .w = 4 } } };",
        body="out[0] = items[0].v.i; out[1] = items[1].v.i; out[2] = items[1].n;",
        out=(2, 4, 3),
    ),
    Row(
        page=PAGE,
        says="the active field of a union is assigned at compile time, and a whole union",
        top=VALUE
        + "fn twice(x: i16) i16 { var v = value { .i = x }; v.i = v.i * 2; const s = .{ .v = v }; v = .{ .f = 1.5 }; return s.v.i + @as(i16, v.f * 2.0); }\nconst k = twice(20);",
        body="out[0] = k; var v = value { .f = 1.0 }; out[1] = v.w;",
        out=(43, 0x3C00),
    ),
    Row(
        page=PAGE,
        says="another field of a union is not read at compile time",
        top=VALUE + "const k = value { .i = 1 };",
        body="out[0] = $$k.w;",
        refused="field 'w' of a union whose active field is 'i'",
    ),
    Row(
        page=PAGE,
        says="another field of a union is not read by its name",
        top=VALUE + "const k = [2]value{ value { .i = 1 }, value { .w = 2 } };",
        body='out[0] = @field(k[0], "i"); out[1] = $$@field(k[1], "i");',
        refused="field 'i' of a union whose active field is 'w'",
    ),
    Row(
        page=PAGE,
        says="another field of a union is not assigned at compile time",
        top=VALUE
        + "fn bits(x: f16) u16 { var v = value { .i = 0 }; $$v.f = x; return 1; }\nconst k = bits(1.0);",
        body="out[0] = k;",
        refused="field 'f' of a union whose active field is 'i'",
    ),
    Row(
        page=PAGE,
        says="a union is made of one field",
        top=VALUE + "const k = $$value { .i = 1, .w = 2 };",
        body="out[0] = k.i;",
        refused="a union is made of one field, got 2",
    ),
    Row(
        page=PAGE,
        says="a union takes a struct of one field",
        top=VALUE + "var u: value = $$.{ .i = 1, .w = 2 };",
        body="out[0] = u.i;",
        refused="a union is made of one field, got 2",
    ),
    Row(
        page=PAGE,
        says="a union has no other field",
        top=VALUE + "var u: value = $$.{ .z = 1 };",
        body="out[0] = u.i;",
        refused="has no field 'z'",
    ),
    Row(
        page=PAGE,
        says="an 'extern' struct or union is laid out like any other",
        top="const s = extern struct { a: i16, b: i32 }; const w = extern union { a: i32, b: i16 };\nvar v: s = .{ .a = 1, .b = 2 }; var u: w = .{ .a = 3 };",
        body="out[0] = v.a + v.b; out[1] = u.b;",
        out=(3, 3),
    ),
    Row(
        page=PAGE,
        says="a packed struct comes after 'packed', nothing else does",
        top="const s = $$packed enum { A };",
        body="const x = s.A;",
        refused="expected 'struct' or 'union' after 'packed'",
    ),
)
COMPTIME = (
    Row(
        page="comptime",
        says="an array holds structs of different types",
        top="const ps = [2]comptime_struct{ .{ .a = 1 }, .{ .b = 5, .c = .{ .d = 6 } } };",
        body="out[0] = ps[0].a; out[1] = ps[1].b; out[2] = ps[1].c.d;",
        out=(1, 5, 6),
    ),
    Row(
        page="comptime",
        says="an element of such an array is joined with another struct",
        top="const ps = [2]comptime_struct{ .{ .a = 1 }, .{ .a = 2 } };\nconst z = @concat_structs(ps[1], .{ .b = 3 });",
        body="out[0] = z.a; out[1] = z.b;",
        out=(2, 3),
    ),
    Row(
        page="comptime",
        says="such an array is made by '@constants', changed, and passed on",
        top="fn made() [2]comptime_struct { var r = @constants([2]comptime_struct, .{ .a = 1 }); r[1] = .{ .b = 4 }; r[0].a = 3; return r; }\nfn second(xs: [2]comptime_struct) i32 { return xs[1].b; }\nconst k = made();",
        body="out[0] = k[0].a; out[1] = comptime second(k);",
        out=(3, 4),
    ),
    Row(
        page="comptime",
        says="a loop goes over such an array",
        top="const ps = [3]comptime_struct{ .{ .a = 1 }, .{ .a = 2 }, .{ .a = 4 } };\nfn sum() i32 { var s: i32 = 0; for (ps) |p| { s += p.a; } return s; }\nconst k = sum();",
        body="out[0] = k;",
        out=(7,),
    ),
    Row(
        page="comptime",
        says="a field of an element that it lacks is an error",
        top="const ps = [2]comptime_struct{ .{ .a = 1 }, .{ .b = 5 } };",
        body="out[0] = ps[0].$$b;",
        refused="has no field 'b'",
    ),
)
