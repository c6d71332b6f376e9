"""A small program from sources to the intermediate program and its JSON files."""

import json

from appliance.csl.artifact import out_json, out_rpc_json
from appliance.csl.program import TaskKind, decode, encode
from tests.support.csl import program_of

LAYOUT = """
param size: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 3, .height = 2 });
const link: color = @get_color(4);
layout {
  @set_rectangle(3, 2);
  for (@range(u16, 3)) |x| {
    for (@range(u16, 2)) |y| {
      @set_tile_code(x, y, "pe.csl", .{
        .memcpy_params = memcpy.get_params(x), .size = size, .is_left = x == 0,
      });
      @set_color_config(x, y, link, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP, EAST } } });
    }
  }
  @export_name("values", [*]f32, true);
  @export_name("scale", fn (f32, u16) void);
}
"""
PE = """
param memcpy_params;
param size: u16;
param is_left: bool;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
var values = @constants([size]f32, 1.5);
var pointer: [*]f32 = &values;
const done = @get_local_task_id(9);
fn scale(factor: f32, times: u16) void {
  if (is_left) {
    for (@range(u16, times)) |i| {
      values[i] = values[i] * factor;
    }
  }
  @activate(done);
}
task finish() void { sys_mod.unblock_cmd_stream(); }
comptime {
  @bind_local_task(finish, done);
  @export_symbol(pointer, "values");
  @export_symbol(scale);
}
"""


def _program():
    return program_of({"layout.csl": LAYOUT, "pe.csl": PE}, parameters=(("size", 5),))


def test_pes_with_equal_parameters_share_one_code_class() -> None:
    program = _program()
    assert len(program.classes) == 2
    assert len(program.routings) == 1
    assert [program.grid.code_class(x, 0) for x in range(3)] == [0, 1, 1]
    assert [program.grid.code_class(x, 1) for x in range(3)] == [0, 1, 1]


def test_variables_have_addresses_and_bytes() -> None:
    code = _program().classes[0]
    values = next(variable for variable in code.variables if variable.name == "values")
    assert (values.num_bytes, values.shape) == (20, (5,))
    assert values.initial == bytes.fromhex("0000c03f") * 5
    pointer = next(variable for variable in code.variables if variable.name == "pointer")
    assert int.from_bytes(pointer.initial, "little") == values.address
    assert [export.address for export in code.exports] == [pointer.address, None]


def test_a_condition_known_in_a_class_removes_its_code() -> None:
    left, other = _program().classes
    sizes = [
        len(next(f for f in code.functions if f.name == "scale").blocks) for code in (left, other)
    ]
    assert sizes[0] > 1
    assert sizes[1] == 1


def test_tasks_are_bound_to_functions() -> None:
    code = _program().classes[0]
    (binding,) = code.tasks
    assert (binding.kind, binding.id) == (TaskKind.LOCAL, 9)
    assert code.functions[binding.function].name == "finish"


def test_the_json_files_name_parameters_and_symbols() -> None:
    sources = {"layout.csl": LAYOUT + "param out: color;", "pe.csl": PE}
    program = program_of(sources, parameters=(("size", 5),), colors=(("out", 7),))
    assert json.loads(out_json(program)) == {
        "params": {"size": "5", "out": "7"},
        "colors": {"out": "7"},
    }
    assert json.loads(out_rpc_json(program))["rpc_symbols"] == [
        {
            "id": 0, "kind": "Var", "name": "values", "sym_name": "values", "type": "[*]f32",
            "immutable": 0,
        },
        {
            "id": 1, "kind": "Func", "name": "scale", "sym_name": "scale",
            "type": "fn(f32, u16) void",
            "inputs": [{"name": "arg0", "type": "f32"}, {"name": "arg1", "type": "u16"}],
        },
    ]  # fmt: skip


def test_the_program_survives_its_file() -> None:
    program = _program()
    assert decode(encode(program)) == program
