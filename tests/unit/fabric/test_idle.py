"""A run in which nothing waits though memcpy does: what ran last, and what never happens."""

import pytest

from appliance.fabric.commands import CopyOut, Launch
from appliance.fabric.errors import StallError
from appliance.fabric.host_interface import Simulator
from tests.support.csl import compile_files
from tests.support.csl_coverage.rows import LAYOUT, ONE, PRELUDE

DONE = """
const id = @get_local_task_id(9);
task done() void { sys.unblock_cmd_stream(); }
comptime { @bind_local_task(done, id); }
"""
RECEIVES = """
const iq = @get_input_queue(3);
task received(x: u32) void { sys.unblock_cmd_stream(); }
comptime {
  @bind_data_task(received, @get_data_task_id(if (@is_arch("wse2")) @get_color(5) else iq));
  @initialize_queue(iq, .{ .color = @get_color(5) });
}
"""
NOT_CALLED = "nothing in pe.csl calls unblock_cmd_stream"
NOT_SENT = "waits for a wavelet of color 5; no PE has a route of color 5 that leads here"


def told(top: str, body: str, architecture: str) -> str:
    """What the host is told of a program whose launch does not let it go on."""
    texts = {"layout.csl": LAYOUT, "pe.csl": f"{PRELUDE}{top}\nfn main() void {{ {body} }}\n"}
    compilation = compile_files(texts, architecture=architecture, memcpy=True)
    assert compilation.program is not None, compilation.render()
    simulator = Simulator(compilation.program)
    simulator.submit(Launch("main"))
    with pytest.raises(StallError) as caught:
        simulator.wait(simulator.submit(CopyOut("out", ONE, 8, 32)))
    return str(caught.value)


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize(
    ("top", "body", "text"),
    [
        ("", "out[0] = 1;", NOT_CALLED),
        (DONE, "out[0] = 1;", "nothing activates local task 9 (done) (pe.csl:10:12)"),
        (RECEIVES, "out[0] = 1;", NOT_SENT),
    ],
)
def test_what_never_happens_is_told(top: str, body: str, text: str, architecture: str) -> None:
    found = told(top, body, architecture)
    assert text in found
    assert "main ran last, from cycle 1 on, and has ended (pe.csl:" in found
    assert (NOT_CALLED in found) is (text is NOT_CALLED)


def test_a_task_whose_id_a_run_computes_may_be_activated() -> None:
    body = "out[0] = 9; if (out[0] == 8) @activate(@get_local_task_id(@as(u16, out[0])));"
    assert "nothing activates" not in told(DONE, body, "wse2")


def test_the_task_that_ran_last_is_named() -> None:
    top = DONE.replace("sys.unblock_cmd_stream();", "out[1] = 2;")
    assert "done ran last" in told(top, "@activate(id);", "wse2")
