"""What names mean by the syntax alone."""

import pytest

from appliance.csl.sources import Source
from appliance.csl.syntax import parse
from appliance.sdk.language_server.scopes import Scopes
from tests.support.csl_editor import at

TEXT = """const a = 1;
fn f(a: i16, comptime T: type) i16 {
  var b = a;
  { const b = a; g(b); }
  for (@range(i16, b)) |i, n| { g(i + n); }
  const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{a} -> x[i] });
  g(s.a); g(b);
  while (b < 3) : (b += 1) { const w = b; g(w); }
  return b;
}
fn h() void { g(a); g(T); }
"""


def scopes(text: str) -> Scopes:
    tree, _ = parse(Source("pe.csl", text, 0))
    return Scopes(tree)


@pytest.mark.parametrize(
    ("use", "declaration"),
    [
        ("b = ^a;\n  {", "f(^a"),
        ("g(^b); }", "const ^b"),
        ("g(^b);\n", "var ^b"),
        ("return ^b", "var ^b"),
        ("g(^i + n", "|^i, n|"),
        ("i + ^n", "|i, ^n|"),
        ("x[^i]", "|^i|{"),
        ("{^a}", "f(^a"),
        ("g(^w)", "const ^w"),
        ("h() void { g(^a", "const ^a"),
        ("comptime ^T", "comptime ^T"),
        ("= ^b; g(w)", "var ^b"),
    ],
)
def test_a_name_means_the_innermost_declaration(use: str, declaration: str) -> None:
    offset = at(TEXT, use)
    name = TEXT[offset : offset + 1]
    found = scopes(TEXT).find(name, offset)
    assert found is not None
    assert found.start == at(TEXT, declaration)


def test_a_name_of_another_function_means_nothing() -> None:
    assert scopes(TEXT).find("T", at(TEXT, "g(^T)")) is None


def test_uses_of_a_name_leave_out_members_and_other_declarations() -> None:
    found = scopes(TEXT)
    parameter = found.find("a", at(TEXT, "b = ^a;\n  {"))
    assert parameter is not None
    marks = ("f(^a", "var b = ^a", "const b = ^a", "{^a}")
    assert found.uses(parameter) == [at(TEXT, mark) for mark in marks]


def test_a_file_with_errors_keeps_what_can_be_read() -> None:
    broken = (
        TEXT.replace("return b;", "return b +;\n  const late = b;") + "fn k( void {}\nvar z = 1;"
    )
    found = scopes(broken)
    assert {"a", "f", "h", "z"} <= set(found.globals)
    assert found.find("b", at(broken, "late = ^b")) is not None
