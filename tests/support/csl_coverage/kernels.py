# ruff: noqa: E501 - rows of a table
"""Programs as users write them: modules of generic functions, structs, states, arithmetic."""

from tests.support.csl_coverage.rows import Row

MODULES = {
    "lib/bits.csl": r"""
// bit tricks, generic over width
fn width_of(comptime t: type) u16 {
  if (t == u8 or t == i8) return 8;
  if (t == u16 or t == i16) return 16;
  return if (t == u32 or t == i32) 32 else if (t == u64 or t == i64) 64 else 0;
}
fn floor_log2(comptime t: type, x: t) u16 {
  @comptime_assert(width_of(t) > 0, "no integer");
  var n: u16 = 0; var y: t = x;
  while (y > 1) { y >>= 1; n += 1; }
  return n;
}
fn trailing_ones(x: anytype) u16 {
  var y = x; var n: u16 = 0;
  while ((y & 1) == 1) : (y = y >> 1) { n += 1; }
  return n;
}
fn rotl(comptime t: type, x: t, k: u16) t {
  const w = width_of(t);
  return (x << k) | (x >> (w - k));
}
fn reverse(x: u32) u32 {
  var v = x;
  v = ((v >> 1) & 0x55555555) | ((v & 0x55555555) << 1);
  v = ((v >> 2) & 0x33333333) | ((v & 0x33333333) << 2);
  v = ((v >> 4) & 0x0F0F0F0F) | ((v & 0x0F0F0F0F) << 4);
  v = ((v >> 8) & 0x00FF00FF) | ((v & 0x00FF00FF) << 8);
  return (v >> 16) | (v << 16);
}
""",
    "lib/ring.csl": r"""
param T: type;
param capacity: u16;
const Slot = struct { value: T, stamp: u32, used: bool };
var slots = @zeros([capacity]Slot);
var head: u16 = 0;
var size: u16 = 0;
var clock: u32 = 0;
fn push(v: T) bool {
  if (size == capacity) return false;
  const at = (head + size) % capacity;
  slots[at] = Slot{ .value = v, .stamp = clock, .used = true };
  clock += 1; size += 1;
  return true;
}
fn pop(into: *T) bool {
  if (size == 0) { return false; }
  into.* = slots[head].value;
  slots[head].used = false;
  head = if (head + 1 == capacity) 0 else head + 1;
  size -= 1;
  return true;
}
fn peek() Slot { return slots[head]; }
fn for_each(f: fn (T, u32) void) void {
  for (@range(u16, size)) |i| { const s = &slots[(head + i) % capacity]; f(s.*.value, s.*.stamp); }
}
""",
    "lib/sort.csl": r"""
fn less(a: anytype, b: anytype) bool { return a < b; }
fn insertion(comptime n: u16, p: anytype) void {
  var i: u16 = 1;
  while (i < n) : (i += 1) {
    const x = p.*[i]; var j: i16 = @as(i16, i) - 1;
    while (j >= 0 and less(x, p.*[j])) : (j -= 1) { p.*[j + 1] = p.*[j]; }
    p.*[j + 1] = x;
  }
}
fn count_if(comptime n: u16, p: anytype, comptime pred: anytype) u16 { var c: u16 = 0; for (@range(u16, n)) |i| { if (pred(p.*[i])) c += 1; } return c; }
""",
}
PAGE = "kernels"
ROWS = (
    Row(
        page=PAGE,
        says="bit tricks generic over the width",
        files=MODULES,
        top='const b = @import_module("lib/bits.csl"); var x: u16 = 0x1234; var y: u64 = 1 << 40; var z: u32 = 0x80000001;',
        body="out[0] = @as(i32, b.floor_log2(u16, x)); out[1] = @as(i32, b.floor_log2(u64, y)); out[2] = @as(i32, b.trailing_ones(@as(u8, 0x0f))); out[3] = @as(i32, b.rotl(u16, x, 4)); out[4] = @bitcast(i32, b.rotl(u32, z, 1)); out[5] = @bitcast(i32, b.reverse(z) ^ 1); out[6] = @as(i32, b.rotl(u64, y, 30) ); out[7] = @as(i32, comptime b.floor_log2(u32, 1000));",
        out=(12, 40, 4, 0x2341, 3, -2147483648, 64, 9),
    ),
    Row(
        page=PAGE,
        says="a generic ring of structs with callbacks",
        files=MODULES,
        top='const r = @import_module("lib/ring.csl", .{ .T = i16, .capacity = 3 }); const q = @import_module("lib/ring.csl", .{ .T = f32, .capacity = 2 }); var got: i16 = 0; var n: i32 = 0; fn add(v: i16, s: u32) void { n += @as(i32, v) * (@as(i32, s) + 1); } fn addf(v: f32, s: u32) void { n += @as(i32, v); }',
        body="for (@range(i16, 5)) |i| { if (!r.push(i + 10)) out[0] += 1; } _ = r.pop(&got); out[1] = got; _ = r.push(20); r.for_each(add); out[2] = n; out[3] = r.peek().value; _ = q.push(2.5); _ = q.push(4.0); n = 0; q.for_each(addf); out[4] = n; out[5] = @as(i32, r.clock); out[6] = @as(i32, r.slots[0].stamp);",
        out=(2, 10, 11 * 2 + 12 * 3 + 20 * 4, 11, 6, 4, 3),
    ),
    Row(
        page=PAGE,
        says="sorting through pointers of any element",
        files=MODULES,
        top='const s = @import_module("lib/sort.csl"); var a = [6]i16{ 5, -3, 9, 0, 2, 2 }; var f = [3]f32{ 2.5, -1.0, 0.5 }; fn pos(x: i16) bool { return x > 0; }',
        body="s.insertion(6, &a); s.insertion(3, &f); for (a) |v, i| { out[i] = v; } out[6] = @as(i32, f[2] * 2.0); out[7] = @as(i32, s.count_if(6, &a, pos));",
        out=(-3, 0, 2, 2, 5, 9, 5, 4),
    ),
    Row(
        page=PAGE,
        says="an assignment to '_'",
        body="const k: i32 = 1; _ = k + 1; out[0] = k;",
        out=(1,),
    ),
    Row(
        page=PAGE,
        says="64-bit arithmetic, signed and unsigned",
        top="var a: u64 = 0xffffffff; var b: i64 = -5; var c: u64 = 10; var d: i32 = -3; var f: f32 = 3.0e9;",
        body="const m = a * a; out[0] = @as(i32, m >> 33); out[1] = @as(i32, b / 2); out[2] = @as(i32, b % 3); out[3] = @as(i32, m % c); const e: i64 = d; out[4] = @as(i32, e * 1000000000 / 1000); out[5] = @as(i32, @as(u64, f) / 1000); out[6] = @as(i32, @as(f32, m / 0xffffffff) == 4294967296.0); if (b < 0 and a > c) out[7] = 1;",
        out=(2147483647, -2, -2, 5, -3000000, 3000000, 1, 1),
    ),
    Row(
        page=PAGE,
        says="bools in arrays, structs and arithmetic",
        top="var flags = @constants([5]bool, false); const s = struct { a: bool, b: u8, c: bool }; var v = s{ .a = true, .b = 200, .c = false };",
        body="for (@range(u16, 5)) |i| { flags[i] = i % 2 == 0; } var n: i32 = 0; for (flags) |f| { if (f) n += 1; } out[0] = n; v.c = !v.a or flags[2]; out[1] = @as(i32, v.c); v.b += 100; out[2] = @as(i32, v.b); out[3] = @as(i32, v.a == v.c); out[4] = @as(i32, (flags[0] and !flags[1]) != flags[3]);",
        out=(3, 1, 44, 1, 1),
    ),
    Row(
        page=PAGE,
        says="arrays of structs by pointer",
        top="const body = struct { p: [3]f32, m: f32, id: u16 }; var bs = @zeros([3]body); fn kick(b: *body, d: [3]f32) void { for (@range(u16, 3)) |k| { b.*.p[k] += d[k] * b.*.m; } } fn heaviest(a: *[3]body) *body { var best: u16 = 0; for (@range(u16, 3)) |i| { if (a.*[i].m > a.*[best].m) best = i; } return &a.*[best]; }",
        body="for (@range(u16, 3)) |i| { bs[i].m = @as(f32, (i * 2) % 3); bs[i].id = i + 7; } const h = heaviest(&bs); out[0] = @as(i32, h.*.id); kick(h, [3]f32{ 1.0, 2.0, 3.0 }); out[1] = @as(i32, bs[1].p[2]); const c = h.*; h.*.id = 1; out[2] = @as(i32, c.id); out[3] = @as(i32, bs[1].id);",
        out=(8, 6, 8, 1),
    ),
    Row(
        page=PAGE,
        says="a state machine over an enum with a switch in a loop",
        top="const st = enum(u8) { idle, run, halt }; var s: st = st.idle; var steps: u16 = 0; fn next(x: st) st { return switch (x) { st.idle => st.run, st.run => if (steps > 5) st.halt else st.run, st.halt => st.halt }; }",
        body="while (s != st.halt) : (s = next(s)) { steps += 1; } out[0] = @as(i32, steps); out[1] = @as(i32, @get_int(s));",
        out=(6, 2),
    ),
    Row(
        page=PAGE,
        says="a hash of a string known at compile time",
        top='fn fnv(comptime s: comptime_string) u32 { var h: u32 = 2166136261; const a = @get_array(s); for (a) |c| { h = (h ^ @as(u32, c)) * 16777619; } return h; } const h = fnv("csl");',
        body="out[0] = @bitcast(i32, h);",
        out=(306663245,),
    ),
    Row(
        page=PAGE,
        says="matrices passed by pointer with known sizes",
        top="fn matmul(comptime n: u16, comptime m: u16, comptime k: u16, a: *const [n, k]f32, b: *const [k, m]f32, c: *[n, m]f32) void { for (@range(u16, n)) |i| { for (@range(u16, m)) |j| { var s: f32 = 0.0; for (@range(u16, k)) |l| { s += a.*[i, l] * b.*[l, j]; } c.*[i, j] = s; } } } var a = [2,3]f32{ 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 }; const b = [3,2]f32{ 1.0, 0.0, 0.0, 1.0, 1.0, 1.0 }; var c = @zeros([2,2]f32);",
        body="matmul(2, 2, 3, &a, &b, &c); out[0] = @as(i32, c[0, 0]); out[1] = @as(i32, c[0, 1]); out[2] = @as(i32, c[1, 0]); out[3] = @as(i32, c[1, 1]);",
        out=(4, 5, 10, 11),
    ),
    Row(
        page=PAGE,
        says="negative numbers, casts and shifts as a fixed-point program has them",
        top="var q: i16 = -384; fn mulq(a: i16, b: i16) i16 { return @as(i16, (@as(i32, a) * @as(i32, b)) >> 8); } fn tof(a: i16) f32 { return @as(f32, a) / 256.0; }",
        body="out[0] = mulq(q, 512); out[1] = @as(i32, tof(q) * 100.0); out[2] = @as(i32, @as(u16, q)); out[3] = @as(i32, @as(u32, q) >> 28); out[4] = -q >> 1; out[5] = @as(i32, @as(i8, q));",
        out=(-768, -150, 65536 - 384, 15, 192, -128),
    ),
    Row(
        page=PAGE,
        says="f16 and f32 in one expression by conversions",
        top="var h: f16 = 0.1; var s: f32 = 0.1; var big: f32 = 70000.0;",
        body="out[0] = @as(i32, @as(f32, h) == s); out[1] = @as(i32, (@as(f32, h) - s) * 1.0e8); out[2] = @as(i32, @bitcast(u16, @as(f16, big))); out[3] = @as(i32, h * 100.0 + 0.5); const m: f16 = @as(f16, s); out[4] = @as(i32, m == h);",
        out=(0, -2441, 0x7C00, 10, 1),
    ),
    Row(
        page=PAGE,
        says="libraries together: math, random, time",
        top='const math = @import_module("<math>"); const rnd = @import_module("<random>"); const time = @import_module("<time>"); var t = @zeros([3]u16); var e = @zeros([3]u16);',
        body="time.enable_tsc(); time.get_timestamp(&t); var s: f32 = 0.0; for (@range(u16, 10)) |i| { const r = rnd.random_f32(0.0, 1.0); if (r < 0.0 or r >= 1.0) out[0] = 1; s += r; } time.get_timestamp(&e); if (e[0] > t[0]) out[1] = 1; out[2] = @as(i32, math.sqrt(@as(f32, 49.0)) + 0.5); out[3] = @as(i32, math.max(@as(i16, -3), 4)); out[4] = math.abs(@as(i32, -8)); out[5] = @as(i32, math.ceil_f32(1.2)) + @as(i32, math.floor(@as(f32, -1.2))); out[6] = @as(i32, math.pow(@as(f32, 2.0), 10.0) + 0.5); out[7] = math.sign(@as(i16, -9));",
        out=(0, 1, 7, 4, 8, 0, 1024, -1),
    ),
)
