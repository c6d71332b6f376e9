"""What the language forbids and used to compile: reserved numbers, unbound ids, lost values."""

import pytest

from tests.support.csl import (
    LAYOUT,
    check_error,
    check_error_in,
    check_right,
    check_warning_in,
)

FIELDS = ".{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } }"
TASK = "task t() void {}\n"
MEMCPY = 'const sys = @import_module("<memcpy/memcpy>", .{});\n'
"""PEs that the host reaches."""


@pytest.mark.parametrize(
    ("code", "text"),
    [
        *((f"@set_local_color_config($$@get_color({n}), {FIELDS});", f"color {n} is reserved")
          for n in (21, 22, 23)),
        *((f"@bind_local_task(t, $$@get_local_task_id({n}));", f"local task id {n} is reserved")
          for n in (27, 28, 30)),
        *((f"@bind_control_task(t, $$@get_control_task_id({n}));", f"control task id {n} is")
          for n in (33, 37)),
        ("@initialize_queue($$@get_input_queue(0), .{ .color = @get_color(1) });", "input queue 0"),
    ],
)  # fmt: skip
def test_what_memcpy_takes_is_refused_where_the_program_has_memcpy(code: str, text: str) -> None:
    source = f"{TASK}{MEMCPY}comptime {{ {code} sys.unblock_cmd_stream; }}\n"
    check_error(source, text, memcpy=True)
    check_right(source.replace("$$", ""))


def test_pes_without_memcpy_have_all_but_its_colors() -> None:
    code = """
comptime {
  @bind_local_task(t, @get_local_task_id(27));
  @bind_control_task(t, @get_control_task_id(33));
  @initialize_queue(@get_input_queue(0), .{ .color = @get_color(1) });
}
"""
    check_right(f"{TASK}{code}", memcpy=True)
    color = f"comptime {{ @set_local_color_config($$@get_color(21), {FIELDS}); }}"
    check_error(color, "color 21 is reserved", memcpy=True)


def test_input_queue_1_and_output_queue_0_are_memcpys_on_wse3_and_microthread_0_is_shared() -> None:
    output = (
        f"{MEMCPY}comptime {{ sys.unblock_cmd_stream; }}\n"
        "comptime { @initialize_queue($$@get_output_queue(0), .{ .color = @get_color(1) }); }\n"
    )
    check_error(output, "output queue 0 is reserved", memcpy=True, architecture="wse3")
    check_right(output.replace("$$", ""), memcpy=True)
    queue = (
        f"{MEMCPY}comptime {{ sys.unblock_cmd_stream; }}\n"
        "comptime { @initialize_queue($$@get_input_queue(1), .{ .color = @get_color(1) }); }\n"
    )
    check_error(queue, "input queue 1 is reserved", memcpy=True, architecture="wse3")
    check_right(queue.replace("$$", ""), memcpy=True)
    operation = """
const d = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = @get_output_queue(2) });
fn main() void { @mov32(d, 1, $$.{ .async = true, .ut_id = @get_ut_id(0) }); }
comptime {
  @export_symbol(main);
  @initialize_queue(@get_output_queue(2), .{ .color = @get_color(1) });
}
"""
    files = {"layout.csl": LAYOUT, "pe.csl": operation}
    check_warning_in(files, "microthread 0 is used by memcpy", memcpy=True, architecture="wse3")


def test_an_operation_on_memcpys_input_queue_is_warned_of_on_wse2() -> None:
    operation = """
const d = $$@get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = @get_color(1), .input_queue = @get_input_queue(0) });
var x: u32 = 0;
fn main() void { @mov32(&x, d); }
comptime { @export_symbol(main); }
"""  # noqa: E501 - CSL
    files = {"layout.csl": LAYOUT, "pe.csl": operation}
    check_warning_in(files, "input queue 0 is used by memcpy too", memcpy=True)


def test_the_layout_configures_no_color_of_memcpy() -> None:
    layout = f"""
layout {{
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{{}});
  @set_color_config(0, 0, $$@get_color(22), {FIELDS});
}}
"""
    check_error_in({"layout.csl": layout, "pe.csl": ""}, "color 22 is reserved", memcpy=True)


DSD = (
    "const d = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(1), "
    ".output_queue = @get_output_queue(1) });\n"
)
ID = "const id = @get_local_task_id(10);\n"
ENDS = "\ncomptime { @export_symbol(main); }\n"


@pytest.mark.parametrize(
    "code",
    [
        "fn main() void { @activate($$id); }",
        "fn main() void { @mov32(d, 1, $$.{ .async = true, .activate = id }); }",
        "var b = @zeros([4]u32); const f = @allocate_fifo(b, $$.{ .activate_push = id });"
        " fn main() void { @mov32(f, d2); }",
        "comptime { @activate($$id); } fn main() void {}",
    ],
)
def test_activating_an_id_without_a_task_is_refused_wherever_it_is_said(code: str) -> None:
    d2 = DSD.replace("fabout", "fabin").replace("output", "input").replace("const d ", "const d2 ")
    check_error(f"{DSD}{d2}{ID}{code}{ENDS}", "local task id 10 is activated, but bound to no task")
    bound = f"{TASK}comptime {{ @bind_local_task(t, id); }}\n"
    check_right(f"{DSD}{d2}{ID}{bound}{code.replace('$$', '')}{ENDS}")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("f16", "-3.4028235e+38"),
        ("f16", "65520.0"),
        ("f32", "1.0e39"),
        ("f16", "@as(f16, 7.0e4)"),
        ("f16", "@as(f16, 70000)"),
        ("f16", "@as(f16, -70000)"),
    ],
)
def test_a_literal_that_a_float_type_cannot_hold_is_refused(kind: str, value: str) -> None:
    check_error(f"var x: {kind} = $${value};", f"operand overflowed precision of {kind}", body=True)


@pytest.mark.parametrize("value", ["65504.0", "-65519.0", "6.0e-8"])
def test_a_literal_that_rounds_to_a_number_is_taken(value: str) -> None:
    check_right(f"var x: f16 = {value};", body=True)


@pytest.mark.parametrize("sides", [".{ EAST, EAST }", "[2]direction{ EAST, EAST }"])
@pytest.mark.parametrize("side", ["rx", "tx"])
def test_a_direction_is_named_once(side: str, sides: str) -> None:
    routes = {"rx": ".{RAMP}", "tx": ".{WEST}"} | {side: sides}
    text = f".{{ .routes = .{{ .rx = {routes['rx']}, .tx = {routes['tx']} }} }}"
    code = f"comptime {{ @set_local_color_config(@get_color(1), $${text}); }}\n"
    check_error(code, f"'.{side}' names EAST twice")


@pytest.mark.parametrize(
    ("array", "access", "operation", "fits"),
    [
        ("[8]f32", "|i|{8} -> a[i]", "@fmovs({0}, 1.0)", True),
        ("[8]f32", "|i|{9} -> a[i]", "@fmovs({0}, 1.0)", False),
        ("[8]f32", "|i|{7} -> a[i + 1]", "@fmovs({0}, 1.0)", True),
        ("[8]f32", "|i|{8} -> a[i + 1]", "@fmovs({0}, 1.0)", False),
        ("[8]f32", "|i|{4} -> a[2 * i + 1]", "@fmovs({0}, 1.0)", True),
        ("[8]f32", "|i|{4} -> a[2 * i + 2]", "@fmovs({0}, 1.0)", False),
        ("[8]f32", "|i|{3} -> a[2 - i]", "@fmovs({0}, 1.0)", True),
        ("[8]f32", "|i|{3} -> a[1 - i]", "@fmovs({0}, 1.0)", False),
        ("[4, 2]f32", "|i, j|{4, 2} -> a[i, j]", "@fmovs({0}, 1.0)", True),
        ("[4, 2]f32", "|i, j|{4, 3} -> a[i, j]", "@fmovs({0}, 1.0)", False),
        ("[8]u16", "|i|{4} -> a[i]", "@mov32({0}, 1)", True),
        ("[8]u16", "|i|{5} -> a[i]", "@mov32({0}, 1)", False),
        ("[8]f32", "|i|{0} -> a[i]", "@fmovs({0}, 1.0)", True),
    ],
)
def test_a_dsd_that_an_operation_uses_lies_in_its_array(
    array: str, access: str, operation: str, *, fits: bool
) -> None:
    """Where both are known; one that is longer may be made, and shortened before its use."""
    kind = "mem4d_dsd" if "," in array else "mem1d_dsd"
    used = operation.format("$$d")
    code = (
        f"var a = @zeros({array});\nconst d = @get_dsd({kind}, .{{ .tensor_access = {access} }});\n"
    )
    main = f"fn main() void {{ {used}; }}{ENDS}"
    if fits:
        check_right(code + main.replace("$$", ""))
    else:
        check_error(code + main, "is too short")


KNOWN = [
    ("i8", "127.9", "128.0"), ("i8", "-128.9", "-129.0"), ("u8", "-0.9", "-1.0"),
    ("u16", "65535.5", "65536.0"), ("i16", "@as(f16, -32768.0)", "@as(f16, 32768.0)"),
    ("i32", "@as(f32, -2147483648.0)", "@as(f32, 2147483648.0)"), ("u32", "4294967295.0", "-1.5"),
    ("i64", "9223372036854774784.0", "9223372036854775808.0"), ("u5", "31.0", "32.0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "last", "beyond"), KNOWN)
def test_a_known_float_becomes_an_integer_only_of_a_type_that_has_it(
    kind: str, last: str, beyond: str
) -> None:
    """At run time it becomes the nearest that the type has: one expression, one value."""
    for top in ("comptime {{ const x = {}; }}", "fn main() void {{ const x: {kind} = {}; }} "
                "comptime {{ @export_symbol(main); }}"):  # fmt: skip
        check_right(top.format(f"@as({kind}, {last})", kind=kind))
        wrong = top.format(f"$$@as({kind}, {beyond})", kind=kind)
        check_error(wrong, f"is no integer of type '{kind}'")
