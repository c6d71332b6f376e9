"""Code that computes without an end ends the run, with its line."""

import pytest

from appliance.core.errors import UserError
from appliance.fabric.commands import Launch
from appliance.fabric.host_interface import Simulator, SimulatorOptions
from appliance.sdk.host.checks import task_cycles
from appliance.sdk.symbols import HostCallError
from tests.support.csl import program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0), .here = false });
  @set_tile_code(1, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(1), .here = true });
  @export_name("main", fn () void);
}
"""
PE = """
param memcpy_params; param here: bool;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var n: u32 = 0; var flag: u16 = 0;
const later_id = @get_local_task_id(9);
task later() void { LATER }
fn turn() void { n += 1; }
fn main() void {
  if (here) {
    BODY
  }
  sys.unblock_cmd_stream();
}
comptime { @bind_local_task(later, later_id); @export_symbol(main); }
"""
LOOPS = [
    ("while (true) { n += 1; }", "", 10),
    ("while (flag == 0) {}", "", 10),
    ("while (flag == 0) { turn(); }", "", 10),
    ("@activate(later_id);", "while (true) { n += 1; }", 6),
    ("for (@range(u16, 65535)) |_| { n += 1; for (@range(u16, 65535)) |k| { n *= 3; } }", "", 10),
]


def simulator(body: str, later: str, cycles: int) -> Simulator:
    texts = {"layout.csl": LAYOUT, "pe.csl": PE.replace("BODY", body).replace("LATER", later)}
    options = SimulatorOptions(task_cycles=cycles, slice_work=5_000)
    return Simulator(program_of(texts, memcpy=True), options=options)


def run(simulated: Simulator) -> None:
    simulated.wait(simulated.submit(Launch("main")))
    simulated.drain()


@pytest.mark.parametrize(("body", "later", "line"), LOOPS)
def test_code_without_an_end_is_told_with_its_line(body: str, later: str, line: int) -> None:
    simulated = simulator(body, later, 50_000)
    with pytest.raises(UserError) as caught:
        run(simulated)
    assert f"PE (1, 0) at pe.csl:{line}:" in str(caught.value)
    assert "cycles without an end; 50,000 is the limit" in str(caught.value)


def test_code_that_ends_before_the_limit_and_many_short_tasks_are_no_such_code() -> None:
    short = simulator("for (@range(u16, 2000)) |_| { turn(); }", "", 50_000)
    run(short)
    again = "n += 1; if (n < 20000) @activate(later_id);"
    many = simulator("@activate(later_id);", again, 50_000)
    run(many)
    assert many.cycle() > 50_000


@pytest.mark.parametrize("text", ["-1", "0", "many", "1e9", "9" * 19])
def test_a_limit_that_is_no_number_of_cycles_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WSC_CSL_TASK_CYCLES", text)
    with pytest.raises(HostCallError, match="is a number of cycles, such as 1000000000, not"):
        task_cycles()
    monkeypatch.setenv("WSC_CSL_TASK_CYCLES", "5000")
    assert task_cycles() == 5000
