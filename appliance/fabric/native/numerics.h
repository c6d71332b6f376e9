/* Arithmetic of the machine: integers that wrap, floats that round once, to nearest even.
 *
 * A register holds 64 bits. Integers are kept extended to 64 bits by their own sign; a float is
 * kept as its bits. 16-bit floats come in three formats, of which a program has one.
 * The file is freestanding: no header of the C library, no type whose size a platform chooses.
 */
#ifndef FABRIC_NUMERICS_H
#define FABRIC_NUMERICS_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

#define INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { FORMAT_F16 = 0, FORMAT_BF16 = 1, FORMAT_CB16 = 2 };

typedef struct Format {
    int mantissa_bits;
    int bias;
    int max_exponent; /* all ones: infinity and NaN */
} Format;

static const Format FORMATS[3] = {{10, 15, 31}, {7, 127, 255}, {9, 42, 63}};

INLINE f32 as_f32(u64 bits) { union { u32 u; f32 f; } v = {(u32)bits}; return v.f; }
INLINE u64 of_f32(f32 x) { union { f32 f; u32 u; } v = {x}; return v.u; }
INLINE u64 bits_f64(f64 x) { union { f64 f; u64 u; } v = {x}; return v.u; }
INLINE f64 as_f64(u64 x) { union { u64 u; f64 f; } v = {x}; return v.f; }

/* Exact: every value of the three formats is a double. NaN keeps its sign and payload. */
static f64 widen16(u32 bits, int format) {
    const Format f = FORMATS[format];
    const int m = f.mantissa_bits;
    const u64 sign = (u64)(bits >> 15 & 1) << 63;
    const int exponent = (int)(bits >> m) & f.max_exponent;
    const u64 mantissa = bits & ((1u << m) - 1);
    if (exponent == f.max_exponent)
        return as_f64(sign | 0x7ffull << 52 | mantissa << (52 - m));
    if (exponent == 0) {
        const f64 scale = as_f64((u64)(1023 + 1 - f.bias - m) << 52);
        return as_f64(sign | bits_f64((f64)mantissa * scale));
    }
    return as_f64(sign | (u64)(exponent - f.bias + 1023) << 52 | mantissa << (52 - m));
}

/* Round a double to a 16-bit format, to nearest even, with gradual underflow. */
static u32 narrow16(f64 x, int format) {
    const Format f = FORMATS[format];
    const int m = f.mantissa_bits;
    const u64 b = bits_f64(x);
    const u32 sign = (u32)(b >> 63) << 15;
    const int exponent = (int)(b >> 52 & 0x7ff);
    u64 mantissa = b & 0xfffffffffffffull;
    const u32 infinity = (u32)f.max_exponent << m;
    if (exponent == 0x7ff) {
        if (!mantissa) return sign | infinity;
        return sign | infinity | 1u << (m - 1) | (u32)(mantissa >> (52 - m));
    }
    if (exponent == 0) return sign; /* doubles below the normal range are far below any format */
    const int target = exponent - 1023 + f.bias;
    int shift = 52 - m;
    mantissa |= 1ull << 52;
    if (target <= 0) shift += 1 - target;
    if (shift > 54) return sign;
    const u64 kept = mantissa >> shift;
    const u64 rest = mantissa & ((1ull << shift) - 1);
    const u64 half = 1ull << (shift - 1);
    u64 rounded = kept + (rest > half || (rest == half && (kept & 1)));
    if (target <= 0) return sign | (u32)rounded; /* a carry gives the least normal number */
    rounded += (u64)(target - 1) << m;
    return rounded >= infinity ? sign | infinity : sign | (u32)rounded;
}

/* a*b + c of three 16-bit values, rounded once: the sum is made odd where it is not exact. */
static u32 fused16(f64 a, f64 b, f64 c, int format) {
    const f64 product = a * b; /* exact: at most 22 bits */
    const f64 sum = product + c;
    const u64 bits = bits_f64(sum);
    if ((bits >> 52 & 0x7ff) == 0x7ff || sum == 0) return narrow16(sum, format);
    const f64 part = sum - product;
    const f64 error = (product - (sum - part)) + (c - part);
    if (error == 0 || (bits & 1)) return narrow16(sum, format);
    return narrow16(as_f64((error > 0) == (sum > 0) ? bits + 1 : bits - 1), format);
}

INLINE f32 widen16_f32(u32 bits, int format) { return (f32)widen16(bits, format); }

/* Sign- or zero-extend the low bits of a register. */
INLINE u64 extend(u64 x, int bits, int is_signed) {
    if (bits >= 64) return x;
    const u64 low = x & ((1ull << bits) - 1);
    if (!is_signed) return low;
    const u64 top = 1ull << (bits - 1);
    return (low ^ top) - top;
}

/* Truncate toward zero; saturate outside the range; NaN gives 0. */
static u64 float_to_integer(f64 x, int bits, int is_signed) {
    if (x != x) return 0;
    const f64 span = as_f64((u64)(1023 + bits - is_signed) << 52);
    if (is_signed) {
        if (x >= span) return (1ull << (bits - 1)) - 1;
        if (x < -span) return (u64)0 - (1ull << (bits - 1));
        return (u64)(i64)x;
    }
    if (x <= -1) return 0;
    if (x >= span) return bits == 64 ? ~0ull : (1ull << bits) - 1;
    return (u64)(x < 9223372036854775808.0 ? (u64)(i64)x
                                           : (u64)(i64)(x - 9223372036854775808.0) + (1ull << 63));
}

/* Integer to float, rounded once; through 64 bits both ways are exact below 2^53. */
static u64 integer_to_f32(u64 x, int is_signed) {
    return of_f32(is_signed ? (f32)(i64)x : (f32)x);
}

static u32 integer_to_f16(u64 x, int is_signed, int format) {
    f64 value = is_signed ? (f64)(i64)x : (f64)x;
    /* Above 2^53 the conversion has rounded; make it odd so that the second rounding is right. */
    const u64 magnitude = is_signed && (i64)x < 0 ? 0 - x : x;
    if (magnitude >> 53) {
        u64 kept = magnitude;
        int drop = 0;
        while (kept >> 53) { kept >>= 1; drop++; }
        if (magnitude & ((1ull << drop) - 1)) kept |= 1;
        value = (f64)kept * as_f64((u64)(1023 + drop) << 52);
        if (is_signed && (i64)x < 0) value = -value;
    }
    return narrow16(value, format);
}

#endif
