# ruff: noqa: E501 - rows of a table
"""Mistakes of who comes from another language: the message says what CSL has."""

import pytest

from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.errors import StallError
from appliance.fabric.host_interface import Simulator
from tests.support.csl import check_error, check_right, compile_files
from tests.support.csl_debugged import CODE, LAYOUT
from tests.support.csl_rules import check_at_the_top, check_in_code

IN_CODE = [
    ("ok = ok and x == 1;", "ok = ok $$&& x == 1;", "there is no '&&' in CSL; write 'and'"),
    ("ok = ok or x == 1;", "ok = ok $$|| x == 1;", "there is no '||' in CSL; write 'or'"),
    ("x += 1;", "x$$++;", "there is no '++' in CSL; write 'i += 1'"),
    ("x -= 1;", "x$$--;", "there is no '--' in CSL; write 'i -= 1'"),
    ("while (x < 3) : (x += 1) {}", "while (x < 3) : (x$$++) {}", "there is no '++'"),
    (
        "for (@range(u16, 3)) |k| {}",
        "for ($$k = 0; k < 3; k += 1) {}",
        "a 'for' goes over a range or an array; write 'for (@range(u16, n)) |i| { ... }'",
    ),
    (
        "for (@range(u16, 3)) |k| {}",
        "for ($$var k: u16 = 0; k < 3; k += 1) {}",
        "a 'for' goes over a range",
    ),
    (
        "var z: i32 = 1; i = @as(i16, z);",
        "var z: $$int = 1; i = @as(i16, z);",
        "CSL calls it 'i32'",
    ),
    ("var z: f32 = 1.0; y = z;", "var z: $$float = 1.0; y = z;", "CSL calls it 'f32'"),
    ("var z: u16 = 1; x = z;", "var z: $$uint16_t = 1; x = z;", "CSL calls it 'u16'"),
    ("var z: i16 = 1; i = z;", "var z: $$int16 = 1; i = z;", "CSL calls it 'i16'"),
    ("ok = true;", "ok = $$True;", "did you mean 'true'?"),
    ("var z: i16 = 1; i = z;", "$$var z = 1;", "give it a type, as in 'var z: i16'"),
    ("var z: f32 = 1.0; y = z;", "$$var z = 1.5;", "give it a type, as in 'var z: f32'"),
]
AT_THE_TOP = [
    ('const z = @import_module("<math>");', 'const z = @import_module($$"<maths>");', "there is no library '<maths>'; did you mean '<math>'?"),
    ('const z = @import_module("<memcpy/memcpy>", .{});', 'const z = @import_module($$"<memcpy/mempcy>", .{});', "did you mean '<memcpy/memcpy>'?"),
    ("fn z() void {}\nconst v = @type_of(z);", "fn $$z() {}\nconst v = @type_of(z);", "'z' has no result type; write 'void' before the '{'"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "text"), IN_CODE)
def test_code_as_in_other_languages_is_told_what_csl_has(right: str, wrong: str, text: str) -> None:
    check_in_code(right, wrong, text)


@pytest.mark.parametrize(("right", "wrong", "text"), AT_THE_TOP)
def test_a_declaration_that_lacks_a_word_is_told_which(right: str, wrong: str, text: str) -> None:
    check_at_the_top(right, wrong, text)


@pytest.mark.parametrize("expression", ["x - -1", "x --1", "x & 1 | 2"])
def test_operators_beside_each_other_keep_their_meaning(expression: str) -> None:
    check_right(
        f"var x: i16 = 3;\nfn main() void {{ x = {expression}; }}\ncomptime {{ @export_symbol(main); }}\n"
    )


def test_a_function_whose_return_fails_has_that_error_alone() -> None:
    code = "fn f() i32 { return $$nope; }\nfn main() void { const z = f(); }\ncomptime { @export_symbol(main); }\n"
    check_error(code, "undeclared")


ROUTE = """
const c = @get_color(3); const iq = @get_input_queue(2); const oq = @get_output_queue(2);
const from = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = iq });
comptime {
  @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
  @initialize_queue(iq, .{ .color = c }); @initialize_queue(oq, .{ .color = c });
}
"""
SENDS = "const to = @get_dsd(fabout_dsd, .{ .extent = 2, .fabric_color = c, .output_queue = oq }); fn send() void { @mov32(to, 1); }\n"


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize(("more", "call", "words"), [
    ("", "", "would have to send it, but nothing in pe.csl sends color 3"),
    (SENDS, "if (total > 50) { send(); }", "would have to send it, which waits itself"),
])  # fmt: skip
def test_who_never_sends_a_color_is_not_said_to_wait(
    architecture: str, more: str, call: str, words: str
) -> None:
    body = f"{call} @mov32(@get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{4}} -> out[i] }}), from);"
    code = CODE.replace("fn main() void {", f"{ROUTE}{more}fn main() void {{ {body}")
    found = compile_files(
        {"layout.csl": LAYOUT, "pe.csl": code}, memcpy=True, architecture=architecture
    )
    assert found.program is not None, found.render()
    simulator = Simulator(found.program)
    simulator.submit(Launch("main"))
    with pytest.raises(StallError, match=words):
        simulator.wait(simulator.submit(CopyOut("out", Region(0, 0, 1, 1), 8, 32)))
