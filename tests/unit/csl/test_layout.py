"""Layout blocks: the rectangle, code and routes of PEs, exported names."""

import pytest

from appliance.csl.program import NO_CODE, ColorConfiguration, Direction, Filter, SwitchPosition
from tests.support.csl import check_error_in, check_warning_in, compile_files, program_of

PE = "param n = 0; var v: [3]f32; var p: [*]f32 = &v; fn f() void { }"
WEST, EAST, SOUTH, NORTH, RAMP = (
    Direction(name).bit for name in ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")
)


def check_layout(marked: str, text: str, pe: str = PE, **options: object) -> None:
    """Asserts that a layout has an error at the mark `$$` that says a text."""
    check_error_in({"layout.csl": marked, "pe.csl": pe}, text, **options)


ONE = '@set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{}); const c = @get_color(1);'


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("$$const a = 1;", "has no layout block"),
        ("$$layout { }", "never calls @set_rectangle"),
        ("layout { $$@set_tile_code(0, 0); }", "call @set_rectangle first"),
        ("layout { $$@set_rectangle(0, 3); }", "a rectangle of 0 x 3 PEs is empty"),
        ("layout { @set_rectangle(1, 1); $$@set_rectangle(1, 1); }", "is called twice"),
        ("$$layout { @set_rectangle(2, 2); @set_tile_code(0, 0); }", "PE (1, 0) has no code, nor"),
        (f"layout {{ {ONE} $$@set_tile_code(0, 0, \"pe.csl\"); }}", "PE (0, 0) already has code"),
        (f"layout {{ {ONE} $$@set_tile_code(1, 0, \"pe.csl\"); }}", "outside the rectangle of 1"),
        ('layout { @set_rectangle(1, 1); @set_tile_code(0, 0, $$"no.csl"); }', "there is no file"),
        ('const a = @import_module($$"no.csl"); layout { }', "there is no file 'no.csl'"),
        ('const a = @import_module($$"<no>"); layout { }', "there is no library '<no>'"),
        ("layout { $$@bind_local_task(1, 2); }", "'@bind_local_task' is not for layout blocks"),
        (f"layout {{ {ONE} @set_color_config(0, 0, $$3, .{{}}); }}", "expected a color"),
        (f"layout {{ {ONE} @set_color_config(0, 0, c, $$.{{}}); }}", "need '.rx'"),
        (
            f"layout {{ {ONE} @set_color_config(0, 0, $$@get_color(32), "
            ".{ .routes = .{ .rx = .{}, .tx = .{} } }); }",
            "color 32 cannot be routed",
        ),
        (
            f"layout {{ {ONE} const r = .{{ .routes = .{{ .rx = WEST, .tx = RAMP }} }};"
            " @set_color_config(0, 0, c, r); $$@set_color_config(0, 0, c, r); }",
            "color 1 of PE (0, 0) is configured twice",
        ),
        (
            f"layout {{ {ONE} @set_color_config(0, 0, c, .{{ .routes = .{{ .rx = WEST, "
            ".tx = RAMP }, $$.filtr = 1 }); }",
            "did you mean 'filter'?",
        ),
        (f'layout {{ {ONE} $$@export_name("a", u16); }}', "whether it is mutable"),
        (f'layout {{ {ONE} @export_name("a", $$[3]u16, true); }}', "cannot be exported"),
        (f'layout {{ {ONE} @export_name("a", $$fn (u8) void); }}', "cannot take a 'u8'"),
        (
            f'layout {{ {ONE} @export_name("a", f32, true); $$@export_name("a", f32, true); }}',
            "symbol 'a' is exported twice",
        ),
        ("layout { @set_rectangle($$1.5, 1); }", "the width must be an integer"),
    ],
)  # fmt: skip
def test_wrong_layouts(layout: str, text: str) -> None:
    check_layout(layout, text)


@pytest.mark.parametrize(
    ("comptime", "text"),
    [
        ("$$@export_symbol(f, \"g\");", "symbol 'g' has no '@export_name'; "
         "did you mean".replace("; did you mean", "")),
        ("$$@export_symbol(g);", "undeclared identifier 'g'"),
        ("$$@export_symbol(p, \"f\");", "the exported type is 'fn() void', the symbol's is"),
        ("$$@export_symbol(f, \"p\");", "the exported type is '[*]f32', the function's is"),
        ("$$@export_symbol(q, \"p\");", "'[*]const f32' points to constants"),
        ("@export_symbol(f); $$@export_symbol(f);", "symbol 'f' is exported twice"),
    ],
)  # fmt: skip
def test_wrong_exports(comptime: str, text: str) -> None:
    layout = (
        'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{});'
        ' @export_name("f", fn () void); @export_name("p", [*]f32, true); }'
    )
    pe = f"{PE} var q: [*]const f32 = &v; comptime {{ {comptime} }}"
    if "g)" in comptime:
        pe = pe.replace("$$", "").replace("@export_symbol(g)", "@export_symbol($$g)")
    check_error_in({"layout.csl": layout, "pe.csl": pe}, text)


def routes(config: str, **options: object) -> ColorConfiguration:
    layout = f"layout {{ {ONE} @set_color_config(0, 0, c, {config}); }}"
    program = program_of({"layout.csl": layout, "pe.csl": PE}, **options)
    (routing,) = program.routings
    (color,) = routing.colors
    return color


def test_routes_are_sets_of_directions() -> None:
    found = routes(".{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST, SOUTH } } }")
    assert (found.color, found.rx, found.tx) == (1, RAMP, EAST | SOUTH)


def test_empty_routes_are_none() -> None:
    found = routes(".{ .routes = .{}, .filter = .{ .kind = .{ .counter = true } } }")
    assert (found.color, found.rx, found.tx) == (1, 0, 0)


def test_switches_change_one_side() -> None:
    found = routes(
        ".{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } }, .switches = .{ "
        ".pos1 = .{ .tx = EAST }, .pos2 = .{ .rx = NORTH }, .current_switch_pos = 1, "
        ".ring_mode = true, .pop_mode = .{ .always_pop = true } } }"
    )
    assert found.positions == (
        SwitchPosition(0, EAST, valid=True),
        SwitchPosition(NORTH, 0, valid=True),
    )
    assert (found.current_position, found.ring_mode, found.pop_mode) == (1, True, "always_pop")


def test_routes_may_be_bits_of_the_directions_library() -> None:
    layout = """
const d = @import_module("<directions>");
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{});
  @set_color_config(0, 0, @get_color(1), .{
    .routes = d.dirToRxBits(d.flip(EAST)) | d.TX_RAMP,
    .switches = .{ .pos1 = d.RX_RAMP, .pos2 = 0, .pos3 = d.dirToTxBits(NORTH) },
  });
}
"""
    program = program_of({"layout.csl": layout, "pe.csl": PE})
    (found,) = program.routings[0].colors
    assert (found.rx, found.tx) == (WEST, RAMP)
    assert found.positions == (
        SwitchPosition(RAMP, 0, valid=True),
        SwitchPosition(0, 0, valid=False),
        SwitchPosition(0, NORTH, valid=True),
    )


def test_filters_keep_their_limits() -> None:
    found = routes(
        ".{ .routes = .{ .rx = WEST, .tx = RAMP }, .filter = .{ .kind = .{ .range = true }, "
        ".min_idx = 3, .max_idx = 5 } }"
    )
    assert found.filter == Filter("range", count_data=False, count_control=False, min_index=3,
                                  max_index=5)  # fmt: skip


def test_some_colors_of_wse3_have_no_switches() -> None:
    config = ".{ .routes = .{ .rx = WEST, .tx = RAMP }, .switches = .{ .pos1 = .{ .tx = EAST } } }"
    layout = f"layout {{ {ONE} @set_color_config(0, 0, @get_color(10), $${config}); }}"
    program_of({"layout.csl": layout.replace("$$", ""), "pe.csl": PE}, architecture="wse2")
    check_layout(layout, "color 10 has no switches on wse3", architecture="wse3")


def test_a_color_is_configured_by_the_layout_or_by_the_code() -> None:
    config = ".{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }"
    files = {
        "layout.csl": f"layout {{ {ONE} @set_color_config(0, 0, c, {config}); }}",
        "pe.csl": f"comptime {{ $$@set_local_color_config(@get_color(1), {config}); }}",
    }
    check_error_in(files, "color 1 of PE (0, 0) is configured by the layout and by its code")


FILTER = ".{ .routes = .{ .rx = WEST, .tx = RAMP }, .filter = .{ .kind = .{ .counter = true } } }"


def test_a_pe_of_wse2_has_six_filters() -> None:
    config = f"for (@range(u16, NUM)) |k| {{ @set_color_config(0, 0, @get_color(k), {FILTER}); }}"
    marked = f"comptime {{ $$@set_local_color_config(@get_color(20), {FILTER}); }}"

    def files(num: int, pe: str) -> dict[str, str]:
        return {"layout.csl": f"layout {{ {ONE} {config} }}".replace("NUM", str(num)), "pe.csl": pe}

    right = marked.replace("$$", "")
    assert len(program_of(files(5, right)).routings[0].colors) == 6
    program_of(files(6, right), architecture="wse3")
    text = "PE (0, 0) has 7 filters, on colors 0, 1, 2, 3, 4, 5, 20; a PE of wse2 has 6"
    check_error_in(files(6, marked), text)


SWITCH = ".pos1 = .{ .tx = EAST }, .current_switch_pos = 1, .ring_mode = true"
POP = ".pop_mode = .{ .always_pop = true }"


@pytest.mark.parametrize(
    "config",
    [
        f".{{ .routes = .{{ .rx = WEST, .tx = RAMP }}, .switches = .{{ {SWITCH}, {POP} }} }}",
        f".{{ .routes = .{{ .rx = WEST, .tx = RAMP, {SWITCH}, {POP} }} }}",
        f".{{ .rx = WEST, .tx = RAMP, {SWITCH}, {POP} }}",
        f".{{ .routes = .{{ .rx = WEST, .tx = RAMP, {POP} }}, .switches = .{{ {SWITCH} }} }}",
    ],
)
def test_a_switch_may_stand_beside_the_routes(config: str) -> None:
    layout = f"layout {{ {ONE} @set_color_config(0, 0, c, $${config}); }}"
    files = {"layout.csl": layout.replace("$$", ""), "pe.csl": PE}
    (found,) = program_of(files).routings[0].colors
    assert (found.current_position, found.ring_mode, found.pop_mode) == (1, True, "always_pop")
    assert [position.tx for position in found.positions] == [1 << 1]
    if ".switches" not in config or f"RAMP, {POP}" in config:
        text = "deprecated: '.pop_mode' beside '.rx' and '.tx'; write it in '.switches'"
        check_warning_in({**files, "layout.csl": layout}, text, dialect="2.10")
    assert compile_files(files).diagnostics == ()


def test_a_switch_stands_in_one_place() -> None:
    routes = ".routes = .{ .rx = WEST, .tx = RAMP, .pos1 = .{ .tx = EAST } }"
    switches = ".switches = .{ .pos1 = .{ .tx = EAST } }"
    layout = f"layout {{ {ONE} @set_color_config(0, 0, c, $$.{{ {routes}, {switches} }}); }}"
    check_error_in({"layout.csl": layout, "pe.csl": PE}, "'.routes' has no option '.pos1'")


def test_bits_of_a_position_of_wse2_change_one_side() -> None:
    bits = '@import_module("<directions>")'
    pos1 = "d.dirToRxBits(EAST) | d.dirToTxBits(EAST)"
    routes = "d.RX_RAMP | d.dirToTxBits(WEST)"
    config = f"$$.{{ .routes = {routes}, .switches = .{{ .pos1 = {pos1} }} }}"
    layout = f"const d = {bits}; layout {{ {ONE} @set_color_config(0, 0, c, {config}); }}"
    text = "a switch position of wse2 changes '.rx' or '.tx', not both"
    check_error_in({"layout.csl": layout, "pe.csl": PE}, text)
    program_of({"layout.csl": layout.replace("$$", ""), "pe.csl": PE}, architecture="wse3")


def test_a_pe_may_have_no_code() -> None:
    program = program_of({"layout.csl": "layout { @set_rectangle(1, 1); @set_tile_code(0, 0); }"})
    assert program.grid.code_class(0, 0) == NO_CODE
    assert program.classes == ()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fabric_dims": (7, 3), "fabric_offsets": (4, 1), "memcpy": True},
         "Fabric dimension must be at least 8-by-3 with memcpy, got 7-by-3"),
        ({"fabric_dims": (9, 4), "fabric_offsets": (3, 1), "memcpy": True},
         "--fabric-offsets=3,1 leave memcpy no room"),
        ({"fabric_dims": (2, 2), "fabric_offsets": (2, 0)},
         "Fabric dimension must be at least 3-by-1, got 2-by-2"),
    ],
)  # fmt: skip
def test_the_rectangle_must_fit_the_fabric(options: dict[str, object], text: str) -> None:
    check_error_in({"layout.csl": f"layout {{ {ONE} }}", "pe.csl": PE}, text, **options)


def test_a_fabric_that_is_too_small_is_one_error() -> None:
    files = {"layout.csl": f"layout {{ {ONE} }}", "pe.csl": PE}
    found = compile_files(files, fabric_dims=(4, 1), fabric_offsets=(4, 1), memcpy=True)
    assert len(found.diagnostics) == 1


def test_unknown_parameters_are_a_warning() -> None:
    files = {
        "layout.csl": "layout { @set_rectangle(1, 1);"
        ' $$@set_tile_code(0, 0, "pe.csl", .{ .m = 1 }); }',
        "pe.csl": PE,
    }
    check_warning_in(files, "'pe.csl' has no param 'm'")
    files = {path: text.replace("$$", "") for path, text in files.items()}
    check_warning_in(files, "'layout.csl' has no param 'zz' (--params)", parameters=(("zz", 3),))
    assert compile_files(files, warnings_as_errors=True).program is None


def test_a_large_rectangle_costs_little_per_pe() -> None:
    layout = """
layout {
  @set_rectangle(100, 60);
  for (@range(u16, 100)) |x| {
    for (@range(u16, 60)) |y| {
      @set_tile_code(x, y, "pe.csl", .{ .n = x % 5 });
      @set_color_config(x, y, @get_color(1), .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST } } });
    }
  }
}
"""
    program = program_of({"layout.csl": layout, "pe.csl": PE})
    assert len(program.classes) == 5
    assert len(program.routings) == 1
    assert program.grid.code_class(7, 3) == 2
