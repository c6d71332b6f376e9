# ruff: noqa: E501 - rows of a table
"""Rules of DSDs, DSRs, FIFOs and vector operations; see `test_diagnostics`."""

import pytest

from tests.support.csl import check_right
from tests.support.csl_rules import check_at_the_top, check_in_code, whole

FABRIC = """
const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = red, .input_queue = iq });
const fout = @get_dsd(fabout_dsd, .{ .extent = 4, .fabric_color = red, .output_queue = oq });
const fifo = @allocate_fifo(b);
var wide: [8, 128]u16;
"""
MEM4 = "@get_dsd(mem4d_dsd, .{ .tensor_access = |k, l|{4, 4} -> m[k, l] })"
CIRCULAR = "@get_dsd(circbuf_dsd, .{ .base_address = &a, .extent = 4, .wraparound = 4 })"
INDEXED = "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[2 * k] });"

IN_CODE = [
    # Operations.
    ("@mov16(d, e);", "$$@mov16(d, e, .{}, .{});", "'@mov16' takes 2 operands and a struct of options, got 4 arguments"),
    ("@faddhs(g, y, d);", "$$@faddhs(g, g, y);", "'@faddhs' adds numbers of 16 and of 32 bits; both of these have 32"),
    ("@fmacs(g, g, g, y);", "@fmacs($$fifo, g, g, y);", "a FIFO is not the destination of a fused operation"),
    ("@mov16(&x, e);", "const q: *const u16 = &x; @mov16($$q, e);", "the destination of '@mov16' is constant"),
    ("@mov16(fout, e, .{ .async = true });", "@mov16(fout, e, $$.{ .async = 1 });", "'.async' of '@mov16' must be a bool, got 'comptime_int'"),
    ("@mov16(fout, e, .{ .async = true });", "@mov16(fout, e, $$1);", "'@mov16' must be a struct, got 'comptime_int'"),
    ("@mov16(fout, e, .{ .async = true });", "@mov16(fout, e, $$.{ true });", "'@mov16' needs '.name = value'"),
    ("@mov16(fout, e, .{ .async = true });", "@mov16(fout, e, $$.{ .async = ok });", "'.async' of '@mov16' must be known at compile time"),
    ("@map(twice, d, e);", "@map(twice, $$fifo, e);", "a FIFO cannot be an operand of '@map'"),
    ("@map(twice, d, e);", "@map(twice, $$fout, e);", "a fabout_dsd cannot be an input of '@map'"),
    ("@dfilt(fin, .{ .async = true });", "@dfilt($$d, .{ .async = true });", "'@dfilt' needs a fabin_dsd, got 'mem1d_dsd'"),
    ("@dfilt(fin, .{ .async = true });", "$$@dfilt(fin, .{});", "'@dfilt' needs '.async = true'"),
    # DSDs made at run time.
    ("const z = @set_dsd_length(d, 4);", f"const z = $$@set_dsd_length({MEM4}, 4);", "'@set_dsd_length' does not apply to a mem4d_dsd"),
    ("const z = @set_dsd_stride(d, 2);", f"const z = $$@set_dsd_stride({MEM4}, 2);", "'@set_dsd_stride' does not apply to a 'mem4d_dsd'"),
    ("const z = @set_dsd_base_addr(d, &b);", "const z = @set_dsd_base_addr(d, $$x);", "expected an array or a pointer, got 'u16'"),
    ("const z = @get_dsd(fabin_dsd, .{ .extent = x, .input_queue = iq });",
     "const z = @get_dsd(fabin_dsd, $$.{ .extent = y, .input_queue = iq });", "expected type 'u16', got: 'f32'"),
    ("const z = @get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = x });",
     "const z = @get_dsd(mem1d_dsd, $$.{ .base_address = x, .extent = x });", "'.base_address' needs a pointer, got 'u16'"),
    ("const z = @get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = x });",
     "const z = @get_dsd(mem1d_dsd, $$.{ .base_address = &a, .extent = y });", "'.extent' must be an integer, got 'f32'"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{x} -> a[k] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{$$y} -> a[k] });", "an extent must be an integer, got 'f32'"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[2 * k] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[$$x * k] });", "the multiple of a variable must be known at compile time"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[k + x] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[k + $$y] });", "an index must be an integer, got 'f32'"),
    ("const z = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = red });",
     "const z = @get_dsd(fabin_dsd, $$.{ .extent = 1, .fabric_color = @get_color(x) });", "'.fabric_color' of a fabin_dsd without '.input_queue' must be known at compile time"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> wide[k, 127 - k] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = $$|k|{4} -> wide[k, 0] });", "the stride of this access is 128; it must fit 'i8' (-128 to 127)"),
    ("const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> wide[3 - k, 0] });",
     "const z = @get_dsd(mem1d_dsd, .{ .tensor_access = $$|k|{4} -> wide[3 - k, 7 - k] });", "the stride of this access is -129; it must fit 'i8' (-128 to 127)"),
    ("const z = @get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = 2, .stride = -128 });",
     "const z = @get_dsd(mem1d_dsd, $$.{ .base_address = &a, .extent = 2, .stride = 128 });", "'.stride' is 128; it must fit 'i8' (-128 to 127)"),
    ("const z = @get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = 2, .offset = -1 });",
     "const z = @get_dsd(mem1d_dsd, $$.{ .base_address = &a, .extent = 2, .offset = 40000 });", "'.offset' is 40000; it must fit 'i16' (-32768 to 32767)"),
    # DSRs and FIFOs.
    (f"@load_to_dsr_xdsr(dest, @get_xdsr(1), {CIRCULAR});", f"@load_to_dsr(dest, $${CIRCULAR});", "a circbuf_dsd needs an XDSR: '@load_to_dsr_xdsr', not '@load_to_dsr'"),
    ("@mov16(d, e);", f"@mov16($${CIRCULAR}, e);", "a circbuf_dsd is used through a DSR and an XDSR"),
    ("@load_to_dsr(dest, d);", "@load_to_dsr($$4, d);", "expected a DSR, got 'comptime_int'"),
    ("@load_to_dsr_xdsr(dest, @get_xdsr(1), @as(circbuf_dsd, CIRCULAR));".replace("@as(circbuf_dsd, CIRCULAR)", CIRCULAR),
     f"@load_to_dsr_xdsr(dest, $$dest, {CIRCULAR});", "expected type 'xdsr', got: 'dsr_dest'"),
    ("@set_fifo_read_length(fifo, 4);", "@set_fifo_read_length($$d, 4);", "expected a FIFO, got 'mem1d_dsd'"),
]  # fmt: skip

ON_WSE3 = [
    ("const f3 = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq, .priority = .{ .low = true } }); @mov16(d, f3, .{ .async = true });",
     "const f3 = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq }); @mov16(d, f3, .{ .async = true, $$.priority = .{ .low = true } });", "'.priority' of '@mov16' exists on wse2 only"),
    ("const f3 = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq }); @mov16(d, f3, .{ .async = true, .ut_id = @get_ut_id(1) });",
     "const f3 = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq }); @mov16(d, f3, $$.{ .async = true, .ut_id = ok });", "'.ut_id' needs a 'ut_id', got 'bool'"),
    ("const f3 = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq }); @mov16(d, f3, .{ .async = true, .ut_id = 7 });",
     "const f3 = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq }); @mov16(d, f3, $$.{ .async = true, .ut_id = 8 });", "'.ut_id' must be known at compile time, 0 to 7"),
    ("const f3 = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq });",
     "const f3 = $$@get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = red });", "a fabout_dsd of wse3 needs '.output_queue'"),
]  # fmt: skip

AT_THE_TOP = [
    (INDEXED, INDEXED.replace("a[2 * k]", "$$a"), "a tensor access ends in an indexed array"),
    (INDEXED, INDEXED.replace("2 * k", "$$k / 2"), "an index must be a sum of multiples of the access's variables"),
    (INDEXED, "const z = |k|{4} -> $$i[k];", "a tensor access walks over an array, not 'i16'"),
    (INDEXED, "const z = @get_dsd(mem1d_dsd, if ($$x == 1) |k|{4} -> a[k] else .{});", "run-time variable 'x' is not known"),
    ("const z = @get_dsd(mem1d_dsd, if (true) |k|{4} -> a[k] else .{});",
     "const z = @get_dsd(mem1d_dsd, $$if (false) |k|{4} -> a[k]);", "a DSD needs properties"),
    (INDEXED, "const z = @get_dsd(mem4d_dsd, $$.{ .tensor_access = |i1, i2, i3, i4, i5|{1, 1, 1, 1, 1} -> a[i1 + i2 + i3 + i4 + i5] });", "a mem4d_dsd has 1 to 4 dimensions, got 5"),
    (INDEXED, "const z = @get_dsd(mem1d_dsd, .{ .base_address = $$p, .extent = 4 });", "the value of run-time variable 'p' is not known"),
    ("const z = @set_dsd_length(d, 4);", "const z = @set_dsd_length(d, $$x);", "run-time variable 'x' is not known"),
    (f"const z = {CIRCULAR};", "const z = $$@get_dsd(circbuf_dsd, .{ .base_address = &a });", "a circbuf_dsd needs '.base_address' (a pointer) and '.extent'"),
    (f"const z = {CIRCULAR};", "const z = @get_dsd(circbuf_dsd, $$.{ .base_address = &a, .extent = 1.5, .wraparound = 4 });", "'.extent' of 'circbuf_dsd' must be an integer, got 'comptime_float'"),
    ("const z = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq });",
     "const z = @get_dsd(fabin_dsd, $$.{ .extent = 1, .input_queue = oq });", "'.input_queue': expected type 'input_queue', got: 'output_queue'"),
    ("const z = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = red, .input_queue = iq });",
     "const z = @get_dsd(fabin_dsd, $$.{ .extent = 1, .fabric_color = 3, .input_queue = iq });", "'.fabric_color': expected type 'color', got: 'comptime_int'"),
    ("var v: [4]u32;\nconst z = @allocate_fifo(v);", "var v: [4]u64;\nconst z = @allocate_fifo($$v);", "a FIFO has 16- or 32-bit elements, not 'u64'"),
    ("const z = @allocate_fifo(a, .{ .empty_action = .{ .terminate = true } });",
     "const z = @allocate_fifo(a, $$.{ .empty_action = .{ .explode = true } });", "the action of a FIFO is one of"),
    ("const z = @allocate_fifo(a);", "const z = @allocate_fifo(a, .{ $$.full_action = .{ .terminate = true } });", "'.full_action' of '@allocate_fifo' exists on wse3 only"),
    ("const z = @allocate_fifo(a);", "const z = @allocate_fifo(a, .{ $$.priority = .{ .high = true } });", "'.priority' of '@allocate_fifo' exists on wse3 only"),
    ("const z = @allocate_fifo(a, .{ .empty_action = .{ .terminate = true } });",
     "const z = @allocate_fifo(a, $$.{ .empty_action = .{ .suspend = true } });", "the action '.suspend' of a FIFO exists on wse3 only"),
    ("const z = @allocate_fifo(a);", "const fixed = [2]u16{ 1, 2 };\nconst z = @allocate_fifo($$fixed);", "the buffer of a FIFO is a variable, not a constant '[2]u16'"),
    ("const z = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq });",
     "const z = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq, $$.priority = .{ .high = true } });", "'.priority' of 'fabin_dsd' exists on wse3 only"),
    ("comptime { @initialize_queue(oq, .{}); }", "comptime { @initialize_queue(oq, $$.{ .priority = .{ .high = true } }); }", "'.priority' is for input queues"),
    ("comptime { @initialize_queue(iq, .{ .color = red }); }", "comptime { @initialize_queue(iq, .{ .color = red, $$.ctrl_table_id = 1 }); }", "'.ctrl_table_id' of '@initialize_queue' exists on wse3 only"),
    ("fn small(v: u8) void {}\nfn user() void { @map(nothing_of, d); }\nfn nothing_of(v: u16) void {}\ncomptime { @set_teardown_handler(user, red); }",
     "fn small(v: bool) void {}\nfn user() void { @map($$small, d); }\ncomptime { @set_teardown_handler(user, red); }", "an element of '@map' has 16 or 32 bits, not 'bool'"),
    ("fn user() void { @map(twice, d, e); }\ncomptime { @set_teardown_handler(user, red); }",
     "fn of(v: struct { p: u16 }) void {}\nfn user() void { @map($$of, d); }\ncomptime { @set_teardown_handler(user, red); }", "a function of '@map' cannot take a 'struct"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "text"), IN_CODE, ids=lambda text: text[:40])
def test_a_rule_of_operations(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text, top=FABRIC)


@pytest.mark.parametrize(("right", "wrong", "text"), ON_WSE3, ids=lambda text: text[-40:])
def test_a_rule_of_operations_on_wse3(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text, architecture="wse3")


@pytest.mark.parametrize(("right", "wrong", "text"), AT_THE_TOP, ids=lambda text: text[:40])
def test_a_rule_of_descriptors(right: str, wrong: str, text: str) -> None:
    check_at_the_top(right, wrong, text)


def test_four_dimensions_take_three_registers_in_2_10() -> None:
    right = f"@load_to_dsr_xdsr_sr(dest, @get_xdsr(1), @get_sr(1), {MEM4});"
    text = "a mem4d_dsd needs '@load_to_dsr_xdsr_sr', not '@load_to_dsr'"
    check_in_code(right, f"@load_to_dsr(dest, $${MEM4});", text, dialect="2.10")
    two = f"@load_to_dsr_xdsr(dest, @get_xdsr(1), $${MEM4});"
    check_in_code(right, two, "not '@load_to_dsr_xdsr'", dialect="2.10")
    check_right(whole(f"@load_to_dsr(dest, {MEM4});"))
