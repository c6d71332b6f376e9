"""Tokens and grammar: what is read, and where the parser says that something is wrong."""

import pytest

from appliance.csl.sources import Source
from appliance.csl.syntax import parse, tokenize, tree
from tests.support.csl import check_error, check_right, printed


def test_comments_are_kept_apart_from_the_tokens() -> None:
    tokens, comments = tokenize("const a = 1; // one\n// two\n")
    assert [token.text for token in tokens] == ["const", "a", "=", "1", ";", ""]
    assert [comment.text for comment in comments] == ["// one", "// two"]


def test_tokens_cover_the_text_that_they_were_read_from() -> None:
    text = 'fn f() void { x.*[0] <<= @as(u16, "a\\n"); }'
    tokens, _ = tokenize(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)


def test_nodes_know_where_their_text_is() -> None:
    text = "const a = b + c(1) ;"
    file, errors = parse(Source("x.csl", text, 0))
    assert errors == []
    (item,) = file.items
    assert isinstance(item, tree.Declaration)
    assert item.value is not None
    assert text[item.value.start : item.value.end] == "b + c(1)"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("42", "42"),
        ("1_000", "1000"),
        ("0x2A", "42"),
        ("0b1010", "10"),
        ("0o17", "15"),
        ("'a'", "97"),
        ("'\\n'", "10"),
        ("'\\x0a'", "10"),
        ("1.5", "1.5"),
        ("1.e-2", "0.01"),
        ("2e3", "2000.0"),
        ('"a\\x41\\tb"', "aA\tb"),
    ],
)
def test_literals_have_their_value(literal: str, value: str) -> None:
    assert printed(f"@comptime_print({literal});") == [value]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("1 << 2 + 1", "8"),
        ("6 & 3 == 2", "true"),
        ("1 | 6 & 3", "3"),
        ("1 ^ 3 | 4", "6"),
        ("7 - 2 - 1", "4"),
        ("-7 / 2", "-3"),
        ("-7 % 2", "-1"),
        ("true or false and false", "true"),
        ("!true or true", "true"),
        ("~@as(u16, 1)", "65534"),
        ("-@as(i16, -32768)", "-32768"),
    ],
)
def test_operators_bind_as_documented(expression: str, value: str) -> None:
    assert printed(f"@comptime_print({expression});") == [value]


@pytest.mark.parametrize(
    "source",
    [
        "const a: [3]u16 = [3]u16 { 1, 2, 3, };",
        "const S = struct { a: u16, b: f32, }; const s = S{ .a = 1, .b = 2.0 };",
        "const t = .{ 1, 2, 3 }; const e = .{};",
        "const E = enum(u16) { A, B = 3, C }; const c = E.C;",
        "var x: [4]f32 align(16) = @zeros([4]f32);",
        "param p = {}; const isVoid = @type_of(p) == void;",
        "const a = if (true) 1 else 2;",
        "fn f() void { if (true) return; }",
        "fn f() void { for (@range(u16, 3)) |i| { } ; }",
        "fn f() void { var i: u16 = 0; while (i < 3) : (i += 1) { } }",
        "const p: *const fn (u16, f32) void = f; fn f(a: u16, b: f32) void { }",
        "const U = union { a: u16, b: f32 }; const P = packed struct { a: u16 };",
        "color old;",
        "inline fn f() void { } noinline fn g() u16 { return 1; } export noinline fn h() void { }",
    ],
)
def test_the_grammar_is_read(source: str) -> None:
    _, errors = parse(Source("x.csl", source, 0))
    assert errors == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("const a = $$;", "expected an expression, found ';'"),
        ("const a = $$1", "expected ';' after this"),
        ("const $$if = 1;", "'if' is a keyword and cannot be the name of a const"),
        ("fn f($$1) void { }", "expected a parameter's name, found '1'"),
        ("fn f() void { x = (1 + $$2; }", "expected ')' after this"),
        ("fn f() void { const a = [$$3u16; }", "expected ']' after this"),
        ("$$banana x = 1;", "expected a declaration"),
        ("const a = $$`;", "expected an expression, found character '`'"),
        ('const a = $$"abc;', "expected an expression, found character '\"'"),
        ("const a = $$'ab';", "expected an expression"),
        ('const a = $$"\\q";', "unknown escape '\\q'"),
        ("const S = struct { a $$};", "expected ':'"),
        ("fn f() void { outer: $$x = 1; }", "expected a loop or block after its label"),
        ("$$inline noinline fn f() void { }", "a function is 'inline' or 'noinline'"),
        ("noinline $$const a = 1;", "expected a declaration"),
        ("const a = $$packed enum { A };", "expected 'struct' or 'union' after 'packed'"),
    ],
)
def test_syntax_errors_are_at_the_place(source: str, text: str) -> None:
    check_error(source, text)


def test_several_syntax_errors_are_found_in_one_run() -> None:
    source = "fn f() void {\n  x = ;\n  y = 1;\n  z = );\n}\nconst a = ;\nconst b = 1;\n"
    _, errors = parse(Source("x.csl", source, 0))
    assert [(error.line, error.column) for error in errors] == [(2, 7), (4, 7), (6, 11)]


def test_a_brace_behind_a_condition_begins_a_block() -> None:
    check_right("const flag = true; var x: u16; fn main() void { if (flag) { x = 1; } }")


def test_a_brace_behind_a_functions_type_begins_its_body() -> None:
    source = """
const S = struct { a: u16 };
fn make() S { return S{ .a = 1 }; }
fn three() [3]u16 { return [3]u16{ 1, 2, 3 }; }
comptime { @comptime_assert(make().a == three()[0]); }
"""
    check_right(source)


def test_nesting_has_a_limit() -> None:
    source = "const a = " + "(" * 5000 + "1" + ")" * 5000 + ";"
    _, errors = parse(Source("x.csl", source, 0))
    assert "nested more than 200 levels deep" in errors[0].text
