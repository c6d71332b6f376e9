# ruff: noqa: E501 - rows of a table
"""The members of libraries one by one: `out` has how many were looked at, and the first that is wrong."""

from tests.support.csl_coverage.pairs import ADVANCE, COMMANDS, TAKE_2, pair, switched
from tests.support.csl_coverage.rows import BOTH, Row

_CHECK = "var k: i32 = 0; fn is(right: bool) void { k += 1; if (!right and out[1] == 0) { out[1] = k; } out[0] = k; }\n"
_MATH = 'const m = @import_module("<math>"); var a: f32 = -1.5; var b: f32 = 2.25; var g: f16 = -1.5; var h: f16 = 2.25; var i: i16 = -3; var j: i32 = -70000; var u: u16 = 3; var v: u32 = 70000; fn near(x: f32, y: f32) bool { return m.abs(x - y) < 0.0001; } fn close(x: f16, y: f16) bool { return m.abs(x - y) < 0.01; }'
_SNAN = "@bitcast(f32, @as(u32, 0x7f800001))"


def _checks(
    library: str, says: str, top: str, *checks: str, architectures: tuple[str, ...] = BOTH
) -> Row:
    """A row that is right if every check holds."""
    return Row(
        page="libraries",
        says=f"<{library}>: {says}",
        top=_CHECK + top,
        body=" ".join(f"is({check});" for check in checks),
        out=(len(checks), 0),
        architectures=architectures,
    )


def _of_each(name: str, f32: str, f16: str, check: str) -> tuple[str, str, str, str]:
    """A function of a float by its plain name and by those with a type."""
    return (
        check.format(f"m.{name}({f32})"),
        check.format(f"m.{name}({f16})"),
        check.format(f"m.{name}_f32({f32})"),
        check.format(f"m.{name}_f16({f16})"),
    )


def _questions(name: str, yes: str, no: str) -> tuple[str, ...]:
    return (*_of_each(name, *yes.split(), "{}"), *_of_each(name, *no.split(), "!{}"))


ROWS = (
    _checks(
        "math",
        "signs, magnitudes, the larger and the smaller",
        _MATH,
        *_of_each("abs", "a", "g", "{} == 1.5"),
        *_of_each("sign", "a", "g", "{} == -1.0"),
        *_of_each("max", "a, b", "g, h", "{} == 2.25"),
        *_of_each("min", "a, b", "g, h", "{} == -1.5"),
        *_of_each("subsat", "b, a", "h, g", "{} == 3.75"),
        *_of_each("subsat", "a, b", "g, h", "{} == 0.0"),
        *("m.abs_i16(i) == 3", "m.abs_i32(j) == 70000", "m.sign(i) == -1", "m.sign(u) == 1"),
        *("m.max_i16(i, 2) == 2", "m.max_i32(j, 5) == 5", "m.max_u16(u, 9) == 9"),
        *("m.max_u32(v, 9) == 70000", "m.min_i16(i, 2) == -3", "m.min_i32(j, 5) == -70000"),
        *("m.min_u16(u, 9) == 3", "m.min_u32(v, 9) == 9"),
    ),
    _checks(
        "math",
        "rounding and powers of two",
        _MATH,
        *_of_each("floor", "a", "g", "{} == -2.0"),
        *_of_each("ceil", "a", "g", "{} == -1.0"),
        *_of_each("fscale", "b, 2", "h, 2", "{} == 9.0"),
        *_of_each("fscale", "b, i", "h, i", "{} == 0.28125"),
    ),
    _checks(
        "math",
        "roots, powers, exponentials and circles in 32 bits",
        _MATH,
        *(f"near(m.sqrt{s}(b), 1.5)" for s in ("", "_f32")),
        *(f"near(m.inv{s}(b), 0.4444444)" for s in ("", "_f32")),
        *(f"near(m.invsqrt{s}(b), 0.6666667)" for s in ("", "_f32")),
        *(f"near(m.exp{s}(a), 0.2231302)" for s in ("", "_f32")),
        *(f"near(m.log{s}(b), 0.8109302)" for s in ("", "_f32")),
        *(f"near(m.pow{s}(b, a), 0.2962963)" for s in ("", "_f32")),
        *(f"near(m.sin{s}(a), -0.997495)" for s in ("", "_f32")),
        *(f"near(m.cos{s}(a), 0.0707372)" for s in ("", "_f32")),
        *(f"near(m.tanh{s}(a), -0.9051483)" for s in ("", "_f32")),
        *(f"near(m.sig{s}(a), 0.1824255)" for s in ("", "_f32")),
        *("near(m.PI, 3.1415927)", "near(m.E, 2.7182818)"),
    ),
    _checks(
        "math",
        "roots, powers, exponentials and circles in 16 bits",
        _MATH,
        *(f"close(m.sqrt{s}(h), 1.5)" for s in ("", "_f16")),
        *(f"close(m.inv{s}(h), 0.4444444)" for s in ("", "_f16")),
        *(f"close(m.invsqrt{s}(h), 0.6666667)" for s in ("", "_f16")),
        *(f"close(m.exp{s}(g), 0.2231302)" for s in ("", "_f16")),
        *(f"close(m.log{s}(h), 0.8109302)" for s in ("", "_f16")),
        *(f"close(m.pow{s}(h, g), 0.2962963)" for s in ("", "_f16")),
        *(f"close(m.sin{s}(g), -0.997495)" for s in ("", "_f16")),
        *(f"close(m.cos{s}(g), 0.0707372)" for s in ("", "_f16")),
        *(f"close(m.tanh{s}(g), -0.9051483)" for s in ("", "_f16")),
        *(f"close(m.sig{s}(g), 0.1824255)" for s in ("", "_f16")),
    ),
    _checks(
        "math",
        "infinities, and what is no number",
        _MATH,
        *_questions("isNaN", "m.NaN(f32) m.NaN_f16", "a g"),
        *_questions("isInf", "m.NEGATIVE_INF(f32) m.POSITIVE_INF_f16", "m.NaN_f32 m.NaN(f16)"),
        *_questions("isFinite", "a g", "m.POSITIVE_INF_f32 m.NEGATIVE_INF_f16"),
        *_questions("signbit", "a g", "b h"),
        *_questions("signbit", "m.NEGATIVE_INF_f32 m.NEGATIVE_INF(f16)", "m.POSITIVE_INF(f32) h"),
        *("!m.isSignaling(m.NaN_f32)", "!m.isSignaling_f32(a)", "!m.isSignaling_f16(m.NaN_f16)"),
        *(f"m.isSignaling({_SNAN})", f"m.isSignaling_f32({_SNAN})"),
        "m.isSignaling_f16(@bitcast(f16, @as(u16, 0x7c01)))",
    ),
    _checks(
        "complex",
        "sums, differences and products, generic and of 16 and 32 bits",
        'const c = @import_module("<complex>"); var x = c.complex_32{ .real = 1.0, .imag = 2.0 }; var y = c.complex_64{ .real = 3.0, .imag = -1.0 }; fn same(p: anytype, re: f32, im: f32) bool { return @as(f32, p.real) == re and @as(f32, p.imag) == im; }',
        "same(c.get_complex_64(1.0, 2.0), 1.0, 2.0)",
        "same(c.add_complex(x, x), 2.0, 4.0)",
        "same(c.add_complex_32(x, x), 2.0, 4.0)",
        "same(c.add_complex_64(y, y), 6.0, -2.0)",
        "same(c.subtract_complex(x, x), 0.0, 0.0)",
        "same(c.subtract_complex_32(x, c.get_complex_32(0.5, 0.5)), 0.5, 1.5)",
        "same(c.subtract_complex_64(y, c.get_complex_64(0.5, 0.5)), 2.5, -1.5)",
        "same(c.multiply_complex(y, y), 8.0, -6.0)",
        "same(c.multiply_complex_32(x, x), -3.0, 4.0)",
        "same(c.multiply_complex_64(y, y), 8.0, -6.0)",
    ),
    _checks(
        "malloc",
        "arrays of each type, one behind the other",
        'const mem = @import_module("<malloc>", .{ .buffer_num_words = 32, .asserts_enabled = true });',
        "mem.has_enough_words(32) and !mem.has_enough_words(33)",
        "mem.has_enough_double_words(16) and !mem.has_enough_double_words(17)",
        "@bitcast(u16, mem.malloc_i16(2)) + 4 == @bitcast(u16, mem.malloc_u16(2))",
        "@bitcast(u16, mem.malloc_f16(2)) + 4 == @bitcast(u16, mem.malloc_i32(1))",
        "@bitcast(u16, mem.malloc_u32(3)) + 12 == @bitcast(u16, mem.malloc_f32(1))",
    ),
    _checks(
        "types",
        "what kind each type is",
        'const t = @import_module("<types>"); const s = struct { a: i16 }; const un = union { a: i16, b: f16 }; const e = enum(u16) { A };',
        *("t.is_int(u24) and t.is_int(comptime_int) and !t.is_int(f32)", "t.is_signed_int(i8)"),
        *(
            "t.is_unsigned_int(u8) and !t.is_unsigned_int(i8)",
            "t.is_float(f16) and !t.is_float(u16)",
        ),
        *("t.is_numeric(f32) and t.is_numeric(i16) and !t.is_numeric(bool)", "t.is_bool(bool)"),
        *("t.is_struct(s) and !t.is_struct(un)", "t.is_union(un) and !t.is_union(s)"),
        *("t.is_enum(e) and !t.is_enum(u16)", "t.is_array([2]i16) and !t.is_array(s)"),
        *("t.is_pointer(*i16) and t.is_pointer([*]f32)", "t.is_function(fn(i16) void)"),
        *("t.is_dsd(mem1d_dsd) and t.is_dsd(fabin_dsd)", "t.is_dsr(dsr_dest)"),
        "t.is_mem_dsd(mem4d_dsd) and t.is_mem_dsd(circbuf_dsd) and !t.is_mem_dsd(fabin_dsd)",
        "t.is_fabric_dsd(fabout_dsd) and !t.is_fabric_dsd(mem1d_dsd)",
        "!t.is_fifo(mem1d_dsd)",
        "t.byte_size_of(f32) == 4 and t.word_size_of(f32) == 2 and t.bit_size_of(u8) == 8",
    ),
    _checks(
        "random",
        "numbers between their bounds, and the same ones after the same seed",
        'const r = @import_module("<random>"); var first: u32 = 0; fn seeded() u32 { r.set_global_prng_seed(77); return r.random_pow_u32(20); } fn within(x: f32) bool { return x >= -2.0 and x <= 3.0; }',
        "seeded() == seeded()",
        "r.random_pow_u32(3) < 8 and r.random_pow_u32(0) < 1",
        "within(r.random_f32(-2.0, 3.0)) and within(@as(f32, r.random_f16(-2.0, 3.0)))",
        "r.random_normal_f32() != r.random_normal_f32()",
    ),
    _checks(
        "time",
        "the counter runs while it is enabled",
        'const t = @import_module("<time>"); var a = @zeros([t.tsc_size_words]u16); var b = @zeros([3]u16); fn started() bool { t.enable_tsc(); t.get_timestamp(&a); t.get_timestamp(&b); return b[0] > a[0] and a[2] == 0; } fn stopped() bool { t.disable_tsc(); t.get_timestamp(&a); t.get_timestamp(&b); return b[0] == a[0]; } fn reset() bool { t.reset_tsc_counter(); t.get_timestamp(&a); return a[0] < b[0] and a[1] == 0; }',
        "started()",
        "stopped()",
        "reset()",
    ),
    _checks(
        "directions",
        "each bit by its name",
        'const d = @import_module("<directions>");',
        *(f"d.dirToTxBits({s}) == d.TX_{s}" for s in ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")),
        *(f"d.dirToRxBits({s}) == d.RX_{s}" for s in ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")),
    ),
    _checks(
        "tile_config",
        "queues that are empty, one by one and together",
        'const t = @import_module("<tile_config>"); const q = @get_input_queue(2); const p = @get_output_queue(2);',
        "t.input_queue_status.is_empty(t.input_queue_status.get(), q)",
        "!t.input_queue_status.is_full(t.input_queue_status.get(), q)",
        "t.input_queue_status.none_full(t.input_queue_status.get())",
        "!t.input_queue_status.none_empty(t.input_queue_status.get())",
        "!t.input_queue_status.all_full(t.input_queue_status.get())",
        "t.output_queue_status.is_empty(t.output_queue_status.get(), p)",
        "t.output_queue_status.none_full(t.output_queue_status.get())",
        "!t.output_queue_status.all_full(t.output_queue_status.get())",
    ),
    *(
        pair(
            "switches",
            f"position {number} is given another output during the run",
            pe=TAKE_2,
            main="",
            sender=COMMANDS + 'const tile = @import_module("<tile_config>");',
            sends=f"tile.switch_config.set_tx_switch_pos{number}(c0, WEST); @mov32(one, @as(u32, 9)); "
            + "".join(f"{ADVANCE} @mov32(one, @as(u32, {at})); " for at in (1, 2, 3)),
            out=(9, number),
            routes=switched(
                ".pos1 = .{ .tx = EAST }, .pos2 = .{ .tx = EAST }, .pos3 = .{ .tx = EAST }, .pop_mode = .{ .always_pop = true }"
            ),
        )
        for number in (1, 2, 3)
    ),
)
