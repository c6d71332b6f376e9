"""Programs that are laid out in Python: compiled, run, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from appliance.sdk.geometry import IntRectangle, IntVector
from appliance.sdk.host.runtime import SdkRuntime
from appliance.sdk.layout.code_regions import CodeRegion, PortHandle
from appliance.sdk.layout.platforms import SdkTarget, SimfabConfig, get_platform, get_system
from appliance.sdk.layout.routing import Color, Edge, Route, RoutingPosition, get_edge_routing
from appliance.sdk.layout.sdk_layout import SdkLayout
from appliance.sdk.symbols import HostCallError

TARGETS = (SdkTarget.WSE2, SdkTarget.WSE3)
DOUBLE = """
param size: u16; param rx: u16; param tx: u16; param factor: u16;
const iq = @get_input_queue(0); const oq = @get_output_queue(0);
const in = @get_dsd(fabin_dsd, .{ .extent = size, .input_queue = iq });
const to = @get_color(tx);
const out = @get_dsd(fabout_dsd, .{ .extent = size, .output_queue = oq, .fabric_color = to });
export var table: [size]f32; export var last: u32;
var words: [size]u32; const w = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{size} -> words[i] });
const go = @get_local_task_id(9); const sent = @get_local_task_id(10);
task compute() void {
  for (@range(u16, size)) |i| { words[i] = words[i] * factor + @as(u32, table[i]); }
  last = words[size - 1];
  @mov32(out, w, .{ .async = true });
}
task main() void { @mov32(w, in, .{ .async = true, .activate = sent }); }
comptime {
  @bind_local_task(main, go); @bind_local_task(compute, sent); @activate(go);
  @initialize_queue(iq, .{ .color = @get_color(rx) });
  if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = @get_color(tx) }); }
}
"""
HALVES = """
param rx: color; param tx: color;
const iq = @get_input_queue(0); const oq = @get_output_queue(0);
const in = @get_dsd(fabin_dsd, .{ .extent = 6, .input_queue = iq });
const out = @get_dsd(fabout_dsd, .{ .extent = 6, .output_queue = oq, .fabric_color = tx });
const go = @get_local_task_id(9);
task main() void { @add16(out, in, 1, .{ .async = true }); }
comptime {
  @bind_local_task(main, go); @activate(go); @initialize_queue(iq, .{ .color = rx });
  if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = tx }); }
}
"""
IN = RoutingPosition().set_output([Route.RAMP])
OUT = RoutingPosition().set_input([Route.RAMP])


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("double.csl").write_text(DOUBLE)
    Path("halves.csl").write_text(HALVES)
    Path("empty.csl").write_text("")
    return tmp_path


def doubler(layout: SdkLayout, name: str, factor: int) -> tuple[CodeRegion, PortHandle, PortHandle]:
    region = layout.create_code_region("double.csl", name, 1, 1)
    rx, tx = region.color("rx"), region.color("tx")
    region.set_param_all("size", 4)
    region.set_param_all("factor", factor)
    region.set_param_all(rx)
    region.set_param_all(tx)
    region.set_symbol_all("table", np.arange(4, dtype=np.float32), 4, 1)
    return (
        region,
        region.create_input_port(rx, Edge.LEFT, [IN], 4),
        region.create_output_port(tx, Edge.RIGHT, [OUT], 4),
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("places", [((2, 2), (6, 5)), ((4, 0), (0, 0)), ((0, 0), (1, 0))])
def test_words_go_through_two_regions_and_back(
    target: SdkTarget, places: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    """The regions lie apart, the other way round, and side by side."""
    layout = SdkLayout(target)
    first, first_in, first_out = doubler(layout, "first", 3)
    second, second_in, second_out = doubler(layout, "second", 2)
    first.place(*places[0])
    second.place(*places[1])
    layout.connect(first_out, second_in)
    to, back = layout.create_input_stream(first_in), layout.create_output_stream(second_out)
    runtime = SdkRuntime(
        layout.compile("out"), get_platform(None, target=target), memcpy_required=False
    )
    runtime.load()
    runtime.run()
    found = np.zeros(6, np.uint32)
    task = runtime.receive(back, found, 4, nonblock=True)
    assert not runtime.is_task_done(task)
    runtime.send(to, np.array([1, 2, 3, 4], np.uint32))
    runtime.task_wait(task)
    runtime.stop()
    assert found.tolist() == [6, 15, 24, 33, 0, 0]
    assert runtime.read_symbol(*places[1], "last", "uint32").tolist() == [33]


@pytest.mark.parametrize("target", TARGETS)
def test_operations_of_16_bits_take_both_halves_of_the_hosts_words(target: SdkTarget) -> None:
    layout = SdkLayout(target)
    region = layout.create_code_region("halves.csl", "halves", 1, 1)
    rx, tx = Color("rx"), Color("tx", 7)
    region.set_param_all(rx)
    region.set_param_all(tx)
    to = layout.create_input_stream(region.create_input_port(rx, Edge.RIGHT, [IN], 3))
    back = layout.create_output_stream(region.create_output_port(tx, Edge.RIGHT, [OUT], 3))
    runtime = SdkRuntime(layout.compile("out"), memcpy_required=False)
    runtime.load()
    runtime.run()
    words = np.array([1, 2, 3, 4, 5, 6], np.uint16)
    runtime.send(to, words, 3, nonblock=True)
    found = np.zeros(6, np.uint16)
    runtime.receive(runtime.get_port_id(back), found, 3, nonblock=True)
    runtime.stop()
    assert found.tolist() == [2, 3, 4, 5, 6, 7]


def test_sides_and_switch_positions_of_a_region_are_painted() -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    region = layout.create_code_region("empty.csl", "row", 3, 2)
    color = region.color("c")
    along = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP])
    further = RoutingPosition().set_input([Route.WEST]).add_output(Route.EAST)
    region.paint_all(color, [along, further], [get_edge_routing(Edge.RIGHT, [along])])
    region.paint_range(IntRectangle(IntVector(0, 1), IntVector(2, 2)), color, [further])
    region.paint(IntVector(2, 1), color, [along])
    counts = [[len(region.routes[x, y][color]) for x in range(3)] for y in range(2)]
    assert counts == [[2, 2, 1], [1, 1, 1]]
    layout.compile("out")
    assert further.get_output() == [Route.EAST]


def test_a_run_that_cannot_go_on_names_the_ports_of_the_host() -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    _, port_in, port_out = doubler(layout, "one", 2)
    layout.create_input_stream(port_in)
    back = layout.create_output_stream(port_out)
    runtime = SdkRuntime(layout.compile("out"), memcpy_required=False)
    runtime.load()
    runtime.run()
    runtime.receive(back, np.zeros(4, np.uint32), 4, nonblock=True)
    with pytest.raises(HostCallError, match="the host waits for one_tx to send 4 more wavelets"):
        runtime.stop()


def test_the_runs_memory_is_dumped(directory: Path) -> None:
    layout = SdkLayout(SdkTarget.WSE3)
    region, *_ = doubler(layout, "one", 2)
    region.place(3, 1)
    platform = get_platform(None, SimfabConfig(dump_core=True, core_path="my.core"))
    runtime = SdkRuntime(layout.compile("out"), platform, memcpy_required=False)
    runtime.load()
    runtime.run()
    runtime.stop()
    core = np.load(directory / "my.core")
    assert core["origin"].tolist() == [3, 1]
    assert core["places"].tolist() == [[0, 0]]
    assert core["memory"].any()


def two_regions(first: tuple[int, int], second: tuple[int, int]) -> SdkLayout:
    layout = SdkLayout(SdkTarget.WSE2)
    for name, place in (("a", first), ("b", second)):
        layout.create_code_region("empty.csl", name, 2, 2).place(*place)
    return layout


def connected(change: str) -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    a = layout.create_code_region("empty.csl", "a", 1, 2)
    b = layout.create_code_region("empty.csl", "b", 1, 1 if change == "sizes" else 2)
    a.place(0, 0)
    b.place(4, 0)
    value = 3 if change == "values" else None
    sender = a.create_output_port(Color("t", value), Edge.RIGHT, [OUT], 4)
    receiver = b.create_input_port(Color("r", value and 4), Edge.LEFT, [IN], 4)
    if change == "ways":
        sender, receiver = receiver, sender
    layout.connect(sender, receiver)
    if change == "stream":
        layout.create_output_stream(receiver)
    if change == "wide":
        layout.create_output_stream(a.create_output_port(Color("z"), Edge.TOP, [OUT], 4))
        layout.create_output_stream(a.create_output_port(Color("y"), Edge.LEFT, [OUT], 4))
    layout.compile("out")


def port(position: RoutingPosition) -> None:
    region = SdkLayout(SdkTarget.WSE2).create_code_region("empty.csl", "a", 1, 1)
    region.create_input_port(Color("c"), Edge.LEFT, [position], 4)


def painted(*values: int | None, position: RoutingPosition = IN) -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    region = layout.create_code_region("empty.csl", "a", 1, 1)
    whole = position.copy().set_input([Route.WEST])
    for number, value in enumerate(values):
        region.paint_all(Color(f"c{number}", value), [whole])
    layout.compile("out")


def with_table(data: NDArray[Any], width: int) -> None:
    region = SdkLayout(SdkTarget.WSE2).create_code_region("empty.csl", "a", 2, 1)
    region.set_symbol_all("table", data, width, 1)


WRONG = [
    (lambda: with_table(np.arange(4.0), 4), "data of float64 must be of int32, uint32, float32"),
    (lambda: with_table(np.arange(4), 4), "data of int64 must be of int32"),
    (lambda: with_table(np.zeros(3, np.float32), 3), "3 x 1 are no equal blocks for 2 x 1 PEs"),
    (lambda: two_regions((0, 0), (1, 1)).compile(), "Regions 'a' and 'b' overlap in PE (1, 1)"),
    (lambda: two_regions((0, 0), (3, 0)).create_code_region("x", "a", 1, 1), "two regions of"),
    (lambda: SdkLayout(SdkTarget.WSE2).create_code_region("x", "a", 0, 1), "0 x 1 PEs is empty"),
    (lambda: SdkLayout(SdkTarget.WSE2).compile(), "The layout has no region"),
    (lambda: SdkLayout("wse2"), "a platform or an SdkTarget"),  # type: ignore[arg-type]
    (lambda: connected("sizes"), "have 2 and 1 PEs"),
    (lambda: connected("values"), "has the value 3"),
    (lambda: connected("ways"), "an output port sends to an input port"),
    (lambda: connected("stream"), "is an input port"),
    (lambda: connected("wide"), "of a port of 2 PEs; the host reaches ports of one"),
    (lambda: port(OUT), "leave it out"),
    (lambda: painted(5, 5), "have the value 5 and meet in PE (0, 0)"),
    (lambda: painted(23), "it is from 0 to 22"),
    (lambda: painted(*[None] * 24), "There is no number left for"),
    (lambda: painted(None, position=RoutingPosition()), "has no output"),
    (lambda: RoutingPosition().add_input("EAST"), "'EAST' is none"),  # type: ignore[arg-type]
    (lambda: get_system(""), "needs the address of a system"),
    (lambda: SimfabConfig(num_threads=65), "it is from 1 to 64"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), WRONG, ids=[text for _, text in WRONG])
def test_a_wrong_layout_is_refused(make, text: str) -> None:
    with pytest.raises(HostCallError) as caught:
        make()
    assert text in str(caught.value)


def test_an_error_in_the_code_of_a_region_is_the_compilers() -> None:
    Path("wrong.csl").write_text("comptime { nothing(); }")
    layout = SdkLayout(SdkTarget.WSE2)
    layout.create_code_region("wrong.csl", "a", 1, 1)
    with pytest.raises(
        HostCallError, match=r"wrong\.csl:1:12: error: use of undeclared identifier"
    ):
        layout.compile("out")


def test_regions_are_stacked_and_placed_apart() -> None:
    layout = SdkLayout(SdkTarget.WSE2)
    regions = [layout.create_code_region("empty.csl", name, 2, 1) for name in "abcd"]
    layout.hstack(regions[:2])
    layout.vstack(regions[1:3], gap=2)
    layout.compile("out")
    assert [region.origin for region in regions] == [(0, 0), (3, 0), (3, 3), (7, 0)]
