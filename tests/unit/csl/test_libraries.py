"""The libraries, as far as the compiler alone can run them."""

import pytest

from appliance.csl.program import HostStream, Intrinsic
from tests.support.csl import (
    check_error,
    check_right,
    compile_files,
    compile_pe,
    instructions,
    printed,
    program_of,
)

CONTROL = """
const c = @import_module("<control>");
const s = @import_module("<memcpy/memcpy_switches>");
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("s.ctrl(s.teardown_cmd_1())", 0x09DF9249),
        ("s.ctrl([8]u16{ 0, 0, 0, 0, 0, 0, 0, 0 })", 0x091F9249),
        ("c.encode_control_task_payload(@get_control_task_id(43))", 43 << 16),
        ("c.encode_single_payload(c.opcode.SWITCH_ADV, true, {}, 7)", 0x015F0007),
        (
            "c.encode_payload(2, [2]c.opcode{ c.opcode.SWITCH_ADV, c.opcode.SWITCH_RST }, "
            "[2]bool{ true, false }, true, @get_control_task_id(5))",
            (5 << 16) | (1 << 22) | (1 << 24) | (2 << 25) | 0x9249,
        ),
    ],
)
def test_control_wavelets_have_the_documented_bits(expression: str, value: int) -> None:
    assert printed(f"@comptime_print({expression});", CONTROL) == [str(value)]


def test_directions_turn_and_flip() -> None:
    top = 'const d = @import_module("<directions>");'
    body = """
@comptime_print(d.flip(NORTH), d.rotate_clockwise(NORTH), d.rotate_counterclockwise(NORTH),
                d.flip_vertical(EAST), d.flip_horizontal(EAST), d.flip(RAMP));
"""
    assert printed(body, top) == ["SOUTH, EAST, WEST, EAST, WEST, RAMP"]


def test_mathematics_works_at_compile_time() -> None:
    top = 'const m = @import_module("<math>");'
    body = """
@comptime_print(m.sqrt(@as(f32, 2.0)), m.abs(@as(f16, -1.5)), m.max(@as(i16, 3), @as(i16, 5)),
                m.NEGATIVE_INF_f32, m.isNaN(m.NaN(f32)), m.sign(@as(i16, -4)), m.inv(@as(f32, 4.0)),
                m.subsat(@as(u16, 3), @as(u16, 5)));
"""
    assert printed(body, top) == ["1.4142135381698608, 1.5, 5, -inf, true, -1, 0.25, 0"]


EVERY_MEMBER = """
const math = @import_module("<math>");
const random = @import_module("<random>");
const time = @import_module("<time>");
const coordinates = @import_module("<layout>");
const prt = @import_module("<simprint>", .{ .enable = true });
const trace = @import_module("<debug>", .{ .key = "k", .buffer_size = 100 });
const tile = @import_module("<tile_config>");
var words: [3]u16; var x: f32 = 1.0; var h: f16 = 1.0; var i: i16 = 2; var u: u32 = 3; var b: bool;
const red = @get_color(3);
fn numbers() void {
  x = math.exp(x) + math.log_f32(x) + math.sin(x) + math.cos_f32(x) + math.tanh(x) + math.pow(x, x);
  x = math.floor(x) + math.ceil_f32(x) + math.fscale(x, i) + math.sig(x) + math.invsqrt(x);
  h = math.sqrt(h) + math.abs_f16(h) + math.min_f16(h, h) + math.exp_f16(h);
  b = math.isInf(x) or math.isFinite_f16(h) or math.signbit(x) or math.isSignaling(x);
  x = random.random_f32(0.0, 1.0) + random.random_normal_f32();
  h = random.random_f16(0.0, 1.0);
  u = random.random_pow_u32(5);
  random.set_global_prng_seed(u);
}
fn texts() void {
  prt.print_string("a");
  prt.print_u16_hex(@as(u16, i));
  prt.print_f16(h);
  prt.fmt("i={d} u={X} x={f} {b} {{s={s}}}", .{ i, u, x, @as(u16, 3), "abc" });
  prt.fmt_with_coords("{d}", .{ i });
  trace.trace_timestamp();
  trace.trace_string("hello");
  trace.trace(x);
  trace.trace(b);
  trace.trace_i16(i);
}
fn machine() void {
  time.enable_tsc(); time.reset_tsc_counter(); time.get_timestamp(&words); time.disable_tsc();
  words[0] = coordinates.get_x_coord() + coordinates.get_y_coord();
  const address = tile.color_config.get_color_config_addr(red);
  tile.color_config.reset_routes(address, .{ .tx = EAST, .rx = RAMP });
  tile.color_config.reset_routes(red, .{ .tx = [2]direction{ EAST, RAMP }, .rx = WEST });
  tile.switch_config.clear_current_position(red);
  tile.switch_config.set_invalid_for_all_switch_positions(red);
  tile.switch_config.set_rx_switch_pos1(red, RAMP);
  tile.switch_config.set_ring_mode(red, tile.switch_config.ring_mode.RING_MODE);
  tile.switch_config.set_pop_mode(red, tile.switch_config.pop_mode.ALWAYS_POP);
  tile.teardown.exit(red);
  b = tile.teardown.is_pending(tile.teardown.get_pending(), red);
  tile.filter_config.set_limit2(red, 3);
  tile.queue_flush.exit(@get_output_queue(2));
  tile.input_queue_config.encode_input_queue(i, @get_int(red), true);
  tile.output_queue_config.encode_output_queue(@get_output_queue(2), red);
  const status = tile.input_queue_status.get();
  b = tile.input_queue_status.is_empty(status, @get_input_queue(2));
  tile.task_priority.set_task_priority(@get_local_task_id(9));
  const level = tile.main_thread_priority.level.MEDIUM_LOW;
  tile.main_thread_priority.update_main_thread_priority(level);
}
fn main() void { numbers(); texts(); machine(); }
comptime { @export_symbol(main); }
""".replace("encode_input_queue(i,", "encode_input_queue(2,")


def test_every_member_of_every_library_compiles() -> None:
    code = check_right(EVERY_MEMBER)
    assert {symbol.name for symbol in code.symbols} == {
        "$$csl_debug.k.buffer",
        "$$csl_debug.k.buffer_index",
    }


def test_formats_are_taken_apart_at_compile_time() -> None:
    source = """
const prt = @import_module("<simprint>");
fn main() void { prt.fmt_no_nl("a{d}b", .{ @as(u16, 7) }); }
comptime { @export_symbol(main); }
"""
    main = next(f for f in check_right(source).functions if f.name == "main")
    names = [item.name for item in instructions(main) if isinstance(item, Intrinsic)]
    assert names == ["print_character"] * 2


def test_memcpy_says_which_colors_the_host_streams() -> None:
    layout = """
const memcpy = @import_module("<memcpy/get_params>", .{
  .width = 1, .height = 1, .MEMCPYH2D_1 = @get_color(5), .MEMCPYD2H_1 = 6 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
}
"""
    pe = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
comptime { @comptime_assert(sys_mod.MEMCPYH2D_1 == @get_color(5) and sys_mod.MEMCPYD2H_1 == 6); }
"""
    program = program_of({"layout.csl": layout, "pe.csl": pe})
    assert program.streams == (HostStream("h2d", 1, 5), HostStream("d2h", 1, 6))


def test_services_of_the_machine_are_for_libraries_only() -> None:
    check_error('comptime { $$@intrinsic("random16", u16); }', "there is no builtin '@intrinsic'")


def test_a_wrong_argument_is_reported_in_the_library_with_the_way_there() -> None:
    source = """
const m = @import_module("<math>");
fn main() void { x = m.sqrt(x); }
var x: u16;
comptime { @export_symbol(main); }
"""
    text = compile_pe(source).render()
    assert text.startswith("<math>:")
    assert "the argument must be an f16 or f32" in text
    assert "pe.csl:2:11: note: '<math>' is imported here" in text


FFT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 2 });
const fft = @import_module("<kernels/fft/fft3d_layout>", .{ .width = 2, .memcpy = memcpy });
layout {
  @set_rectangle(2, 2);
  fft.FFT_kernel(ARGUMENTS);
}
"""


@pytest.mark.parametrize("arguments", ["2, 8, f32", "0, 0, 2, 8, f32"])
def test_the_fourier_transform_takes_both_forms_of_its_arguments(arguments: str) -> None:
    program = program_of({"layout.csl": FFT.replace("ARGUMENTS", arguments)}, memcpy=True)
    names = {symbol.name for symbol in program.symbols}
    assert {"X", "twiddle_array", "csfftExecC2C", "csfftExecR2C", "csfftExecC2R"} <= names


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("2, 8", "layout.csl:6:3: error: function 'FFT_kernel' takes 3 arguments, got 2"),
        ("1, 0, 2, 8, f32", "the transform begins at PE (0, 0)"),
        ("2, 6, f32", "the size must be a power of two"),
        ("3, 8, f32", "the size must be a multiple of the PEs of a row"),
    ],
)
def test_the_fourier_transform_refuses_others(arguments: str, text: str) -> None:
    files = {"layout.csl": FFT.replace("ARGUMENTS", arguments)}
    assert text in compile_files(files, memcpy=True).render()


@pytest.mark.parametrize(
    "type_", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32"]
)
def test_magnitude_and_order_are_there_for_every_documented_type(type_: str) -> None:
    check_right(
        f"""
const m = @import_module("<math>");
var a: {type_}; var b: {type_};
fn main() void {{ a = m.abs(m.sign(b)); b = m.max(a, m.min(a, b)); }}
comptime {{ @export_symbol(main); }}
"""
    )
