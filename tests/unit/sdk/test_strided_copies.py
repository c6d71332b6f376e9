"""Copies to some of the PEs of a rectangle."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from appliance.sdk.container import write_container
from appliance.sdk.host.arrays import MemcpyDataType, MemcpyOrder
from appliance.sdk.host.runtime import SdkRuntime
from appliance.sdk.symbols import HostCallError
from tests.support.csl import program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 6, .height = 4 });
layout {
  @set_rectangle(6, 4);
  for (@range(i16, 6)) |x| { for (@range(i16, 4)) |y| {
    @set_tile_code(x, y, "pe.csl", .{ .memcpy_params = memcpy.get_params(x) });
  } }
  @export_name("data", [*]u32, true);
}
"""
PE = """
param memcpy_params; const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var data = @zeros([2]u32); var p: [*]u32 = &data;
comptime { @export_symbol(p, "data"); }
"""
COPY = {"streaming": False, "data_type": MemcpyDataType.MEMCPY_32BIT, "nonblock": False}


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SdkRuntime]:
    monkeypatch.chdir(tmp_path)
    write_container(program_of({"layout.csl": LAYOUT, "pe.csl": PE}, memcpy=True), Path("out"))
    made = SdkRuntime("out")
    made.load()
    made.run()
    yield made
    made.stop()


@pytest.mark.parametrize("order", MemcpyOrder)
@pytest.mark.parametrize(
    ("rectangle", "strides"),
    [((0, 0, 6, 4), (3, 2)), ((1, 1, 5, 3), (2, 3)), ((2, 0, 1, 1), (4, 4))],
)
def test_every_nth_pe_of_every_nth_row_gets_its_elements(
    runtime: SdkRuntime,
    order: MemcpyOrder,
    rectangle: tuple[int, int, int, int],
    strides: tuple[int, int],
) -> None:
    x, y, w, h = rectangle
    xs, ys = range(x, x + w, strides[0]), range(y, y + h, strides[1])
    given = np.arange(1, 1 + 2 * len(xs) * len(ys), dtype=np.uint32).reshape(len(ys), len(xs), 2)
    flat = given.ravel() if order is MemcpyOrder.ROW_MAJOR else given.transpose(2, 1, 0).ravel()
    symbol = runtime.get_id("data")
    runtime.memcpy_h2d_stride(symbol, flat, *rectangle, 2, *strides, order=order, **COPY)
    found = np.zeros(48, np.uint32)
    runtime.memcpy_d2h(found, symbol, 0, 0, 6, 4, 2, order=MemcpyOrder.ROW_MAJOR, **COPY)
    expected = np.zeros((4, 6, 2), np.uint32)
    expected[np.ix_(ys, xs)] = given
    np.testing.assert_array_equal(found.reshape(4, 6, 2), expected)


def test_a_stride_of_nothing_is_refused(runtime: SdkRuntime) -> None:
    with pytest.raises(HostCallError, match="The strides are 0 and 2; they are from 1 on"):
        runtime.memcpy_h2d_stride(
            runtime.get_id("data"), np.zeros(2, np.uint32), 0, 0, 1, 1, 2, 0, 2,
            order=MemcpyOrder.ROW_MAJOR, **COPY,
        )  # fmt: skip
