# ruff: noqa: E501 - rows of a table
"""Rules of colors, queues, tasks, libraries and layouts; see `test_diagnostics`."""

from collections.abc import Callable

import pytest

from appliance.csl.builtins.structure import imports
from appliance.csl.semantics.results import layout as layout_module
from tests.support.csl import LAYOUT, check_error_in, check_right, check_warning_in, printed
from tests.support.csl_rules import check_at_the_top, check_in_code

ROUTES = ".routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } }"


def configured(rest: str, *, mark: str = "") -> str:
    return f"comptime {{ @set_local_color_config(red, {mark}.{{ {ROUTES}, {rest} }}); }}"


AT_THE_TOP = [
    # Colors.
    (configured(".teardown = true"),
     "comptime { @set_local_color_config(red, $$.{ .routes = .{ .rx = 1.5, .tx = .{ RAMP } } }); }",
     "'.rx' needs a direction or several, got 'comptime_float'"),
    (configured(".filter = .{ .kind = .{ .counter = true } }"),
     configured(".filter = .{ .kind = .{ .most = true } }", mark="$$"), "'.kind' of a filter is one of"),
    (configured(".switches = .{ .current_switch_pos = 3 }"),
     configured(".switches = .{ .current_switch_pos = 4 }", mark="$$"), "'.current_switch_pos' is 0 to 3, got 4"),
    (configured(".switches = .{ .pos1 = .{ .rx = EAST } }"),
     configured(".switches = .{ .pos1 = .{ .rx = EAST, .tx = WEST } }", mark="$$"), "a switch position of wse2 changes '.rx' or '.tx', not both"),
    (configured(".switches = .{ .pop_mode = .{ .no_pop = true } }"),
     configured(".switches = .{ .pop_mode = .{ .no_pop = true, .always_pop = true } }", mark="$$"), "'.pop_mode' is one of"),
    (configured(".teardown = true"),
     configured(".teardown = true") + f"\ncomptime {{ $$@set_local_color_config(red, .{{ {ROUTES} }}); }}", "color 3 of this PE is configured twice"),
    ("comptime { @set_teardown_handler(nothing, red); }",
     "comptime { @set_teardown_handler(nothing, red); $$@set_teardown_handler(nothing, red); }", "color 3 already has a teardown handler"),
    ("const z = @get_filter_id(red);", "const z = @get_filter_id($$3);", "'@get_filter_id' needs a color, got 'comptime_int'"),
    ("comptime { @set_config(0x7f20, 0); }", "comptime { @set_config($$3, 0); }", "there is no configuration register at word address 0x0003"),
    # Tasks.
    ("comptime { @block(red); }", "comptime { @block($$x); }", "is not known"),
    ("task take(v: u16) void {}\ncomptime { @bind_data_task(take, @get_data_task_id(red)); }",
     "task take(v: bool) void {}\ncomptime { @bind_data_task($$take, @get_data_task_id(red)); }", "task 'take' cannot take a 'bool' from a wavelet"),
    ("task take(v: u16) void {}\ncomptime { @bind_data_task(take, @get_data_task_id(@get_color(23))); }",
     "task take(v: u16) void {}\ncomptime { @bind_data_task(take, $$@get_data_task_id(@get_color(32))); }", "no data comes on color 32; colors are 0 to 23"),
    (configured(".filter = .{ .kind = .{ .range = true } }"),
     configured(".filter = .{ .kind = .{ .counter = true, .range = true } }", mark="$$"), "'.kind' of a filter is one of"),
    ("task late() void {}\ncomptime { @bind_local_task(late, @get_local_task_id(9)); @activate(late); }",
     "task late() void {}\ncomptime { @activate($$nothing); }", "'nothing' is a function, not a task"),
    ("comptime { @set_teardown_handler(nothing, red); }", "comptime { $$@set_control_task_table(); }", "'@set_control_task_table' exists on wse3 only"),
    # Libraries' services.
    ("const z = 1;", "comptime { $$@host_stream(\"h2d\", 1, red); }", "there is no builtin '@host_stream'"),
    ("const math = @import_module(\"<math>\");\nconst z = math.sqrt_f32(4.0);",
     "const math = @import_module(\"<math>\");\nconst z = $$math.log_f32(0.0 - 1.0);", "'log' of -1.0 is no number"),
    # What is for layouts, and what is not.
    ("const z = @get_rectangle().width;", "comptime { $$@set_rectangle(1, 1); }", "'@set_rectangle' is for layout blocks"),
    ("const z = @range(u16, 3);", "const z = @range($$3, 3);", "expected a type, got a value of type 'comptime_int'"),
    # Symbols.
    ("const z = @get_symbol_id(main);", "const z = $$@get_symbol_id(nothing);", "symbol 'nothing' has no '@export_name' in the layout"),
    ("comptime { @rpc(@get_data_task_id(red)); }", "comptime { @rpc($$red); }", "'@rpc' needs a data_task_id, got 'color'"),
    # Modules.
    ("const z = @import_module(\"<time>\", .{});", "const z = @import_module(\"<time>\", $$.{ 1 });", "the parameters of a module need '.name = value'"),
    ("const z = 1;", "const z = @import_comptime_value(u16, $$\"none.json\");", "there is no file 'none.json'"),
    # Functions.
    ("fn more(n: u16) u16 { if (ok) { return n; } return 1; }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }",
     "fn $$more(n: u16) u16 { if (ok) { return n; } }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }", "function 'more' may end without a return value"),
    ("fn more(n: u16) u16 { return n; }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }",
     "fn $$more(n: u16) u16 { x = n; }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }", "function 'more' may end without a return value"),
    ("fn more(n: u16) u16 { if (n == 0) { return 0; } return more(n - 1); }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }",
     "fn $$more(n: u16) u16 { var v: [2]u16; v[0] = n; if (n == 0) { return 0; } return more(v[0] - 1); }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }",
     "function 'more' calls itself, which is not possible while v must be in memory"),
    ("fn more(comptime n: u16) u16 { return n; }\nfn user() void { x = more(1); }\ncomptime { @set_teardown_handler(user, red); }",
     "fn more(comptime n: u16) u16 { return n; }\nfn user() void { x = more($$x); }\ncomptime { @set_teardown_handler(user, red); }", "argument 'n' must be known at compile time"),
    ("fn more(n: u16) u16 { return n; }\nfn user() void { @map(more, d, e); }\ncomptime { @set_teardown_handler(user, red); }",
     "fn more(comptime n: u16) u16 { return n; }\nfn user() void { @map($$more, d, e); }\ncomptime { @set_teardown_handler(user, red); }", "'more' depends on arguments at compile time and has no address"),
    ("const math = @import_module(\"<math>\");\nfn user() void { y = math.fscale(y, i); }\ncomptime { @set_teardown_handler(user, red); }",
     "const math = @import_module(\"<math>\");\nfn user() void { y = $$math.fscale(1.5, i); }\ncomptime { @set_teardown_handler(user, red); }", "'1.5' needs a type at run time"),
    ("const z = 1;", "comptime { $$return; }", "'return' outside a function"),
]  # fmt: skip

IN_CODE = [
    ("const z = @get_input_queue(1);", "const z = @get_input_queue($$x);", "the number of an input queue must be known at compile time"),
    ("const q: *const fn (u16) u16 = if (ok) &twice else &twice; x = q(1);",
     "const q: *const fn (u16) u16 = if (ok) &twice else &twice; x = $$q(1, 2);", "takes 1 argument, got 2"),
    ("ok = s.p == 1;", "ok = .{ x, x } $$== .{ x, x };", "does not apply to"),
    ("const z = @get_dsd(mem1d_dsd, if (true) |k|{4} -> a[k] else .{});",
     "const z = @get_dsd(mem1d_dsd, if ($$ok) |k|{4} -> a[k] else .{});", "this condition must be known at compile time"),
    ("const m2 = @import_module(\"<time>\", .{});", "const m2 = @import_module(\"<time>\", $$.{ .z = x });", "the parameters of a module must be known at compile time"),
]  # fmt: skip

ON_WSE3 = [
    ("@queue_flush(iq);", "@queue_flush($$red);", "expected a queue, got 'color'"),
]

ONE = '@set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{});'
IN_A_LAYOUT = [
    ("const q = $$&[2]u16{ 1, 2 };", "a layout has no memory"),
    (
        "$$@get_dsd(mem1d_dsd, .{});",
        "a layout has no memory and no queues; '@get_dsd' is for PE code",
    ),
    ("$$@activate(@get_local_task_id(9));", "'@activate' is not for layout blocks"),
    ('@export_name("v", [*]f32, $$1);', "expected type 'bool', got: 'comptime_int'"),
    (
        '$$@export_name("f", fn (u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, u16) void);',
        "an exported function takes 15 arguments at most, not 16",
    ),
    (
        "@set_color_config($$1.5, 0, @get_color(1), .{});",
        "the column must be an integer, got 'comptime_float'",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "text"), AT_THE_TOP, ids=lambda text: text[:40])
def test_a_rule_of_declarations(right: str, wrong: str, text: str) -> None:
    check_at_the_top(right, wrong, text)


@pytest.mark.parametrize(("right", "wrong", "text"), IN_CODE, ids=lambda text: text[:40])
def test_a_rule_of_code(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text)


@pytest.mark.parametrize(("right", "wrong", "text"), ON_WSE3, ids=lambda text: text[:40])
def test_a_rule_of_wse3(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text, architecture="wse3")


@pytest.mark.parametrize(("wrong", "text"), IN_A_LAYOUT, ids=lambda text: text[:40])
def test_a_rule_of_layouts(wrong: str, text: str) -> None:
    check_error_in({"layout.csl": f"layout {{ {ONE} {wrong} }}", "pe.csl": ""}, text)
    check_right("")


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ({"pe.csl": ""}, "there is no file 'layout.csl'"),
        ({"layout.csl": f"layout {{ {ONE} }}\n$$layout {{ }}", "pe.csl": ""}, "a file has one layout block"),
        ({"layout.csl": LAYOUT, "pe.csl": "var a: u16; comptime { @export_symbol($$&a); }"}, "give the symbol's name as the second argument"),
        ({"layout.csl": LAYOUT, "pe.csl": 'const m = $$@import_module("<memcpy/get_params>", .{ .width = 1, .height = 1, .MEMCPYH2D_1 = 1.5 });'}, "a stream needs a color or its number, got 'comptime_float'"),
        ({"layout.csl": "layout { const r = $$@get_rectangle(); }"}, "call @set_rectangle first"),
        ({"layout.csl": "layout { $$@set_rectangle(3000, 3000); }"}, "a rectangle of 3000 x 3000 PEs is too large"),
        ({"layout.csl": 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", $$1); }', "pe.csl": ""},
         "the parameters of a PE are a struct, not 'comptime_int'"),
        ({"layout.csl": LAYOUT, "pe.csl": 'const z = $$@import_comptime_value(u16, "v.json"); comptime { @comptime_print(z); }', "v.json": "null"}, "'null' has no value here"),
        ({"layout.csl": LAYOUT, "pe.csl": 'const z = @import_comptime_value(u16, $$"v.json"); comptime { @comptime_print(z); }', "v.json": "{"}, "'v.json' is no JSON"),
        ({"layout.csl": LAYOUT, "pe.csl": 'const z = $$@import_module("pe.csl");'}, "imports nest more than 64 levels deep"),
        ({"layout.csl": LAYOUT, "pe.csl": '$$var big: [30000]u16; fn main() void { big[0] = 1; } comptime { @export_symbol(main); }'}, "bytes of memory"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_rule_of_whole_programs(texts: dict[str, str], text: str) -> None:
    check_error_in(texts, text)


def test_a_queue_of_wse3_has_one_handler() -> None:
    call = "@set_empty_queue_handler(nothing, iq);"
    right = f"comptime {{ {call} }}"
    wrong = f"comptime {{ {call} $${call} }}"
    text = "input_queue 2 already has a handler"
    check_at_the_top(right, wrong, text, architecture="wse3")


def test_a_module_is_printed_by_its_path() -> None:
    assert printed("@comptime_print(m);", 'const m = @import_module("<time>");') == [
        "module <time>"
    ]


def test_code_classes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "MAX_CLASSES", 2)
    check_error_in(
        {
            "layout.csl": "layout { @set_rectangle(3, 1); for (@range(u16, 3)) |x| "
            '{ $$@set_tile_code(x, 0, "pe.csl", .{ .n = x }); } }',
            "pe.csl": "param n: u16;",
        },
        "more than 2 different codes of PEs",
    )


ON_REGISTERS = """
const d = @get_dsr(dsr_dest, 1); const s = @get_dsr(dsr_src1, 1); const at = @get_local_task_id(12);
task t() void {} comptime { @bind_local_task(t, at); } fn main() void {
"""


@pytest.mark.parametrize(
    ("pe", "text"),
    [
        ("fn main() void { const z: f32 = $$1; }", "an integer becomes 'f32' here; write @as(f32, 1)"),
        ("var x: u16; fn main() void { $$x + 1; }", "the value of this expression is not used"),
        ('const z = $$@import_module("<time>", .{ .nothing = 1 }); fn main() void {}', "module '<time>' has no param 'nothing'"),
        (f"{ON_REGISTERS} @mov32(d, s, $$.{{ .async = true, .activate = t }}); }}",
         "'.activate' has no effect here, where DSRs are the operands; give it to '@load_to_dsr'"),
        (f"{ON_REGISTERS} @mov32(d, s, $$.{{ .async = true, .on_control = .{{ .terminate = true }} }}); }}", "'.on_control' has no effect here"),
    ],
)  # fmt: skip
def test_a_warning(pe: str, text: str) -> None:
    files = {"layout.csl": LAYOUT, "pe.csl": f"{pe} comptime {{ @export_symbol(main); }}"}
    check_warning_in(files, text)


def test_a_compilation_ends_when_memory_or_stack_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, text in (
        (MemoryError, "the program needs more memory at compile time than there is"),
        (RecursionError, "the program nests too deeply at compile time"),
    ):
        monkeypatch.setattr(imports, "coerce", _failing(error))
        pe = 'const z = @import_comptime_value(u16, "v.json"); comptime { @comptime_print(z); }'
        check_error_in({"layout.csl": LAYOUT, "pe.csl": pe, "v.json": "1"}, text)
        monkeypatch.undo()


def _failing(error: type[Exception]) -> Callable[..., object]:
    def fail(*_: object) -> object:
        raise error

    return fail
