"""Programs that would cost the compiler more than it may take end with an error at the place."""

import time

import pytest

from appliance.csl.semantics.results import layout
from tests.support.csl import check_error, compile_files, compile_pe

EXPORT = "\ncomptime { @export_symbol(main); }\n"
STEPS = 200_000


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "fn f(comptime n: u32) u32 { return $$f(n + 1); }\nfn main() void { var x = f(1); }"
            + EXPORT,
            "more than 6144 functions",
        ),
        (
            "comptime { for (@range(u32, 4000000000)) |i| { const a = $$@zeros([1 << 20]u32); } }",
            "more than 200000 steps",
        ),
        (
            "const a = @zeros([1 << 22]u32);\ncomptime { $$var d = .{ a, a, a }; }",
            "a value of more than 4194304 elements",
        ),
        (
            'comptime { while (true) { $$@comptime_print("a line that is printed"); } }',
            "more than 200000 steps",
        ),
        (
            'comptime { while (true) { const m = $$@import_module("<math>"); } }',
            "more than 200000 steps",
        ),
        (
            "var x: u32;\nfn main() void {\n  inline for (@range(u16, 500)) |a| {\n"
            "    $$inline for (@range(u16, 500)) |b| { x = a + b; }\n  }\n}" + EXPORT,
            "'main' becomes larger than the memory of a PE",
        ),
        (
            "fn f(n: u32, x: anytype) u32 { return f(n + 1, $$.{ x, x }); }\n"
            "comptime { @comptime_print(f(0, .{ 1 })); }",
            "a struct of more than 4096 parts",
        ),
        (
            "fn T(comptime n: u32) type {\n  if (n == 0) { return u16; }\n"
            "  return $$struct { a: T(n - 1), b: T(n - 1) };\n}\n"
            "var x: T(40);\nfn main() void { x = x; }" + EXPORT,
            "a struct of more than 4096 parts",
        ),
        ("comptime { $$while (true) {} }", "more than 200000 steps"),
    ],
)
def test_a_program_without_bounds(source: str, text: str) -> None:
    began = time.process_time()
    check_error(source, text, comptime_steps=STEPS)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "source",
    [
        "comptime { const x = 1" + " + 1" * 20_000 + "; }",
        "comptime { const x = a" + ".b" * 20_000 + "; }",
        "comptime { const x = " + "(" * 3000 + "1" + ")" * 3000 + "; }",
        "comptime { " + "if (false) {} else " * 5000 + "{} }",
        "const S = struct { a: S }; var x: S; fn main() void { x = x; }" + EXPORT,
        "const a = b; const b = a; comptime { @comptime_print(a); }",
        'const x = @import_module("pe.csl"); fn main() void {}' + EXPORT,
    ],
)
def test_a_program_without_an_end(source: str) -> None:
    compilation = compile_pe(source, comptime_steps=STEPS)
    assert compilation.program is None
    assert "error: " in compilation.render()


def test_a_rectangle_may_be_so_large_and_hold_so_many_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"layout.csl": "layout { @set_rectangle(10000, 10000); }"}
    assert "is too large" in compile_files(files).render()
    monkeypatch.setattr(layout, "MAX_CLASSES", 5)
    text = (
        "layout {\n  @set_rectangle(6, 1);\n  for (@range(u16, 6)) |x| {\n"
        '    @set_tile_code(x, 0, "pe.csl", .{ .x = x });\n  }\n}\n'
    )
    files = {"layout.csl": text, "pe.csl": "param x: u16;"}
    found = compile_files(files).render()
    assert "layout.csl:4:5: error: more than 5 different codes of PEs" in found


@pytest.mark.parametrize(
    "body",
    [
        "x = (x + 1) % 1000;",
        "x = x + 1; x = x & 255; x = x * 2; x = x - x / 3; if (x > 7) { x = x % 1000; }",
        "x = f(x);",
        "a[x % 16] = a[x % 16] + 1; x = x + 1;",
        "for (@range(u16, 1000)) |i| { x = (x + i) % 77; }",
        "switch (x) { 0 => { x = 1; }, else => { x = 0; } }",
        "while (x < 100) : (x = x + 1) {} x = 0;",
    ],
)
def test_an_endless_loop_ends_soon_whatever_is_in_it(body: str) -> None:
    source = (
        "fn f(n: u32) u32 { var y = n + 1; return y % 1000; }\n"
        "comptime { var x: u32 = 0; var a = @zeros([16]u32); while (true) { " + body + " } }"
    )
    began = time.process_time()
    compilation = compile_pe(source, comptime_steps=STEPS)
    assert f"more than {STEPS} steps at compile time" in compilation.render()
    assert time.process_time() - began < STEPS * 20e-6  # 10 minutes for 30 million


def test_a_layout_has_steps_for_each_pe_and_route_that_it_sets() -> None:
    layout = """
layout {
  @set_rectangle(20, 20);
  for (@range(u16, 20)) |y| { for (@range(u16, 20)) |x| {
    var n: u16 = 0;
    for (@range(u16, 60)) |i| { if (i == x + y) { n = i; } }
    @set_tile_code(x, y, "pe.csl", .{});
    const c = @get_color(n % 8);
    @set_color_config(x, y, c, .{ .routes = .{ .rx = WEST, .tx = EAST } });
  } }
  AFTER
}
"""
    files = {"layout.csl": layout.replace("AFTER", ""), "pe.csl": ""}
    steps = 20_000
    assert compile_files(files, comptime_steps=steps).program is not None
    files["layout.csl"] = layout.replace("AFTER", "for (@range(u16, 20000)) |i| { var k = i; }")
    told = compile_files(files, comptime_steps=steps).render()
    assert "more than 20000 steps at compile time; a loop may have no end" in told
