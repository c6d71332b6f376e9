# ruff: noqa: E501 - rows of a table
"""DSDs, DSRs, and the operations on them."""

from tests.support.csl_coverage.rows import Row

PAGE = "dsds"
ARRAYS = """
var A = [20]i16{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19}; var W = @zeros([25]i16); var F = @zeros([4]f32); var U = [4]u16{ 10, 20, 30, 40 };
const w = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{25} -> W[i] });
const u = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> U[i] });
var pick: bool = true; var base: u16 = 3;
"""
READ = "@mov16(w, d); out[0] = W[0]; out[1] = W[1]; out[2] = W[4]; out[3] = W[5]; out[4] = W[24];"
ROWS = (
    Row(
        page=PAGE,
        says="a mem4d_dsd of extents and strides, the innermost first",
        top=ARRAYS
        + "const d = @get_dsd(mem4d_dsd, .{ .base_address = &A, .extent = .{5, 5}, .stride = .{1, -2} });",
        body=READ,
        out=(0, 1, 4, 2, 12),
    ),
    Row(
        page=PAGE,
        says="the same walk as a tensor access",
        top=ARRAYS
        + "const d = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{5, 5} -> A[2 * i + j] });",
        body=READ,
        out=(0, 1, 4, 2, 12),
    ),
    Row(
        page=PAGE,
        says="three dimensions of extents and strides",
        top=ARRAYS
        + "const d = @get_dsd(mem4d_dsd, .{ .base_address = &A, .extent = .{2, 3, 2}, .stride = .{1, 1, 3} });",
        body="@mov16(@set_dsd_length(w, 12), d); out[0] = W[1]; out[1] = W[2]; out[2] = W[5]; out[3] = W[6]; out[4] = W[11];",
        out=(1, 2, 5, 8, 13),
    ),
    Row(
        page=PAGE,
        says="extents and strides with an offset",
        top=ARRAYS
        + "const d = @get_dsd(mem4d_dsd, .{ .base_address = &A, .offset = 4, .extent = .{2, 2}, .stride = .{1, 4} });",
        body="@mov16(@set_dsd_length(w, 4), d); out[0] = W[0]; out[1] = W[1]; out[2] = W[2]; out[3] = W[3];",
        out=(4, 5, 9, 10),
    ),
    Row(
        page=PAGE,
        says="one dimension as a tuple of one",
        top=ARRAYS
        + "const d = @get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = .{4}, .stride = .{2} });",
        body="@mov16(@set_dsd_length(w, 4), d); out[0] = W[1]; out[1] = W[3];",
        out=(2, 6),
    ),
    Row(
        page=PAGE,
        says="as many strides as extents",
        top=ARRAYS
        + "const d = @get_dsd(mem4d_dsd, $$.{ .base_address = &A, .extent = .{2, 2}, .stride = .{1} });",
        body="@mov16(w, d);",
        refused="2 extents and 1 strides do not match",
    ),
    Row(
        page=PAGE,
        says="the extents of several dimensions are known",
        top=ARRAYS,
        body="const d = @get_dsd(mem4d_dsd, $$.{ .base_address = &A, .extent = .{2, base}, .stride = .{1, 1} }); @mov16(w, d);",
        refused="known at compile time",
    ),
    Row(
        page=PAGE,
        says="a tensor access is a value",
        top=ARRAYS
        + "const t1 = |i|{4} -> A[2 * i + 1]; const t2 = |i, j|{2, 3} -> A[6 * i + 2 * j];\nconst d = @get_dsd(mem1d_dsd, .{ .tensor_access = t1 }); const e = @get_dsd(mem4d_dsd, .{ .tensor_access = t2 }); const f = @get_dsd(mem1d_dsd, t1);",
        body="@mov16(w, d); out[0] = W[0]; out[1] = W[3]; @mov16(w, e); out[2] = W[2]; out[3] = W[3]; out[4] = W[5]; @mov16(w, f); out[5] = W[1];",
        out=(1, 7, 4, 6, 10, 3),
    ),
    Row(
        page=PAGE,
        says="a tensor access is passed to a function and a module",
        top=ARRAYS
        + 'fn made(t: anytype) mem1d_dsd { return @get_dsd(mem1d_dsd, .{ .tensor_access = t }); }\nconst m = @import_module("m.csl", .{ .access = |i|{2} -> A[i + 7] });\nconst d = made(|i|{4} -> A[3 * i]);',
        body="@mov16(w, d); out[0] = W[1]; @mov16(w, m.dsd); out[1] = W[0]; out[2] = m.length;",
        out=(3, 7, 2),
        files={
            "m.csl": "param access; const dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = access }); const length = access.extent[0];"
        },
    ),
    Row(
        page=PAGE,
        says="a tensor access has the properties that it stands for",
        top=ARRAYS + "const t = |i|{4} -> A[2 * i + 1];",
        body="out[0] = t.extent[0]; out[1] = t.stride[0]; out[2] = t.offset;",
        out=(4, 2, 1),
    ),
    Row(
        page=PAGE,
        says="a tensor access as a value gives the extent already",
        top=ARRAYS
        + "const t = |i|{4} -> A[i]; const d = @get_dsd(mem1d_dsd, $$.{ .tensor_access = t, .extent = 2 });",
        body="@mov16(w, d);",
        refused="'.tensor_access' gives '.extent' already",
    ),
    Row(
        page=PAGE,
        says="the wraparound of a circbuf_dsd is the length of its array",
        top=ARRAYS
        + "const d = @get_dsd(circbuf_dsd, .{ .base_address = &U, .extent = 6 });\nconst src = @get_dsr(dsr_src1, 1); const x = @get_xdsr(3);\ncomptime { @load_to_dsr_xdsr(src, x, d); }",
        body="@mov16(@set_dsd_length(w, 6), src); out[0] = W[3]; out[1] = W[4]; out[2] = W[5];",
        out=(40, 10, 20),
    ),
    Row(
        page=PAGE,
        says="a pointer to many does not say it",
        top=ARRAYS
        + "const p: [*]u16 = &U; const d = $$@get_dsd(circbuf_dsd, .{ .base_address = p, .extent = 6 });",
        body="const t = @type_of(d);",
        refused="'.wraparound' is not known",
    ),
    Row(
        page=PAGE,
        says="a fabin_dsd whose queue has the color takes a run-time color",
        top=ARRAYS
        + "var c: color = @get_color(3); const q = @get_input_queue(2);\ncomptime { @initialize_queue(q, .{ .color = @get_color(3) }); }",
        body="const d = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = c, .input_queue = q }); out[0] = 1; if (!pick) { @mov16(w, d); }",
        out=(1,),
    ),
    Row(
        page="builtins",
        says="a negative literal is an operand of 16 bits",
        top=ARRAYS,
        body="@add16(u, u, -1); out[0] = U[0]; @mov16(u, -2); out[1] = @bitcast(i16, U[3]); @sub16(u, u, -3); out[2] = U[1];",
        out=(9, -2, 1),
    ),
    Row(
        page="builtins",
        says="a narrow signed number is an operand of 16 and 32 bits",
        top=ARRAYS
        + "var n: i8 = 0; var s: i16 = -5; var L = @zeros([2]i32); const l = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> L[i] });",
        body="n = -2; @add16(u, u, n); out[0] = U[0]; @mov32(l, s); out[1] = L[1];",
        out=(8, -5),
    ),
    Row(
        page="builtins",
        says="a number of more than 16 bits is no operand of 16 bits",
        top=ARRAYS,
        body="@add16(u, u, $$70000);",
        refused="value 70000 does not fit type 'u16'",
    ),
    Row(
        page="builtins",
        says="'@fs2xp16' and '@fh2xp16' take a pointer and a number",
        top="var a: i16 = 0; var b: i16 = 0; var f: f32 = 7.0; var h: f16 = -4.0;",
        body="@fs2xp16(&a, f); @fh2xp16(&b, h); out[0] = a; out[1] = b; @fs2xp16(&a, -300.0); out[2] = a;",
        out=(7, -4, -300),
    ),
    Row(
        page="builtins",
        says="other conversions need a DSD",
        top="var f: f32 = 0.0; var h: f16 = -4.0;",
        body="@fh2s($$&f, h);",
        refused="the destination of '@fh2s' is a DSD, not a pointer",
    ),
    Row(
        page="builtins",
        says="a move needs a DSD",
        top="var i: i16 = 0;",
        body="$$@mov16(&i, 3);",
        refused="'@mov16' needs a DSD among its operands",
    ),
    Row(
        page="builtins",
        says="'@map' without inputs fills its output",
        top=ARRAYS + "var n: u16 = 5; fn next() u16 { n += 1; return n; }",
        body="@map(next, u); out[0] = U[0]; out[1] = U[3]; out[2] = n;",
        out=(6, 9, 9),
    ),
    Row(
        page="builtins",
        says="'@map' with inputs that are no DSDs fills its output",
        top=ARRAYS + "fn plus(a: u16, b: u16) u16 { return a + b; }",
        body="@map(plus, base, 4, u); out[0] = U[0]; out[1] = U[3];",
        out=(7, 7),
    ),
    Row(
        page="builtins",
        says="'@map' ends with a DSD",
        top=ARRAYS + "var n: u16 = 0; fn next() u16 { return 1; }",
        body="$$@map(next, &n);",
        refused="'@map' needs a DSD or DSR among its operands",
    ),
    Row(
        page="builtins",
        says="an 'if', a 'switch' and a block choose the DSDs and pointers of an operation",
        top=ARRAYS
        + "var B = [4]u16{ 1, 2, 3, 4 }; const b = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> B[i] }); var x: i16 = 0; var y: i16 = 5; fn twice(v: u16, by: u16) u16 { return v * by; }",
        body="@mov16(b, if (pick) u else b); out[0] = B[3]; @add16(if (pick) u else b, switch (base) { 3 => b, else => u }, if (pick) 1 else 2); out[1] = U[0]; @mov16(b, blk: { if (pick) break :blk u; break :blk b; }); out[2] = B[1]; @mov16(if (pick) &y else &x, u); out[3] = y; @map(twice, if (pick) b else u, if (pick) 3 else base, b); out[4] = B[0];",
        out=(40, 11, 21, 41, 33),
    ),
    Row(
        page="builtins",
        says="the sides of an operand are DSDs or numbers",
        top=ARRAYS,
        body="@mov16(w, if (pick) $$u else 1);",
        refused="expected type 'u16', got: 'mem1d_dsd'",
    ),
)
