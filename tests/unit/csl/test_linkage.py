"""`extern` names what a file of the same PE exports; what is wrong is refused where it is named."""

import pytest

from tests.support.csl import LAYOUT, check_error, check_error_in, compile_files
from tests.unit.csl.test_streams import OLD, out_of

TOP = OLD.replace("QUEUE", "")


def test_an_extern_variable_is_the_exported_one_and_an_extern_function_too() -> None:
    code = """
export var w: i32 = 12;
extern var y: i32 linkname("w");
extern var z: i32 linkname("w");
export var list = [3]i32{ 1, 2, 3 };
extern var same: [3]i32 linkname("list");
export const seven: i16 = 7;
extern const eight: i16 linkname("seven");
export fn twice(n: i32) i32 { return n * 2; }
extern fn double(n: i32) linkname("twice") i32;
export fn thrice(n: i32) linkname("three") i32 { return n * 3; }
extern fn three(n: i32) i32;
fn main() void {
  y += 1; out[0] = @bitcast(u32, w); w = 50; out[1] = @bitcast(u32, y); out[2] = @bitcast(u32, z);
  same[1] = 9; out[3] = @bitcast(u32, list[1]);
  out[4] = @as(u32, eight);
  out[5] = @bitcast(u32, double(w) + three(1));
  const at = &y; at.* = 4; out[6] = @bitcast(u32, w);
  const call: *const fn(i32) i32 = &double; out[7] = @bitcast(u32, call(8));
}
"""
    (found,) = out_of(code, "wse2", top=TOP)
    assert found[:8] == [13, 50, 50, 9, 7, 103, 4, 16]


@pytest.mark.parametrize("owner", ["pe.csl", "library.csl"])
def test_files_of_a_pe_name_each_others_exports_in_either_direction(owner: str) -> None:
    owns = "export var x: u32 = 5;\n"
    names = "extern var x: u32;\nfn add() void { x += 1; }\n"
    call = "lib.add();" if owner == "pe.csl" else "x += 1;"
    texts = {
        "layout.csl": LAYOUT,
        "pe.csl": 'const lib = @import_module("library.csl");\n'
        + (owns if owner == "pe.csl" else "extern var x: u32;\n")
        + f"fn main() void {{ {call} }}\ncomptime {{ @export_symbol(main); }}\n",
        "library.csl": names if owner == "pe.csl" else owns,
    }
    compilation = compile_files(texts)
    assert compilation.program is not None, compilation.render()
    names_of = [v.name for v in compilation.program.classes[0].variables]
    assert len([name for name in names_of if name.endswith("x")]) == 1


MAIN = "fn main() void { USE }\ncomptime { @export_symbol(main); }\n"


@pytest.mark.parametrize(
    ("declared", "use", "text"),
    [
        ("extern var $$x: i16;", "x = 1;", "extern 'x' is defined nowhere"),
        ("extern fn $$f() void;", "f();", "extern 'f' is defined nowhere"),
        ("export var a: i32 = 1; extern var $$x: i16 linkname(\"a\");", "x = 1;", "its export"),
        ("export fn a(n: i16) void {} extern fn $$f() linkname(\"a\") void;", "f();", "its export"),
        ("export const a: i16 = 1; extern var $$x: i16 linkname(\"a\");", "x = 1;", "a constant"),
        ("export const a: i16 = 1; extern const x: i16 linkname(\"a\");", "$$x = 1;", "a constant"),
        ("export var a: i16 = 1; extern const $$x: i16 linkname(\"a\");", "var v = x;",
         "write 'extern var'"),
        ("export var a: i16 = 1; $$export var b: i16 linkname(\"a\") = 2;", "a = b;",
         "exported already"),
        ("const S = struct { a: i16 }; export var $$x: S = S{ .a = 1 };", "x.a = 1;",
         "cannot be exported"),
        ("export var $$x: direction = EAST;", "x = WEST;", "'direction' cannot be exported"),
        ("export const $$x = 5;", "var v: i16 = x;", "'comptime_int' cannot be exported"),
        ("const S = struct { a: i16 }; export fn $$f(s: S) i16 { return s.a; }", "",
         "cannot be exported"),
        ("extern fn $$f(direction) void;", "f(EAST);", "cannot be extern"),
        ("extern var x: i16 = $$1;", "x = 1;", "cannot have a value"),
        ("extern fn f() void $${}", "f();", "cannot have a body"),
        ("fn f() void;", "$$f();", "is only declared"),
        ("export fn a() i16 { return 1; } extern fn f() linkname(\"a\") i16; const k = $$f();",
         "var v = k;", "cannot be called at compile time"),
        ("var a: i16 linkname($$1);", "a = 1;", "a linkname is a known string"),
        ("inline fn f() i16 { return 1; }", "const p = $$&f;", "'f' has no address"),
        ("inline fn f() void {} comptime { $$@export_symbol(f, \"main\"); }", "",
         "inline function 'f' has no address"),
    ],
)  # fmt: skip
def test_an_extern_that_names_nothing_right_is_refused(declared: str, use: str, text: str) -> None:
    main = MAIN.replace("USE", use)
    if '"main"' in declared:
        declared, main = declared.replace("$$@export_symbol(f", "@export_symbol($$f"), ""
    check_error(f"{declared}\n{main}", text)


def test_an_extern_that_two_files_export_is_refused_with_both() -> None:
    texts = {
        "layout.csl": LAYOUT,
        "pe.csl": 'const a = @import_module("a.csl");\nconst b = @import_module("b.csl");\n'
        "extern var $$x: i16;\n" + MAIN.replace("USE", "x = 1;"),
        "a.csl": "export var x: i16 = 1;\n",
        "b.csl": "export var x: i16 = 2;\n",
    }
    check_error_in(texts, "extern 'x' is defined twice, in 'a.csl' and 'b.csl'")
