"""Operations and tasks on streams of wavelets: on the kernel and the reference, cycle for cycle."""

import numpy as np
import pytest

from tests.support.csl import check_error, program_of
from tests.support.fabric_pair import run_both

LAYOUT = """
layout {
  @set_rectangle(WIDTH, 1);
  for (@range(i16, WIDTH)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .x = x });
  }
  @export_name("main", fn () void);
}
"""
PE = """
param x: i16;
var out = @zeros([16]u32);
export var where: *[16]u32 = &out;
const c = @get_color(2);
const d = @get_color(4);
const iq = @get_input_queue(2);
const oq = @get_output_queue(3);
const local = @get_local_task_id(12);
const other = @get_local_task_id(13);
const data = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = oq });
const control = @get_dsd(
  fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = oq, .control = true });
const from = @get_dsd(fabin_dsd, .{ .extent = 4, .fabric_color = c, .input_queue = iq });
const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> out[i] });
comptime {
  @set_local_color_config(c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{RAMP} } });
  @initialize_queue(iq, .{ .color = c });
  if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = c }); }
  @export_symbol(main);
}
"""
TASKS = """
task ended() void { out[8] += 1; }
task stopped() void { out[9] += 1; }
comptime { @bind_local_task(ended, local); @bind_local_task(stopped, other); }
"""


def out_of(code: str, architecture: str, *, top: str = PE, width: int = 1) -> list[list[int]]:
    """What the array `out` of each PE holds once `main` has run and nothing moves."""
    texts = {"layout.csl": LAYOUT.replace("WIDTH", str(width)), "pe.csl": top + code}
    program = program_of(texts, architecture=architecture)
    launched = {}
    for number in range(width):
        exports = program.classes[program.grid.code_class(number, 0)].exports
        (launched[number],) = [e.function for e in exports if e.function is not None]
    outcome = run_both(program, launched, limit=3000)
    assert outcome.fault == ""
    found = []
    for number, memory in enumerate(outcome.memory):
        variables = program.classes[program.grid.code_class(number, 0)].variables
        (variable,) = [v for v in variables if v.name == "out"]
        found.append(np.frombuffer(memory, np.uint32, 16, variable.address).tolist())
    return found


ARCHITECTURES = pytest.mark.parametrize("architecture", ["wse2", "wse3"])


@ARCHITECTURES
@pytest.mark.parametrize("settings", [".{ .async = true, .activate = ended }", ""])
def test_an_operation_that_was_told_nothing_takes_a_control_wavelet_as_data(
    settings: str, architecture: str
) -> None:
    send = "@mov32(data, 7); @mov32(control, 5); @mov32(data, 8); @mov32(control, 6);"
    receive = f"@mov32(all, from{', ' if settings else ''}{settings});"
    body = receive + send if settings else send + receive
    (found,) = out_of(f"{TASKS} fn main() void {{ {body} }}", architecture)
    assert found[:4] == [7, 5, 8, 6]
    assert found[8] == bool(settings)


@ARCHITECTURES
@pytest.mark.parametrize(
    ("on_control", "has_ended", "has_stopped"),
    [
        (".terminate = true", 1, 0),
        (".activate = stopped", 0, 1),
        (".activate = other", 0, 1),
        (".unblock = stopped", 0, 1),
    ],
)
def test_a_control_wavelet_ends_an_operation_and_what_it_was_told_follows(
    on_control: str, has_ended: int, has_stopped: int, architecture: str
) -> None:
    """The next operation can have the queue: the first one holds it no longer."""
    block = "comptime { @block(other); @activate(other); }" if "unblock" in on_control else ""
    code = f"""
{TASKS}{block}
task again() void {{
  @mov32(@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{2}} -> out[i + 4] }}),
         @get_dsd(fabin_dsd, .{{ .extent = 2, .fabric_color = c, .input_queue = iq }}));
}}
comptime {{ @bind_local_task(again, @get_local_task_id(14)); }}
fn main() void {{
  @mov32(all, from, .{{ .async = true, .activate = ended, .on_control = .{{ {on_control} }} }});
  @mov32(data, 7); @mov32(control, 5); @mov32(data, 8); @mov32(data, 9);
  @activate(@get_local_task_id(14));
}}
"""
    (found,) = out_of(code, architecture)
    assert found[:6] == [7, 0, 0, 0, 8, 9]
    assert found[8:10] == [has_ended, has_stopped]


@ARCHITECTURES
@pytest.mark.parametrize(
    ("dest", "source", "is_asynchronous"),
    [
        ("memory", "from", True),  # a plain memory DSR beside a fabric DSD with settings
        ("all", "plain", False),
        ("all", "running", True),  # the settings of the fabric operand's DSR
        ("memory", "running", True),
        ("memory", "plain", False),
    ],
)
def test_the_fabric_operand_says_how_an_operation_runs(
    dest: str, source: str, is_asynchronous: bool, architecture: str
) -> None:
    code = f"""
{TASKS}
const memory = @get_dsr(dsr_dest, 1);
const plain = @get_dsr(dsr_src1, 2);
const running = @get_dsr(dsr_src1, 3);
fn main() void {{
  @load_to_dsr(memory, all);
  @load_to_dsr(plain, from);
  @load_to_dsr(running, from, .{{ .async = true, .activate = local }});
  @mov32(data, 1); @mov32(data, 2); @mov32(data, 3); @mov32(data, 4);
  @mov32({dest}, {source}{", .{ .async = true, .activate = local }" if source == "from" else ""});
  out[10] = out[3];
}}
"""
    (found,) = out_of(code, architecture)
    assert found[:4] == [1, 2, 3, 4]
    assert (found[8], found[10]) == ((1, 0) if is_asynchronous else (0, 4))


OLD = """
param x: i16;
var out = @zeros([16]u32);
const local = @get_local_task_id(30);
fn route(comptime n: u16) void {
  @set_local_color_config(@get_color(n), .{ .routes = .{ .rx = .{RAMP}, .tx = .{RAMP} } });
}
comptime { route(2); route(4); @export_symbol(main); }
const to2 = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(2) QUEUE });
const to4 = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(4) QUEUE });
const all = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> out[i] });
fn at(comptime k: u16) mem1d_dsd {
  return @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> out[i + k] });
}
"""


@pytest.mark.parametrize("output", [", .output_queue = @get_output_queue(1)", ""])
@pytest.mark.parametrize("inputs", [(1, 1), (1, 2), (None, None), (1, None)])
def test_operations_of_wse2_take_the_wavelets_of_the_color_that_they_name(
    inputs: tuple[int | None, int | None], output: str
) -> None:
    """Whether two colors share a queue, have queues of their own, or name none."""
    fabin = [
        f"@get_dsd(fabin_dsd, .{{ .extent = 1, .fabric_color = @get_color({color})"
        + (f", .input_queue = @get_input_queue({queue})" if queue is not None else "")
        + " })"
        for color, queue in zip((2, 4), inputs, strict=True)
    ]
    code = f"""
fn main() void {{
  @mov32(to4, 44); @mov32(to2, 22);
  @mov32(at(1), {fabin[1]}); @mov32(at(0), {fabin[0]});
}}
"""
    (found,) = out_of(code, "wse2", top=OLD.replace("QUEUE", output))
    assert found[:2] == [22, 44]


@pytest.mark.parametrize("num_tasks", [1, 8, 9, 20])
@pytest.mark.parametrize("num_used", [0, 3, 8])
def test_data_tasks_of_wse2_may_be_more_than_its_input_queues(
    num_tasks: int, num_used: int
) -> None:
    colors = [n for n in range(24) if n not in (2, 4)][:num_tasks]
    tasks = "".join(
        f"task t{n}(w: u32) void {{ out[0] += w; out[1] += 1; }}\n"
        f"const to{n} = @get_dsd(fabout_dsd, .{{ .extent = 1, .fabric_color = @get_color({n}),"
        f" .output_queue = @get_output_queue(3) }});\n"
        f"comptime {{ route({n}); @bind_data_task(t{n}, @get_data_task_id(@get_color({n}))); }}\n"
        for n in colors
        if n not in (2, 4)
    )
    used = "".join(
        f"comptime {{ @initialize_queue(@get_input_queue({k}),"
        f" .{{ .color = @get_color({[2, 4, *range(20, 24), 18, 19][k]}) }}); }}\n"
        for k in range(num_used)
    )
    used = used if num_tasks <= 9 else ""
    sends = "".join(f"@mov32(to{n}, {n + 1}); " for n in colors)
    top = OLD.replace("QUEUE", ", .output_queue = @get_output_queue(1)").replace("to2", "_to2")
    top = top.replace("to4", "_to4")
    (found,) = out_of(f"{tasks}{used}fn main() void {{ {sends} }}", "wse2", top=top)
    assert found[:2] == [sum(n + 1 for n in colors), num_tasks]


FABIN = "@get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = @get_color(%s), .input_queue = %s })"
ENDS = "}\ncomptime { @export_symbol(main); }\n"
MEMORY = (
    "var a = @zeros([1]u32);\n"
    "const m = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> a[i] });\nfn main() void {\n"
)


def test_a_queue_of_wse3_that_carries_another_color_is_refused_with_both() -> None:
    begins = "comptime { @initialize_queue(@get_input_queue(2), .{ .color = @get_color(3) }); }\n"
    code = f"{begins}{MEMORY} @mov32(m, $${FABIN % (5, '@get_input_queue(2)')}); {ENDS}"
    check_error(
        code, "input queue 2 carries color 3; this DSD expects color 5", architecture="wse3"
    )


def test_more_colors_without_a_queue_than_queues_share_them() -> None:
    colors = [n for n in range(24) if n not in (2, 4)][:8]
    sends = "".join(
        f"@mov32(@get_dsd(fabout_dsd, .{{ .extent = 1, .fabric_color = @get_color({n}) }}), {n});"
        for n in colors
    )
    receives = "".join(
        f"@mov32(at({k}), {FABIN % (n, '@get_input_queue(1)')});" for k, n in enumerate(colors)
    )
    routes = "".join(f"comptime {{ route({n}); }}\n" for n in colors)
    top = OLD.replace("QUEUE", "")
    (found,) = out_of(f"{routes}fn main() void {{ {sends}{receives} }}", "wse2", top=top)
    assert found[:8] == colors


@ARCHITECTURES
def test_a_wavelet_that_leaves_the_rectangle_holds_no_copy_of_it_back(architecture: str) -> None:
    """Every PE has the same routes, so the last one sends east, out of the rectangle."""
    top = PE.replace("comptime {\n  @set_local", "comptime {\n  if (false) @set_local")
    code = """
comptime { @set_local_color_config(c, .{ .routes = .{
  .rx = .{ if (x == 0) RAMP else WEST }, .tx = .{ RAMP, EAST } } }); }
fn main() void {
  if (x == 0) { @mov32(data, 5); @mov32(data, 6); @mov32(data, 7); @mov32(data, 8); }
  @mov32(all, from);
}
"""
    found = out_of(code, architecture, top=top, width=3)
    assert [each[:4] for each in found] == [[5, 6, 7, 8]] * 3


RELAY = """
const ctrl = @import_module("<control>");
const oq2 = @get_output_queue(4);
const iq2 = @get_input_queue(5);
const marked = @get_dsd(
  fabin_dsd, .{ .extent = 4, .fabric_color = c, .input_queue = iq, .control_transform = true });
const onward = @get_dsd(
  fabout_dsd, .{ .extent = 4, .fabric_color = d, .output_queue = oq2, .control_transform = SENDS });
const id = @get_data_task_id(if (@is_arch("wse3")) iq2 else d);
const told = @get_control_task_id(40);
var room = @zeros([2]u32);
const fifo = @allocate_fifo(room);
task take(x: u32) void { out[out[15]] = x; out[15] += 1; }
task tell(x: u16) void { out[8] = x; out[9] = out[15]; }
fn main() void {
  @mov32(fifo, marked, .{ .async = true });
  @mov32(onward, fifo, .{ .async = true });
  @mov32(data, 0x3fff0007);
  @mov32(data, 0x80000001);
  @mov32(control, ctrl.encode_single_payload(ctrl.opcode.NOP, false, told, 9));
  @mov32(data, 5);
}
comptime {
  @set_local_color_config(d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{RAMP} } });
  @initialize_queue(iq2, .{ .color = d });
  if (@is_arch("wse3")) { @initialize_queue(oq2, .{ .color = d }); }
  @bind_data_task(take, id);
  @bind_control_task(tell, told);
}
"""


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_a_control_wavelet_passes_a_fifo_by_control_transform(architecture: str) -> None:
    (out,) = out_of(RELAY.replace("SENDS", "true"), architecture)
    assert out[:3] == [0x3FFF0007, 0x80000001, 5]
    assert (out[8], out[9], out[15]) == (9, 2, 3)


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_what_was_a_control_wavelet_is_data_with_two_bits_without_a_transform(
    architecture: str,
) -> None:
    (out,) = out_of(RELAY.replace("SENDS", "false"), architecture)
    assert out[2] >> 30 == 3
    assert (out[2] & 0xFFFF, out[8], out[15]) == (9, 0, 4)


MIXED = """
var h = [4]f16{ 1.0, 2.0, 3.0, 4.5 };
var s = [4]f32{ 10.25, 20.0, 30.0, 40.0 };
var e = @zeros([4]f32);
const hd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> h[i] });
const sd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> s[i] });
const ed = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> e[i] });
var half: f16 = 0.5;
var single: f32 = 0.125;
const h0 = @get_dsr(dsr_src0, 2); const s0 = @get_dsr(dsr_src0, 3);
const s1 = @get_dsr(dsr_src1, 2);
const h1 = @get_dsr(dsr_src1, 3); const e0 = @get_dsr(dsr_dest, 2);
var room = @zeros([4]f16);
const fifo = @allocate_fifo(room);
fn main() void {
  BODY
  for (e) |v, i| { out[i] = @as(u32, 1000.0 * v); }
  out[4] = @as(u32, 1000.0 * single);
}
"""
MIXES = [
    # What is done, the four sums of it in thousandths, then the number behind the pointer.
    ("@faddhs(ed, hd, sd);", [11250, 22000, 33000, 44500], 125),
    ("@faddhs(ed, sd, hd);", [11250, 22000, 33000, 44500], 125),
    ("@faddhs(ed, half, sd);", [10750, 20500, 30500, 40500], 125),
    ("@faddhs(ed, sd, half);", [10750, 20500, 30500, 40500], 125),
    ("@faddhs(ed, sd, 0.5);", [10750, 20500, 30500, 40500], 125),
    ("@faddhs(ed, single, hd);", [1125, 2125, 3125, 4625], 125),
    ("@faddhs(ed, hd, single);", [1125, 2125, 3125, 4625], 125),
    ("@faddhs(&single, single, hd);", [0, 0, 0, 0], 10625),
    ("@faddhs(&single, 0.25, hd);", [0, 0, 0, 0], 10750),
    ("@load_to_dsr(e0, ed); @load_to_dsr(s0, sd); @load_to_dsr(h1, hd); @faddhs(e0, s0, h1);",
     [11250, 22000, 33000, 44500], 125),
    ("@load_to_dsr(h0, hd); @load_to_dsr(s1, sd); @faddhs(ed, h0, s1);",
     [11250, 22000, 33000, 44500], 125),
    ("@fmovh(fifo, hd); @faddhs(ed, sd, fifo);", [11250, 22000, 33000, 44500], 125),
    ("@fmovh(fifo, hd); @set_fifo_read_length(fifo, 3); @faddhs(&single, single, fifo);",
     [0, 0, 0, 0], 6125),
    ("@fmovh(fifo, hd); @set_fifo_read_length(fifo, 6); @faddhs(&single, single, fifo);",
     [0, 0, 0, 0], 125),
]  # fmt: skip


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize(("work", "sums", "single"), MIXES)
def test_numbers_of_16_and_of_32_bits_are_added_in_either_order(
    work: str, sums: list[int], single: int, architecture: str
) -> None:
    (out,) = out_of(MIXED.replace("BODY", work), architecture)
    assert out[:5] == [*sums, single]


NAMED = """
var given = [4]u32{ 1, 2, 3, 4 };
const to = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = oq });
const got = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq });
const mem = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> given[i] });
const dest = @get_dsr(dsr_dest, 1); const source = @get_dsr(dsr_src1, 1);
var told: u16 = BLOCKED;
fn main() void {
  const blocked: ut_id = @get_ut_id(told);
  @block(blocked);
  WORK
  @mov32(OTHER, .{ .async = true, .ut_id = @get_ut_id(7) });
}
"""
SENDS, RECEIVES = "to, mem", "all, got"
RUN = ".async = true, .ut_id = @get_ut_id"
NUMBERS = [
    # The operation, what runs beside it, the number of its microthread.
    (f"@mov32(all, got, .{{ {RUN}(5) }});", SENDS, 5),
    (f"@load_to_dsr(dest, all, .{{ {RUN}(3) }}); @load_to_dsr(source, got, .{{ {RUN}(4) }});"
     f"@mov32(dest, source, .{{ {RUN}(5) }});", SENDS, 3),
    (f"@load_to_dsr(dest, all); @load_to_dsr(source, got, .{{ {RUN}(4) }});"
     f"@mov32(dest, source, .{{ {RUN}(5) }});", SENDS, 4),
    (f"@load_to_dsr(source, got, .{{ {RUN}(4) }}); @mov32(all, source, .{{ {RUN}(5) }});",
     SENDS, 5),
    (f"@load_to_dsr(source, got, .{{ {RUN}(4) }}); @mov32(all, source);", SENDS, 4),
    (f"@load_to_dsr(dest, to, .{{ {RUN}(3) }}); @mov32(dest, mem, .{{ {RUN}(5) }});", RECEIVES, 3),
    (f"@load_to_dsr(source, mem); @mov32(to, source, .{{ {RUN}(5) }});", RECEIVES, 5),
    ("@mov32(all, got, .{ .async = true });", SENDS, 2),
    ("@mov32(to, mem, .{ .async = true });", RECEIVES, 3),
]  # fmt: skip


@pytest.mark.parametrize(("work", "other", "number"), NUMBERS)
def test_the_first_operand_that_has_one_says_the_number_of_a_microthread(
    work: str, other: str, number: int
) -> None:
    code = NAMED.replace("WORK", work).replace("OTHER", other)
    (stopped,) = out_of(code.replace("BLOCKED", str(number)), "wse3")
    (free,) = out_of(code.replace("BLOCKED", "6"), "wse3")
    assert (stopped[:4], free[:4]) == ([0] * 4, [1, 2, 3, 4])


# What each of two DSRs of one operation was loaded with, where its destination is, and which tasks
# its end activates: `ended` and `stopped`.
_RUNS = ".async = true"
_ENDED, _STOPPED = f"{_RUNS}, .activate = ended", f"{_RUNS}, .activate = stopped"
ENDINGS = [
    (_ENDED, _RUNS, "all", (1, 0)),
    (_RUNS, _ENDED, "all", (1, 0)),
    (_ENDED, _STOPPED, "all", (1, 1)),
    (_ENDED, _ENDED, "all", (1, 0)),
    ("", _ENDED, "all", (1, 0)),
    (_RUNS, _RUNS, "all", (0, 0)),
    (_ENDED, _RUNS, "on", (1, 0)),
    (_RUNS, _ENDED, "on", (1, 0)),
    (_ENDED, _STOPPED, "on", (1, 1)),
    (_ENDED, "", "on", (1, 0)),
    ("", _ENDED, "on", (1, 0)),
    (_RUNS, _RUNS, "on", (0, 0)),
]
ON = """
const aside = @get_output_queue(2);
const on = @get_dsd(fabout_dsd, .{ .extent = 4, .fabric_color = d, .output_queue = aside });
const dest = @get_dsr(dsr_dest, 1);
const source = @get_dsr(dsr_src1, 1);
comptime {
  @set_local_color_config(d, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
  if (@is_arch("wse3")) { @initialize_queue(aside, .{ .color = d }); }
}
"""


@ARCHITECTURES
@pytest.mark.parametrize(("dest", "source", "to", "expected"), ENDINGS)
def test_the_end_of_an_operation_does_what_each_of_its_registers_says(
    dest: str, source: str, to: str, expected: tuple[int, int], architecture: str
) -> None:
    code = f"""
fn main() void {{
  @load_to_dsr(dest, {to}, .{{ {dest} }}); @load_to_dsr(source, from, .{{ {source} }});
  @mov32(dest, source, .{{ .async = true }});
  @mov32(data, 7); @mov32(data, 8); @mov32(data, 9); @mov32(data, 10);
}}
"""
    (out,) = out_of(TASKS + ON + code, architecture)
    assert (out[8], out[9]) == expected


@ARCHITECTURES
def test_a_control_wavelet_does_what_its_own_stream_says(architecture: str) -> None:
    code = """
fn main() void {
  @load_to_dsr(dest, on, .{ .async = true, .activate = ended });
  @load_to_dsr(source, from, .{ .on_control = .{ .activate = stopped } });
  @mov32(dest, source, .{ .async = true });
  @mov32(data, 7); @mov32(control, 0);
}
"""
    (out,) = out_of(TASKS + ON + code, architecture)
    assert (out[8], out[9]) == (0, 1)
