# ruff: noqa: E501 - rows of a table
"""Routes and switch positions."""

from tests.support.csl_coverage.rows import LAYOUT, Row

_CONFIGURE = '@set_color_config(0, 0, @get_color(4), {});\n  @export_name("out"'
_TOP = """
const control = @import_module("<control>");
const c = @get_color(4);
const oq = @get_output_queue(3);
const iq = @get_input_queue(2);
const to = @get_dsd(fabout_dsd, .{ .fabric_color = c, .extent = 1, .output_queue = oq });
const command = @get_dsd(fabout_dsd, .{ .fabric_color = c, .extent = 1, .output_queue = oq, .control = true });
const data_id: data_task_id = @get_data_task_id(if (@is_arch("wse2")) c else iq);
task receive(x: u32) void { out[0] += @as(i32, x); out[1] += 1; }
comptime {
  @bind_data_task(receive, data_id);
  @initialize_queue(iq, .{ .color = c });
  @initialize_queue(oq, if (@is_arch("wse3")) .{ .color = c } else .{});
}
fn advance() void { @mov32(command, control.encode_single_payload(control.opcode.SWITCH_ADV, true, {}, 0)); }
"""


def _layout(configuration: str) -> str:
    return LAYOUT.replace('@export_name("out"', _CONFIGURE.format(configuration), 1)


def _row(
    says: str, configuration: str, body: str, out: tuple[int, ...], *architectures: str
) -> Row:
    return Row(
        page="routes",
        says=says,
        top=_TOP,
        body=body,
        out=out,
        architectures=architectures or ("wse2", "wse3"),
        files={"layout.csl": _layout(configuration)},
    )


_AWAY = "for (@range(u16, 20)) |i| @mov32(to, 1);"
_RING = ".ring_mode = true, .pop_mode = .{ .always_pop = true } }"
ROWS = (
    _row(
        "what is sent to nowhere is dropped, and the operation ends",
        ".{ .routes = .{ .rx = .{ RAMP }, .tx = .{} } }",
        f"{_AWAY} out[2] = 9;",
        (0, 0, 9),
    ),
    _row(
        "a switch position changes the output to nowhere, and a command there acts",
        ".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } }, .switches = .{ .pos1 = .{ .tx = .{} }, "
        + _RING
        + " }",
        f"@mov32(to, 5); advance(); {_AWAY} advance(); @mov32(to, 7); out[2] = 9;",
        (12, 2, 9),
    ),
    _row(
        "a switch position of both sides has no output",
        ".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } }, "
        ".switches = .{ .pos1 = .{ .rx = RAMP, .tx = .{} }, " + _RING + " }",
        f"@mov32(to, 5); advance(); {_AWAY} advance(); @mov32(to, 7); out[2] = 9;",
        (12, 2, 9),
        "wse3",
    ),
    _row(
        "a side that a switch position does not name stays",
        ".{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } }, .switches = .{ .pos1 = .{ .rx = RAMP }, "
        ".current_switch_pos = 1, " + _RING + " }",
        "@mov32(to, 5); @mov32(to, 7); out[2] = 9;",
        (12, 2, 9),
    ),
    Row(
        page="routes",
        says="the priority of an input queue is a register",
        top="const address: u16 = 0x7f5a * 2;",
        body="out[0] = @bitcast(*u16, address).*; @bitcast(*u16, address).* |= 0x200;"
        " out[1] = @bitcast(*u16, address).*; @set_config(0x7f5a, 0); out[2] = @get_config(0x7f5a);",
        out=(0x100, 0x200, 0),
        architectures=("wse2",),
    ),
    Row(
        page="routes",
        says="a control wavelet names a data task, which takes its low half",
        top=_TOP.replace("x: u32", "x: u16"),
        body="@mov32(command, control.encode_single_payload(control.opcode.NOP, false, "
        "@get_control_task_id(4), 77)); @mov32(to, 5); out[2] = 9;",
        out=(82, 2, 9),
        architectures=("wse2",),
        files={"layout.csl": _layout(".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }")},
    ),
    Row(
        page="routes",
        says="a control wavelet names a local task",
        top=_TOP + "task local() void { out[3] += 1; } "
        "comptime { @bind_local_task(local, @get_local_task_id(12)); }",
        body="@mov32(command, control.encode_single_payload(control.opcode.NOP, false, "
        "@get_control_task_id(12), 77)); out[2] = 9;",
        out=(0, 0, 9, 1),
        architectures=("wse2",),
        files={"layout.csl": _layout(".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }")},
    ),
    Row(
        page="routes",
        says="streams that are not given are color 32 where the others are colors",
        top="const h1 = memcpy_params.MEMCPYH2D_1; const h2: color = memcpy_params.MEMCPYH2D_2;",
        body="out[0] = @get_int(h1); out[1] = @get_int(h2);",
        out=(5, 32),
        files={
            "layout.csl": LAYOUT.replace(
                ".height = 1 }", ".height = 1, .MEMCPYH2D_1 = @get_color(5) }"
            )
        },
    ),
    Row(
        page="routes",
        says="streams that are not given are nothing where the others are numbers",
        top="const h2 = memcpy_params.MEMCPYH2D_2;",
        body="out[0] = if (@type_of(h2) == void) 1 else 0;",
        out=(1,),
        files={"layout.csl": LAYOUT.replace(".height = 1 }", ".height = 1, .MEMCPYH2D_1 = 5 }")},
    ),
)
