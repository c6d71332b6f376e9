/* DSD operations: what one element gives, and whole operations over memory. */
#ifndef FABRIC_VECTOR_H
#define FABRIC_VECTOR_H

#include "trace.h"

typedef struct Widths {
    u8 dest, a, b, sources; /* bytes of an element; sources: 1, 2, or 3 with the scalar factor */
} Widths;

static const Widths WIDTHS[NUM_VECTOR_OPS] = {
    [V_mov16] = {2, 2, 2, 1},   [V_mov32] = {4, 4, 4, 1},   [V_fmovh] = {2, 2, 2, 1},
    [V_fmovs] = {4, 4, 4, 1},   [V_add16] = {2, 2, 2, 2},   [V_addc16] = {2, 2, 2, 2},
    [V_sub16] = {2, 2, 2, 2},   [V_and16] = {2, 2, 2, 2},   [V_or16] = {2, 2, 2, 2},
    [V_xor16] = {2, 2, 2, 2},   [V_sll16] = {2, 2, 2, 2},   [V_slr16] = {2, 2, 2, 2},
    [V_sar16] = {2, 2, 2, 2},   [V_faddh] = {2, 2, 2, 2},   [V_fadds] = {4, 4, 4, 2},
    [V_faddhs] = {4, 2, 4, 2},  [V_faddsh] = {4, 4, 2, 2},
    [V_fsubh] = {2, 2, 2, 2},   [V_fsubs] = {4, 4, 4, 2},
    [V_fmulh] = {2, 2, 2, 2},   [V_fmuls] = {4, 4, 4, 2},   [V_fmaxh] = {2, 2, 2, 2},
    [V_fmaxs] = {4, 4, 4, 2},   [V_fmach] = {2, 2, 2, 3},   [V_fmacs] = {4, 4, 4, 3},
    [V_fmachs] = {4, 4, 2, 3},  [V_fnegh] = {2, 2, 2, 1},   [V_fnegs] = {4, 4, 4, 1},
    [V_fabsh] = {2, 2, 2, 1},   [V_fabss] = {4, 4, 4, 1},   [V_clz] = {2, 2, 2, 1},
    [V_ctz] = {2, 2, 2, 1},     [V_popcnt] = {2, 2, 2, 1},  [V_fh2s] = {4, 2, 2, 1},
    [V_fs2h] = {2, 4, 4, 1},    [V_fh2xp16] = {2, 2, 2, 1}, [V_fs2xp16] = {2, 4, 4, 1},
    [V_xp162fh] = {2, 2, 2, 1}, [V_xp162fs] = {4, 2, 2, 1}, [V_fnormh] = {2, 2, 2, 1},
    [V_fnorms] = {4, 4, 4, 1},  [V_fscaleh] = {2, 2, 2, 2}, [V_fscales] = {4, 4, 2, 2},
    [V_dfilt] = {4, 4, 4, 1},
};

INLINE f64 power_of_two(int n) {
    if (n > 1023) n = 1023;
    if (n < -1022) return n < -1074 ? 0.0 : as_f64(1ull << (n + 1074));
    return as_f64((u64)(n + 1023) << 52);
}

/* x * 2^n, rounded once to the result's type by the caller: in doubles it is exact unless huge. */
static f64 scaled(f64 x, int n) {
    while (n > 1000) { x *= power_of_two(1000); n -= 1000; }
    while (n < -1000) { x *= power_of_two(-1000); n += 1000; }
    return x * power_of_two(n);
}

/* The significand of a number, with its sign, in [1, 2). */
static f64 normalised(f64 x) {
    u64 bits = bits_f64(x);
    const int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff || x == 0) return x;
    if (exponent == 0) { x *= power_of_two(60); bits = bits_f64(x); }
    return as_f64((bits & 0x800fffffffffffffull) | 1023ull << 52);
}

INLINE f64 larger(f64 a, f64 b) { return a > b || b != b ? a : b; }
INLINE u32 h(f64 x, int format) { return narrow16(x, format); }
INLINE f64 w(u32 x, int format) { return widen16(x, format); }
INLINE u32 s(f32 x) { return (u32)of_f32(x); }
INLINE f32 f(u32 x) { return as_f32(x); }

/* One element. With a constant `op` the compiler keeps one case. */
INLINE u32 compute(int op, u32 a, u32 b, u32 x, int format, u8 *carry) {
    const u32 la = a & 0xffff, lb = b & 0xffff;
    switch (op) {
    case V_mov16: case V_fmovh: return la;
    case V_mov32: case V_fmovs: return a;
    case V_add16: { const u32 sum = la + lb; *carry = (u8)(sum >> 16); return sum & 0xffff; }
    case V_addc16: { const u32 sum = la + lb + *carry; *carry = (u8)(sum >> 16); return sum & 0xffff; }
    case V_sub16: return (la - lb) & 0xffff;
    case V_and16: return la & lb;
    case V_or16: return la | lb;
    case V_xor16: return la ^ lb;
    case V_sll16: return lb > 15 ? 0 : la << lb & 0xffff;
    case V_slr16: return lb > 15 ? 0 : la >> lb;
    case V_sar16: return (u32)((i32)(i16)la >> (lb > 15 ? 15 : lb)) & 0xffff;
    case V_faddh: return h(w(la, format) + w(lb, format), format);
    case V_fsubh: return h(w(la, format) - w(lb, format), format);
    case V_fmulh: return h(w(la, format) * w(lb, format), format);
    case V_fmaxh: return h(larger(w(la, format), w(lb, format)), format);
    case V_fadds: return s(f(a) + f(b));
    case V_faddhs: return s((f32)w(la, format) + f(b));
    case V_faddsh: return s(f(a) + (f32)w(lb, format));
    case V_fsubs: return s(f(a) - f(b));
    case V_fmuls: return s(f(a) * f(b));
    case V_fmaxs: return s((f32)larger(f(a), f(b)));
    case V_fmach: return fused16(w(lb, format), w(x & 0xffff, format), w(la, format), format);
    case V_fmacs: return s(__builtin_fmaf(f(b), f(x), f(a)));
    case V_fmachs: return s(__builtin_fmaf((f32)w(lb, format), (f32)w(x & 0xffff, format), f(a)));
    case V_fnegh: return la ^ 0x8000;
    case V_fnegs: return a ^ 0x80000000;
    case V_fabsh: return la & 0x7fff;
    case V_fabss: return a & 0x7fffffff;
    case V_clz: return la ? (u32)__builtin_clz(la) - 16 : 16;
    case V_ctz: return la ? (u32)__builtin_ctz(la) : 16;
    case V_popcnt: {
        u32 n = la - (la >> 1 & 0x5555);
        n = (n & 0x3333) + (n >> 2 & 0x3333);
        n = (n + (n >> 4)) & 0x0f0f;
        return (n + (n >> 8)) & 31;
    }
    case V_fh2s: return s((f32)w(la, format));
    case V_fs2h: return h(f(a), format);
    case V_fh2xp16: return (u32)float_to_integer(w(la, format), 16, 1) & 0xffff;
    case V_fs2xp16: return (u32)float_to_integer(f(a), 16, 1) & 0xffff;
    case V_xp162fh: return h((f64)(i16)la, format);
    case V_xp162fs: return s((f32)(i16)la);
    case V_fnormh: return h(normalised(w(la, format)), format);
    case V_fnorms: return s((f32)normalised(f(a)));
    case V_fscaleh: return h(scaled(w(la, format), (i16)lb), format);
    case V_fscales: return s((f32)scaled(f(a), (i16)lb));
    }
    return 0;
}

static u32 compute_any(int op, u32 a, u32 b, u32 x, int format, u8 *carry);

INLINE u32 read_memory(const Pe *pe, u32 address, u32 bytes) {
    if (bytes == 2) { u16 v; memcpy(&v, pe->memory + address, 2); return v; }
    u32 v; memcpy(&v, pe->memory + address, 4); return v;
}

INLINE void write_memory(Pe *pe, u32 address, u32 bytes, u32 value) {
    if (bytes == 2) { const u16 v = (u16)value; memcpy(pe->memory + address, &v, 2); return; }
    memcpy(pe->memory + address, &value, 4);
}

/* Whether every access of a one-dimensional cursor lies in memory. */
INLINE int lies_in_memory(const Pe *pe, const Cursor *c, u32 n, u32 bytes) {
    const i64 first = c->address, last = first + (i64)(n - 1) * c->stride;
    const i64 low = first < last ? first : last, high = first < last ? last : first;
    return low >= 0 && high + bytes <= (i64)pe->memory_size;
}

INLINE int is_linear(const Cursor *c) {
    return c->kind == DSD_MEMORY || c->kind == CURSOR_SCALAR || c->kind == CURSOR_PLACE ||
           c->kind == DSD_NONE;
}

/* The whole of an operation over one-dimensional memory; elements strictly one after another. */
INLINE void run_linear(Pe *pe, int op, const Cursor *c, u32 n, u32 x, int format, int accumulate) {
    const Widths width = WIDTHS[op];
    u32 to = c[0].address, from = c[1].address, other = c[2].address;
    const u32 to_step = (u32)c[0].stride, from_step = (u32)c[1].stride, other_step = (u32)c[2].stride;
    const int a_is_scalar = c[1].kind != DSD_MEMORY, b_is_scalar = c[2].kind != DSD_MEMORY;
    u32 a = c[1].value, b = c[2].value;
    for (u32 i = 0; i < n; i++) {
        if (!a_is_scalar) { a = read_memory(pe, from, width.a); from += from_step; }
        if (!b_is_scalar) { b = read_memory(pe, other, width.b); other += other_step; }
        const u32 value = compute(op, a, b, x, format, &pe->carry);
        write_memory(pe, to, width.dest, value);
        to += to_step;
        if (accumulate) a = value;
    }
}

#define LINEAR(name) \
    case V_##name: run_linear(pe, V_##name, c, n, x, format, accumulate); return;

static void run_linear_op(Pe *pe, int op, const Cursor *c, u32 n, u32 x, int format, int accumulate) {
    switch (op) { ALL_VECTOR_OPS(LINEAR) }
}
#undef LINEAR

#define ANY(name) \
    case V_##name: return compute(V_##name, a, b, x, format, carry);

static u32 compute_any(int op, u32 a, u32 b, u32 x, int format, u8 *carry) {
    switch (op) { ALL_VECTOR_OPS(ANY) }
    return 0;
}
#undef ANY

#endif
