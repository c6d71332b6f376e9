# ruff: noqa: E501 - rows of a table
"""Rules of the language that no example shows: a right program and a wrong one beside it."""

import pytest

from tests.support.csl import (
    LAYOUT,
    check_error,
    check_error_in,
    check_right,
    check_warning_in,
    compile_files,
)
from tests.support.csl_rules import check_at_the_top, check_in_code

IN_CODE = [
    # What other languages have and CSL has not.
    ("x += 1;", "x$$++;", "there is no '++' in CSL; write 'i += 1'"),
    ("ok = ok and ok;", "ok = ok $$&& ok;", "there is no '&&' in CSL; write 'and'"),
    ("x = a[1];", "const z = a[0.$$.2];", "expected a member's name, found '.'"),
    ("x = 1;", "defe$$r x = 1;", "expected ';' after this"),
    ("const t = .{ 1, 2 }; x = t[0];", "const t = .{ 1, 2 }; x = t.$$0;", "expected a member's name, found '0'"),
    ("switch (x) { 0, 1 => {}, else => {} }", "switch (x) { 0.$$..3 => {}, else => {} }", "expected a member's name, found '.'"),
    # Values.
    ("a = b;", "var z: [4]u16; a = $$z;", "assignment: expected type '[8]u16', got: '[4]u16'"),
    ("var w: i32 = i; w = w + i;", "var w: i32 = 1; i = $$w;", "assignment: expected type 'i16', got: 'i32'"),
    ("x = x + 7;", "x = $$x + 70000;", "value 70000 does not fit type 'u16'"),
    ("ok = ok or ok;", "ok = ok $$+ ok;", "'+' does not apply to 'bool'"),
    ("p = &a[1];", "p = p $$+ 1;", "'+' needs two values of one type, got '*u16'"),
    ("a[i] = 2;", "$$p[i] = 2;", "points to one value; write '.*'"),
    ("x = comptime twice(3);", "x = comptime twice($$x);", "the value of run-time variable 'x' is not known"),
    ("if (false) { twice(1, 2); no_such(); }", "if (true) { $$twice(1, 2); }", "function 'twice' takes 1 argument, got 2"),
    # Operations.
    ("@fmacs(g, g, g, y);", "@fmach(g, g, g, $$y);", "'@fmach': expected type 'f16', got: 'f32'"),
    ("@add16(d, e, fifo);", "@add16(d, $$fifo, e);", "a FIFO is not the first source of '@add16'; give it second"),
    ("const z = @set_dsd_length(d, 1);", "const z = @set_dsd_length(d, $$-1);", "value -1 does not fit type 'u16'"),
    ("const z = @set_dsd_stride(d, -128);", "const z = @set_dsd_stride(d, $$200);", "value 200 does not fit type 'i8' (-128 to 127)"),
    ("const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq }); @mov16(d, fin, .{ .async = true, .on_control = .{ .terminate = true } });",
     "const fin = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq }); @mov16(d, fin, $$.{ .async = true, .on_control = .{ .stop = true } });",
     "'.on_control' has no option '.stop'"),
    ("@block(red);", "@block($$@get_ut_id(3));", "'@block' needs 'color', 'data_task_id', 'local_task_id' or a task, got 'ut_id'"),
    ("x = @random16(); @set_active_prng(1);", "x = $$@random16(1);", "'@random16' takes no arguments, got 1"),
    ("const z = @get_color(x); ok = z == red;", "const z = @get_color($$y);", "needs an integer, got 'f32'"),
]  # fmt: skip

AT_THE_TOP = [
    ("// a comment", "$$/* a comment */", "expected a declaration"),
    ("const z = *u16;", "const z: $$?u16 = 1;", "expected an expression, found character '?'"),
    ("const z = u16777215;", "const z = $$u16777216;", "undeclared identifier 'u16777216'"),
    ("const y1 = z + 1; const z = 4; const w = y1;", "const z = 4; const $$z = 5;", "redefinition of 'z'"),
    ("fn g1(n: u16) u16 { return n; }\nconst z = g1(2);", "fn g1(n: u16) u16 { $$n = 2; return n; }\nconst z = g1(2);", "cannot assign to a constant"),
    ("fn g1() u16 { var n: u16 = 1; n += 1; return n; }\nconst z = g1();", "fn g1() u16 { $$x = 1; return 1; }\nconst z = g1();", "an assignment to a run-time variable is not allowed at compile time"),
    ("const Z = enum(u8) { A = 255 };\nconst z = Z.A;", "const Z = enum(u8) { A = $$300 };\nconst z = Z.A;", "value 300 does not fit type 'u8'"),
    ("const Z = enum { A = 2, B, C = 1 };\nconst z = Z.B;", "const Z = enum { A = 2, B, C = $$2 };\nconst z = Z.B;", "member 'C' has the value 2 of member 'A'"),
    ("const z = E.A == E.B;", "const Z = enum { A };\nconst z = Z.A $$== E.A;", "'==' needs two values of one type"),
    ("const z = @constants([2]u16, 3);", "const z = @constants([2]u16, $$1.5);", "@constants: expected type 'u16', got: 'comptime_float'"),
    ("const k: i16 = 4; const z = @get_color(k);", "const z = @get_color($$-4);", "color -4 is outside 0 to 23"),
    ("comptime { @assert(1 == 1); }", "comptime { $$@assert(1 == 2); }", "the assertion does not hold"),
    ("task t(v: u16) void {}\ncomptime { @bind_control_task(t, @get_control_task_id(4)); }",
     "task t(v: u32) void {}\ncomptime { @bind_control_task($$t, @get_control_task_id(4)); }", "the parameters of control task 't' take 32 bits; a wavelet has 16"),
    ("const z = @allocate_fifo(a);", "fn user() void { const z = $$@allocate_fifo(a); }\ncomptime { @set_teardown_handler(user, red); }", "'@allocate_fifo' is for top-level comptime blocks"),
    ("task t() void {}\ncomptime { @bind_local_task(t, @get_local_task_id(8)); }",
     "task t() u16 { return 1; }\ncomptime { @bind_local_task($$t, @get_local_task_id(8)); }", "task 't' returns 'u16'; a task is void"),
    ("const z = @strlen(\"abc\");", "const z = @strlen($$3);", "expected a string, got 'comptime_int'"),
    ("const z = @has_field(s, \"p\");", "const z = @has_field(s, $$1);", "expected a string, got 'comptime_int'"),
]  # fmt: skip

ONE = '@set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{}); const c = @get_color(1);'
ROUTES = ".{ .routes = .{ .rx = WEST, .tx = RAMP } }"
FILES = [
    ({"layout.csl": f"layout {{ {ONE} @set_color_config(0, 0, c, {ROUTES}); }}", "pe.csl": ""},
     {"layout.csl": f"layout {{ {ONE} $$@set_color_config(1, 0, c, {ROUTES}); }}", "pe.csl": ""}, "PE (1, 0) is outside the rectangle of 1 x 1"),
    ({"layout.csl": f'layout {{ {ONE} @export_name("p", [*]u16, true); }}', "pe.csl": ""},
     {"layout.csl": f'layout {{ {ONE} @export_name("p", $$[*]bool, true); }}', "pe.csl": ""}, "'[*]bool' cannot be exported; numbers of 16 and 32 bits"),
    ({"layout.csl": f'layout {{ {ONE} @export_name("p", fn (f16) void); }}', "pe.csl": ""},
     {"layout.csl": f'layout {{ {ONE} @export_name("p", $$fn (bool) void); }}', "pe.csl": ""}, "an exported function cannot take a 'bool'"),
    ({"layout.csl": f"param n: u16 = 1; layout {{ {ONE} }}", "pe.csl": ""},
     {"layout.csl": f"param $$n: u16; layout {{ {ONE} const z = n; }}", "pe.csl": ""}, "param 'n' has no value; give it with --params=n:VALUE"),
    ({"layout.csl": f'const m = @import_module("m.csl"); layout {{ {ONE} }}', "pe.csl": "", "m.csl": "layout { nope(); }"},
     {"layout.csl": f"layout {{ {ONE} $$nope(); }}", "pe.csl": ""}, "undeclared identifier 'nope'"),
    ({"layout.csl": LAYOUT, "pe.csl": 'fn main() void { n.g(); } const m = @import_module("m.csl"); const n = @import_module("n.csl", .{ .f = m.f }); comptime { @export_symbol(main); }',
      "m.csl": "fn f() void {}", "n.csl": "param f: fn () void; fn g() void { f(); }"},
     {"layout.csl": LAYOUT, "pe.csl": 'fn main() void { n.g(); } const m = @import_module("m.csl"); const n = @import_module("n.csl", .{ .f = m.f }); comptime { @export_symbol(main); }',
      "m.csl": "fn f(k: u16) void {}", "n.csl": "$$param f: fn () void; fn g() void { f(); }"}, "param 'f': expected type 'fn() void', got: 'fn(u16) void'"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "text"), IN_CODE, ids=lambda text: text[:40])
def test_a_rule_of_code(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text, top="const fifo = @allocate_fifo(b);")


@pytest.mark.parametrize(("right", "wrong", "text"), AT_THE_TOP, ids=lambda text: text[:40])
def test_a_rule_of_declarations(right: str, wrong: str, text: str) -> None:
    check_at_the_top(right, wrong, text)


@pytest.mark.parametrize(
    ("right", "wrong", "text"),
    FILES,
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_rule_of_files(right: dict[str, str], wrong: dict[str, str], text: str) -> None:
    result = compile_files(right)
    assert result.program is not None, result.render()
    check_error_in(wrong, text)


DEPRECATED = [
    ("wse2", "const same = $$@is_same_type(u16, u16);", "deprecated: '@is_same_type'; compare types with '=='"),
    ("wse2", "const fin = $$@get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q, .fabric_color = c });",
     "deprecated: '.fabric_color' of a fabin_dsd; its queue has the color"),
    ("wse3", "const fin = $$@get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q, .fabric_color = c });",
     "deprecated: '.fabric_color' of a fabin_dsd; its queue has the color"),
    ("wse3", "const out = $$@get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = @get_output_queue(2), .fabric_color = c });",
     "deprecated: '.fabric_color' of a fabout_dsd of wse3; its queue has the color"),
]  # fmt: skip
NEW = [
    ("wse2", "const same = u16 == u16;"),
    ("wse2", "const fin = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q });"),
    ("wse2", "const out = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = @get_output_queue(2), .fabric_color = c });"),
    ("wse3", "const out = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = @get_output_queue(2) });"),
]  # fmt: skip
QUEUE = "const c = @get_color(3); const q = @get_input_queue(2);\n"
BOUND = "comptime { @initialize_queue(q, .{ .color = c }); @initialize_queue(@get_output_queue(2), .{ .color = c }); }"


def in_main(statement: str, top: str = "") -> dict[str, str]:
    main = f"fn main() void {{ {statement} }} comptime {{ @export_symbol(main); }}"
    return {"layout.csl": LAYOUT, "pe.csl": f"{QUEUE}{top}\n{main}"}


def test_a_switch_over_a_number_without_a_width_gets_a_warning() -> None:
    """The page on syntax wants a width; the release notes of 0.7 say that it may have none."""
    text = "'switch' takes an integer with a width or an enum, not 'comptime_int'; write @as"
    check_warning_in(in_main("switch ($$k) { 3 => {}, else => {} }", "const k = 3;"), text)


@pytest.mark.parametrize(("architecture", "statement", "text"), DEPRECATED)
def test_what_2_10_deprecates_gets_a_warning(architecture: str, statement: str, text: str) -> None:
    check_warning_in(in_main(statement, BOUND), text, dialect="2.10", architecture=architecture)
    for dialect in ("1.4", "any"):
        texts = in_main(statement.replace("$$", ""), BOUND)
        assert compile_files(texts, dialect=dialect, architecture=architecture).diagnostics == ()


@pytest.mark.parametrize(("architecture", "statement"), NEW)
def test_what_2_10_says_instead_gets_none(architecture: str, statement: str) -> None:
    found = compile_files(in_main(statement, BOUND), dialect="2.10", architecture=architecture)
    assert found.diagnostics == ()


def test_2_10_initialises_no_input_queue_by_itself() -> None:
    right = "const fin = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q });"
    old = (
        "const fin = $$@get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q, .fabric_color = c });"
    )
    without = "const fin = $$@get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = c });"
    assert compile_files(in_main(right, BOUND), dialect="2.10").program is not None
    text = "input queue 2 is not initialised; '.fabric_color' no longer does that"
    check_error_in(in_main(old), text, dialect="2.10")
    check_error_in(in_main(without), "a fabin_dsd needs '.input_queue'", dialect="2.10")
    for dialect in ("1.4", "any"):
        texts = in_main(old.replace("$$", ""))
        assert compile_files(texts, dialect=dialect).program is not None


def test_the_type_of_all_structs_is_of_the_old_dialect() -> None:
    source = "fn f(s: $$comptime_struct) u16 { return s.n; } const a = f(.{ .n = 3 }); comptime { _ = a; }"
    check_right(source.replace("$$", ""), dialect="1.4")
    check_error(source, "`comptime_struct` is no longer supported", dialect="2.10")
    check_right(source.replace("$$comptime_struct", "anytype"), dialect="2.10")
