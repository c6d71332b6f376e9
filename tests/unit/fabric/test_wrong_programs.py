"""Wrong programs, one mistake each: what is said names the line, or the PE and the color."""

import re

import pytest

from appliance.core.errors import UserError
from appliance.csl.compiler import Compilation, compile_program
from appliance.csl.options import CompileOptions
from appliance.fabric.commands import Launch
from appliance.fabric.errors import FabricError, StallError, StallReport, Waiting, find_circle
from appliance.fabric.host_interface import Simulator

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 3, .height = 1 });
layout {
  @set_rectangle(3, 1);
  for (@range(u16, 3)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .x = x });
  }
  // routes
  @export_name("f", fn()void);
}
"""
PE = """
param memcpy_params;
param x: u16;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const c: color = @get_color(1);
const d: color = @get_color(2);
const c_in = @get_input_queue(2);
const d_in = @get_input_queue(3);
const c_out = @get_output_queue(4);
const d_out = @get_output_queue(5);
const done_id = @get_local_task_id(9);
var v = @zeros([8]f32);
const whole = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> v[i] });
const from_c = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = c_in });
const from_d = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = d_in });
const to_c = @get_dsd(fabout_dsd, .{ .extent = 8, .fabric_color = c, .output_queue = c_out });
const to_d = @get_dsd(fabout_dsd, .{ .extent = 8, .fabric_color = d, .output_queue = d_out });
const then_done = .{ .async = true, .activate = done_id };
task done() void { sys.unblock_cmd_stream(); }
fn f() void {
  // body
}
comptime {
  @bind_local_task(done, done_id);
  @initialize_queue(c_in, .{ .color = c });
  @initialize_queue(d_in, .{ .color = d });
  @export_symbol(f);
}
"""
WEST_TO_EAST = ((0, 1, "RAMP", "EAST"), (1, 1, "WEST", "RAMP"))


class Files:
    """Sources in memory."""

    def __init__(self, **texts: str) -> None:
        self._texts = {f"{name}.csl": text for name, text in texts.items()}

    def read(self, path: str) -> str | None:
        """Return a text."""
        return self._texts.get(path)


def compiled(layout: str, pe: str, *, arch: str = "wse2", width: int = 10) -> Compilation:
    options = CompileOptions(
        architecture=arch,
        fabric_dims=(width, 3),
        fabric_offsets=(4, 1),
        memcpy=True,
        channels=1,
    )
    return compile_program("layout.csl", options, Files(layout=layout, pe=pe))


def with_body(body: str) -> str:
    return PE.replace("// body", body)


def with_layout(text: str) -> str:
    return LAYOUT.replace("// routes", text)


def routes(*entries: tuple[int, int, str, str]) -> str:
    return " ".join(
        f"@set_color_config({x}, 0, @get_color({color}), "
        f".{{ .routes = .{{ .rx = .{{{rx}}}, .tx = .{{{tx}}} }} }});"
        for x, color, rx, tx in entries
    )


def on(*bodies: str) -> str:
    """Code that PE 0, 1 and 2 run; without code a PE is done."""
    cases = [f"if (x == {x}) {{ {body} }}" for x, body in enumerate(bodies)]
    return " else ".join(cases) + " else { @activate(done_id); }"


def failure(body: str, *entries: tuple[int, int, str, str], function: str = "f") -> FabricError:
    """Run a program until it fails."""
    return failure_with(routes(*entries), body, function)


def failure_with(layout: str, body: str, function: str = "f") -> FabricError:
    """Run a program until it fails; its routes are text of the layout."""
    found = compiled(with_layout(layout), with_body(body))
    assert found.program is not None, found.render()
    simulator = Simulator(found.program)
    simulator.submit(Launch(function))
    again = simulator.submit(Launch(function))
    with pytest.raises(FabricError) as error:
        simulator.wait(again)
    return error.value


IDLE = "@activate(done_id);"
SEND = "@fmovs(to_c, whole, then_done);"
TAKE = "@fmovs(whole, from_c, then_done);"


TOO_LARGE = with_body("v[0] = 1.0;").replace("[8]f32", "[13000]f32")


@pytest.mark.parametrize(
    ("layout", "pe", "line"),
    [
        (LAYOUT, with_body("nothing = 3;"), "pe.csl:21:3: error: use of undeclared identifier"),
        (LAYOUT, with_body("v[0] = true;"), "pe.csl:21:10: error: .* expected type 'f32'"),
        ("param width: u16;" + LAYOUT.replace("(3, 1)", "(width, 1)"), PE, "--params=width:VALUE"),
        (
            with_layout('@set_tile_code(1, 0, "pe.csl", .{ .x = 1 });'),
            PE,
            r"layout.csl:8:3: error: PE \(1, 0\) already has code",
        ),
        (LAYOUT.replace("(3, 1)", "(4, 1)"), PE, r"layout.csl:.* PE \(3, 0\) has no code"),
        (
            with_layout(routes((0, 24, "RAMP", "EAST"))),
            PE,
            "layout.csl:8:.* color 24 is outside 0 to 23",
        ),
        (LAYOUT, TOO_LARGE, r"PE \(0, 0\) needs [0-9]+ bytes of memory"),
        (LAYOUT, TOO_LARGE, r"52000 bytes  v: \[13000\]f32"),
    ],
)
def test_the_compiler_names_the_line(layout: str, pe: str, line: str) -> None:
    found = compiled(layout, pe)
    assert found.program is None
    assert re.search(line, found.render()), found.render()


def test_a_fabric_that_is_too_small_for_memcpy_is_refused() -> None:
    found = compiled(LAYOUT, PE, width=9)
    assert found.program is None
    assert "at least 10-by-3 with memcpy, got 9-by-3" in found.render()


def test_a_switch_needs_a_color_that_has_one() -> None:
    switch = ".switches = .{ .pos1 = .{ .tx = WEST } }"
    config = f".{{ .routes = .{{ .rx = .{{RAMP}}, .tx = .{{EAST}} }}, {switch} }}"
    pe = re.sub(r"\.fabric_color = ., ", "", PE)
    found = compiled(
        with_layout(f"@set_color_config(0, 0, @get_color(10), {config});"), pe, arch="wse3"
    )
    assert found.program is None
    assert re.search("layout.csl:8:.*color 10 has no switches on wse3", found.render())


def test_a_name_that_no_pe_exports_is_refused_when_it_is_used() -> None:
    found = compiled(with_layout('@export_name("g", fn()void);'), PE)
    assert found.program is not None, found.render()
    simulator = Simulator(found.program)
    with pytest.raises(UserError, match=r"The PEs of pe\.csl do not export 'g'"):
        simulator.wait(simulator.submit(Launch("g")))
    with pytest.raises(UserError, match="exports no function 'h'"):
        simulator.submit(Launch("h"))


def test_two_operations_on_one_queue_are_both_named() -> None:
    both = f"{TAKE}\n @fadds(to_d, whole, from_c, then_done);"
    text = str(failure(on(SEND, both, IDLE), *WEST_TO_EAST))
    assert text.startswith("PE (1, 0) at pe.csl:22:")
    assert "input queue 2 (color 1) is still in use by the operation at pe.csl:21:" in text


def test_two_wavelets_of_a_color_in_one_cycle_name_who_sent_them() -> None:
    both = ((0, 1, "RAMP", "EAST"), (1, 1, "WEST, EAST", "RAMP"), (2, 1, "RAMP", "WEST"))
    text = str(failure(on(SEND, TAKE, SEND), *both))
    assert text.startswith("PE (1, 0): color 1 arrived from West and East on the same cycle")
    assert re.search(r"sent by PE \(0, 0\) at pe.csl:21:\d+ and PE \(2, 0\) at pe.csl:21:", text)


def test_an_assertion_names_its_line() -> None:
    assert str(failure("@assert(x != 1);")).startswith("PE (1, 0) at pe.csl:21:3: @assert does")


def test_a_function_that_does_not_let_the_next_command_start_is_named() -> None:
    text = str(failure(on(IDLE, "", IDLE)))
    assert "until 3 PEs have called unblock_cmd_stream since 'f' was launched; 2 have." in text
    assert "PE (1, 0) has not; f is at pe.csl:20:" in text


def report(error: FabricError) -> StallReport:
    assert isinstance(error, StallError)
    return error.report


def test_who_waits_for_each_other_is_told_as_a_circle() -> None:
    first = "@fadds(to_d, whole, from_c, then_done);"
    second = "@fadds(to_c, whole, from_d, then_done);"
    back = ((0, 1, "EAST", "RAMP"), (1, 1, "RAMP", "WEST"))
    forth = ((0, 2, "RAMP", "EAST"), (1, 2, "WEST", "RAMP"))
    error = failure(on(first, second, IDLE), *back, *forth)
    one, other = report(error).waiting
    assert "waits for a wavelet in input queue 2 (color 1), 8 elements to go" in one.what
    assert "PE (1, 0) would have to send it, which waits itself" in one.what
    assert one.where.startswith("pe.csl:21:")
    assert other.on == ((0, 0),)
    circle = "PE (0, 0) for color 1 from PE (1, 0) for color 2 from PE (0, 0)"
    assert f"These wait for each other in a circle: {circle}." in str(error)


def test_a_sender_that_has_nothing_more_to_do_is_named() -> None:
    error = failure(
        on(f"if (v[0] > 9.0) {{ {SEND} }} else {{ {IDLE} }}", TAKE, IDLE), *WEST_TO_EAST
    )
    (entry,) = report(error).waiting
    assert "PE (0, 0) would have to send it, where nothing runs" in entry.what
    assert "circle" not in str(error)


def test_a_sender_whose_code_never_sends_the_color_is_told_so() -> None:
    error = failure(on(IDLE, TAKE, IDLE), *WEST_TO_EAST)
    (entry,) = report(error).waiting
    assert "PE (0, 0) would have to send it, but nothing in pe.csl sends color 1" in entry.what
    assert "circle" not in str(error)


def test_a_color_without_a_route_to_who_waits_is_told() -> None:
    (entry,) = report(failure(on(IDLE, TAKE, IDLE))).waiting
    assert "no PE has a route of color 1 that leads here" in entry.what


SWITCHED_AT_1 = (1, ".rx = .{WEST}, .tx = .{EAST}", ".pos1 = .{ .tx = RAMP }")
SWITCHED_AT_0 = (0, ".rx = .{RAMP}, .tx = .{RAMP}", ".pos1 = .{ .tx = EAST }")
SWITCHED_AT_1_ELSEWHERE = (1, ".rx = .{WEST}, .tx = .{EAST}", ".pos1 = .{ .rx = EAST }")


@pytest.mark.parametrize(
    ("switched", "others", "said"),
    [
        (SWITCHED_AT_1, WEST_TO_EAST[:1], "of the switch of PE (1, 0) one would"),
        (SWITCHED_AT_0, WEST_TO_EAST[1:], "of the switch of PE (0, 0) one would"),
        (SWITCHED_AT_1_ELSEWHERE, WEST_TO_EAST[:1], "no PE has a route of color 1 that leads here"),
    ],
)
def test_a_switch_that_nothing_has_turned_is_named(
    switched: tuple[int, str, str], others: tuple[tuple[int, int, str, str], ...], said: str
) -> None:
    x, route, position = switched
    config = f".{{ .routes = .{{ {route} }}, .switches = .{{ {position} }} }}"
    layout = f"{routes(*others)} @set_color_config({x}, 0, @get_color(1), {config});"
    (entry,) = report(failure_with(layout, on(IDLE, TAKE, IDLE))).waiting
    assert said in entry.what


def test_data_that_no_task_and_no_operation_takes_name_who_sends_them() -> None:
    twice = f"@fmovs(to_c, whole); {SEND}"
    error = failure(on(twice, IDLE, IDLE), *WEST_TO_EAST)
    found = {(each.x, each.what): each for each in report(error).waiting}
    taken = next(each for (x, what), each in found.items() if x == 1 and "input queue" in what)
    assert re.match(
        r"\d wavelets of color 1 wait in input queue 2; no operation and no task on this PE takes",
        taken.what,
    )
    assert taken.where.startswith("pe.csl:21:")
    assert any(x == 0 and "PE (1, 0) would have to take it" in what for x, what in found)


def test_a_route_that_ends_nowhere_is_told_where() -> None:
    thrice = f"@fmovs(to_c, whole); @fmovs(to_c, whole); {SEND}"
    error = failure(on(thrice, IDLE, IDLE), (0, 1, "RAMP", "EAST"))
    end = "the route of color 1 ends at PE (1, 0), which does not receive it from the West"
    assert any(end in each.what for each in report(error).waiting)


def test_a_task_that_is_blocked_for_ever_is_named() -> None:
    (entry, *_) = report(failure("@block(done_id); @activate(done_id);")).waiting
    assert entry.what == "local task 9 (done) is active but blocked"
    assert entry.where.startswith("pe.csl:19:")


def waits(place: tuple[int, int], *others: tuple[int, int]) -> Waiting:
    return Waiting(x=place[0], y=place[1], what="", where="", since=0, color=1, on=others)


def test_a_circle_needs_that_nobody_outside_could_help() -> None:
    a, b, c, d = (0, 0), (1, 0), (2, 0), (3, 0)
    ring = (waits(a, b), waits(b, c), waits(c, b))
    assert [(each.x, each.y) for each in find_circle(ring)] == [b, c]
    assert find_circle((waits(a, b), waits(b, c, d), waits(c, b))) == ()
    assert find_circle((waits(a, b),)) == ()
    assert find_circle(()) == ()
