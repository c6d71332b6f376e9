"""The runtime of host programs: what operations bring to the host, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from appliance.sdk.container import write_container
from appliance.sdk.host.arrays import MemcpyDataType, MemcpyOrder
from appliance.sdk.host.runtime import SdkRuntime
from appliance.sdk.symbols import HostCallError
from tests.support.csl import program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("wide", [*]i32, true);
  @export_name("narrow", [*]i16, true);
  @export_name("inner", [*]i32, true);
  @export_name("double", fn () void);
  @export_name("stall", fn () void);
}
"""
PE = """
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const print = @import_module("<simprint>");
var wide = @constants([8]i32, 1);
var narrow = @zeros([6]i16);
var behind = @zeros([64]i32);
const wide_ptr: [*]i32 = &wide;
const narrow_ptr: [*]i16 = &narrow;
const inner_ptr: [*]i32 = @ptrcast([*]i32, &wide[5]);
fn double() void { for (@range(u16, 8)) |i| { wide[i] *= 2; } sys.unblock_cmd_stream(); }
fn stall() void { print.print_string("before the stall\\n"); behind[0] = 1; }
comptime {
  @export_symbol(wide_ptr, "wide");
  @export_symbol(narrow_ptr, "narrow");
  @export_symbol(inner_ptr, "inner");
  @export_symbol(double);
  @export_symbol(stall);
}
"""


class _Host:
    """A running program, with copies in short."""

    def __init__(self, runtime: SdkRuntime) -> None:
        self.runtime = runtime

    def copy_out(
        self, symbol: str, count: int = 8, *, nonblock: bool = True, bits: int = 32
    ) -> NDArray[np.int32]:
        target = np.zeros(count, np.int32)
        self.task = self.runtime.memcpy_d2h(
            target, self.runtime.get_id(symbol), 0, 0, 1, 1, count,
            streaming=False, order=MemcpyOrder.ROW_MAJOR, nonblock=nonblock,
            data_type=MemcpyDataType.MEMCPY_16BIT if bits == 16 else MemcpyDataType.MEMCPY_32BIT,
        )  # fmt: skip
        return target

    def copy_in(self, symbol: str, count: int, *, bits: int = 32) -> None:
        self.runtime.memcpy_h2d(
            self.runtime.get_id(symbol), np.ones(count, np.int32), 0, 0, 1, 1, count,
            streaming=False, order=MemcpyOrder.ROW_MAJOR, nonblock=False,
            data_type=MemcpyDataType.MEMCPY_16BIT if bits == 16 else MemcpyDataType.MEMCPY_32BIT,
        )  # fmt: skip


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Host:
    program = program_of({"layout.csl": LAYOUT, "pe.csl": PE}, memcpy=True, channels=1)
    write_container(program, tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    runtime = SdkRuntime("out")
    runtime.load()
    runtime.run()
    return _Host(runtime)


def _later(host: _Host) -> object:
    host.copy_out("wide")
    return host.task


def _ask(host: _Host) -> None:
    task = _later(host)
    while not host.runtime.is_task_done(task):
        pass


WAYS = {
    "a later copy is waited for": lambda host: host.runtime.task_wait(_later(host)),
    "a later call blocks": lambda host: host.runtime.launch("double", nonblock=False),
    "a later copy is asked about": _ask,
    "the run stops": lambda host: host.runtime.stop(),
}


@pytest.mark.parametrize("way", WAYS)
def test_earlier_copies_are_there_once_a_later_operation_has_ended(way: str, host: _Host) -> None:
    first = host.copy_out("wide")
    host.runtime.launch("double", nonblock=True)
    second = host.copy_out("wide")
    WAYS[way](host)
    assert (first[0], second[0]) == (1, 2)


def test_what_was_printed_before_a_stall_is_in_the_log(host: _Host) -> None:
    host.runtime.launch("stall", nonblock=True)
    with pytest.raises(HostCallError, match="1 PEs have called unblock_cmd_stream"):
        host.runtime.launch("double", nonblock=False)
    assert Path("sim.log").read_text() == "before the stall\n"


@pytest.mark.parametrize(
    ("symbol", "count", "bits", "fits"),
    [
        ("wide", 8, 32, True),
        ("wide", 9, 32, False),
        ("inner", 3, 32, True),
        ("inner", 4, 32, False),
        ("narrow", 6, 16, True),
        ("narrow", 7, 16, False),
    ],
)
def test_a_copy_is_no_longer_than_the_array(
    symbol: str, count: int, bits: int, *, fits: bool, host: _Host
) -> None:
    if fits:
        host.copy_in(symbol, count, bits=bits)
        assert (host.copy_out(symbol, count, bits=bits, nonblock=False) == 1).all()
        return
    text = f"a copy of {count * bits // 8} bytes does not fit '{symbol}'; '(wide|narrow)' has "
    with pytest.raises(HostCallError, match=text):
        host.copy_in(symbol, count, bits=bits)


def test_a_read_goes_no_further_than_the_last_word_of_the_array(host: _Host) -> None:
    assert (host.copy_out("inner", 4, nonblock=False)[:3] == 1).all()
    with pytest.raises(HostCallError, match="a copy of 20 bytes does not fit 'inner'"):
        host.copy_out("inner", 5, nonblock=False)


@pytest.mark.parametrize(("symbol", "bits"), [("wide", 16), ("narrow", 32)])
def test_a_copy_has_elements_as_wide_as_the_arrays(symbol: str, bits: int, host: _Host) -> None:
    text = f"A copy of {bits}-bit elements does not fit '{symbol}', which is exported as"
    with pytest.raises(HostCallError, match=text):
        host.copy_in(symbol, 2, bits=bits)
    with pytest.raises(HostCallError, match=text):
        host.copy_out(symbol, 2, bits=bits)
