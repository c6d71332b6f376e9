"""Passes over scalar code: what they leave out, and what they must leave as it is."""

import pytest

from appliance.csl.program import (
    Address,
    Binary,
    Call,
    CodeClass,
    Constant,
    Convert,
    Function,
    Instruction,
    Load,
    Move,
    Program,
    Register,
    Store,
)
from appliance.csl.program.types import I16, U16
from appliance.fabric.bytecode import Op
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from appliance.fabric.lowering.classes import lower_class
from appliance.fabric.optimising.elements import LoadElement, StoreElement
from appliance.fabric.optimising.folding import wrapped
from appliance.fabric.optimising.functions import optimised
from appliance.wafer.hardware import CS2
from tests.support.csl import code_of, program_of
from tests.support.fabric_programs import AT

ONE = Region(0, 0, 1, 1)
TOP = """
const register: *u16 = @bitcast(*u16, @as(u16, 0x7f5a * 2));
var a = @zeros([8]u16); var b = @zeros([8]u16); var n: u16; var m: u16; var byte: u8;
var halves = @zeros([4]f16); var pointer: *u16 = &n;
fn unknown() void { @assert(n < 9); if (n == 3) { m = 4; } }
"""


def instructions(body: str, top: str = "") -> list[Instruction]:
    """Return what is left of the body of a function."""
    return [item for block in function(body, top).blocks for item in block.instructions]


def function(body: str, top: str = "") -> Function:
    found = optimised(code_with(body, top).functions, is_checked=False)
    return next(each for each in found if each.name.endswith("work"))


def code_with(body: str, top: str = "") -> CodeClass:
    text = f"{TOP}{top}\nfn work(x: u16, y: i16, z: f32) void {{ {body} }}\n"
    return code_of(
        f"{text}fn main() void {{ work(n, 1, 0.5); }} comptime {{ @export_symbol(main); }}"
    )


def program_with(body: str, top: str) -> Program:
    names = ("n", "m", "steps")
    pointers = "".join(f"var {name}_at: [*]u16 = @ptrcast([*]u16, &{name});" for name in names)
    exports = "".join(f'@export_symbol({name}_at, "{name}_there");' for name in names)
    told = "".join(f'@export_name("{name}_there", [*]u16, true);' for name in names)
    pe = f"""param memcpy_params; const sys = @import_module("<memcpy/memcpy>", memcpy_params);
      {TOP}{top}{pointers}
      fn work() void {{ {body} }}
      fn main() void {{ work(); sys.unblock_cmd_stream(); }}
      comptime {{ @export_symbol(main); {exports} }}"""
    layout = f"""
      const memcpy = @import_module("<memcpy/get_params>", .{{ .width = 1, .height = 1 }});
      layout {{ @set_rectangle(1, 1);
        @set_tile_code(0, 0, "pe.csl", .{{ .memcpy_params = memcpy.get_params(0) }});
        {told} @export_name("main", fn()void); }}"""
    return program_of({"layout.csl": layout, "pe.csl": pe}, memcpy=True)


def count(kind: type, body: str, top: str = "") -> int:
    return sum(type(item) is kind for item in instructions(body, top))


@pytest.mark.parametrize(
    ("body", "loads"),
    [
        ("n += 1; if (n == 8) { m = 0; }", 1),  # what was stored is known
        ("m = n + n;", 1),
        ("n = 1; a[x] = 2; m = n;", 1),  # a store through an index may hit any variable
        ("m = 1; n = m; m = n;", 0),
        ("m = n; unknown(); m = n;", 2),  # a function may change it
        ("m = n; pointer.* = 4; m = n;", 3),  # a pointer, itself loaded
        ("byte = 3; m = byte;", 1),  # eight bits lie in sixteen
        ("m = a[3]; n = a[3];", 1),  # known elements are variables
        ("m = register.*; n = register.*;", 2),  # of the router, which changes it
    ],
)
def test_a_variable_is_loaded_again_only_after_what_may_change_it(body: str, loads: int) -> None:
    assert count(Load, body) == loads


@pytest.mark.parametrize(
    ("body", "kind", "left"),
    [
        ("m = a[x] + b[x];", LoadElement, 2),
        ("a[x] = 3;", StoreElement, 1),
        ("m = a[x]; n = a[x + 1];", LoadElement, 2),
    ],
)
def test_an_element_is_accessed_by_one_instruction(body: str, kind: type, left: int) -> None:
    assert count(kind, body) >= left
    assert count(Convert, body) == 0


def test_an_element_is_that_of_the_index_when_its_address_was_taken() -> None:
    body = "var i = n; const p = &a[i]; i += 1; n = i; m = p.*;"
    assert count(LoadElement, body) == 0


def test_a_copy_of_a_number_is_no_instruction() -> None:
    assert count(Move, "var i: u16 = 0; while (i < x) : (i += 1) { a[i] = i; }") == 1


def test_what_a_loop_does_not_change_is_computed_before_it() -> None:
    blocks = function("for (@range(u16, 8)) |i| { a[i] = x * 3 + i; }").blocks
    products = [
        number
        for number, block in enumerate(blocks)
        for item in block.instructions
        if isinstance(item, Binary) and item.op == "mul"
    ]
    assert products == [0]


def test_a_division_that_may_fail_stays_in_its_loop() -> None:
    blocks = function("for (@range(u16, m)) |i| { a[i] = x / n; }").blocks
    divisions = [
        number
        for number, block in enumerate(blocks)
        for item in block.instructions
        if isinstance(item, Binary) and item.op == "div"
    ]
    assert divisions
    assert 0 not in divisions


def test_a_loop_that_waits_for_memory_loads_it_in_every_round() -> None:
    blocks = function("m = 1; while (n == 0) { m = 2; }").blocks
    loads = [
        number
        for number, block in enumerate(blocks)
        for item in block.instructions
        if isinstance(item, Load)
    ]
    assert loads
    assert max(loads) > 0


def test_zeros_of_both_signs_are_two_numbers() -> None:
    body = "var p = z * 0.0; var q = z * -0.0; halves[0] = @as(f16, p); halves[1] = @as(f16, q);"
    assert count(Binary, body) == 2


def test_a_small_function_is_copied_and_a_long_one_called() -> None:
    small = "fn add(p: u16, q: u16) u16 { return p + q; }"
    assert count(Call, "m = add(n, 1); n = add(m, 2);", small) == 0
    lines = "".join(f"a[{k % 8}] += p;" for k in range(40))
    long = f"fn longer(p: u16) void {{ {lines} }}"
    assert count(Call, "longer(1); longer(2);", long) == 2


STEPS = """
var order = @zeros([4]u16); var steps: u16;
fn step(p: u16) void { if (p == 7) { return; } steps += 1; if (steps == 3) { steps = 0; } }
fn choose(p: u16) u16 {
  var i: u16 = 0;
  while (i < 4) : (i += 1) { if (order[i] == p) { return i; } }
  return p + 1;
}
"""


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("step(x);", 0),
        ("m = choose(n);", 1),  # long
        ("step(x); step(n);", 2),  # a backtrace has each
    ],
)
def test_what_only_calls_a_small_function_of_several_blocks_is_that(body: str, calls: int) -> None:
    assert count(Call, body, STEPS) == calls


def test_a_copy_of_several_blocks_does_what_the_function_does() -> None:
    work = """for (@range(u16, 9)) |i| { step(i); a[i % 8] += steps; }
      order[2] = 40; n = choose(40); m = choose(60) + n;"""
    wrappers = "fn step_on(p: u16) void { step(p); } fn chosen(p: u16) u16 { return choose(p); }"
    work = work.replace("step(", "step_on(").replace("choose(", "chosen(")
    simulator = Simulator(program_with(work, STEPS + wrappers))
    simulator.submit(Launch("main"))
    for name, expected in (("n", 2), ("m", 63), ("steps", 2)):
        found = simulator.wait(simulator.submit(CopyOut(f"{name}_there", ONE, 1, 16)))
        assert found is not None
        assert found.item() == expected, name


def test_a_jump_to_the_end_of_a_function_is_the_end() -> None:
    source = code_with("if (x == 3) { m = 4; } else { m = 5; n = 6; }")
    code = lower_class(source, architecture="wse2", fp16_format="f16", machine=CS2).tables["code"]
    ends = {at for at, row in enumerate(code) if Op(row["op"]) is Op.RETURN}
    jumps = {int(row["imm"]) for row in code if Op(row["op"]) is Op.JUMP}
    assert not ends & jumps


DIVISIONS = [
    ("x / 8", 1),
    ("x % 8", 1),
    ("y / 8", 3),
    ("y % 8", 3),
    ("x / 10", 3),
    ("x % 10", 5),
    ("y / -10", 5),
    ("x / n", 40),
    ("y % @as(i16, n)", 40),
]


@pytest.mark.parametrize(("text", "cycles"), DIVISIONS)
def test_a_division_by_a_known_number_takes_shifts_and_products(text: str, cycles: int) -> None:
    body = f"m = @as(u16, {text});"
    source = code_with(body)
    lowered = lower_class(source, architecture="wse2", fp16_format="f16", machine=CS2)
    code = lowered.tables["code"]
    divisions = [row for row in code if Op(row["op"]).name.startswith(("DIV", "REM"))]
    assert {int(row["cost"]) for row in divisions} == {cycles}


@pytest.mark.parametrize(
    ("value", "kind", "held"), [(70000, U16, 4464), (32768, I16, -32768), (-1, U16, 65535)]
)
def test_a_known_result_wraps_as_a_register_does(value: int, kind: type, held: int) -> None:
    assert wrapped(value, kind) == held  # type: ignore[arg-type]


def test_sums_with_an_address_are_an_address() -> None:
    (store,) = [item for item in instructions("a[3] = 7;") if isinstance(item, Store)]
    assert isinstance(store.address, Address)
    assert isinstance(store.source, Constant)


def test_what_nobody_reads_is_left_out_and_positions_stay() -> None:
    items = instructions("var unread: u16 = x * 3; m = x;")
    assert [type(item) for item in items] == [Store]
    assert items[0].position != AT
    assert isinstance(items[0].source, Register)  # type: ignore[union-attr]
