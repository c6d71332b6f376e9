"""A rule of CSL as two fragments of a program: one keeps the rule, one breaks it at `$$`."""

import re

from tests.support.csl import check_error, check_right

TOP = """
const red = @get_color(3);
const iq = @get_input_queue(2);
const oq = @get_output_queue(3);
const range = @range(u16, 4);
var a: [8]u16; var b: [8]u16; var f: [8]f32; var m: [4, 4]f32; var s: struct { p: u16, q: u16 };
var x: u16 = 1; var i: i16 = 1; var y: f32 = 1.0; var ok: bool; var p: *u16 = &x;
const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> a[k] });
const e = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> b[k] });
const g = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> f[k] });
const dest = @get_dsr(dsr_dest, 1);
const E = enum { A, B };
fn twice(n: u16) u16 { return n + n; }
fn nothing() void {}
task work() void {}
"""


def whole(body: str, top: str = "") -> str:
    return f"{TOP}{top}\nfn main() void {{\n  {body}\n}}\ncomptime {{ @export_symbol(main); }}\n"


def check_in_code(right: str, wrong: str, text: str, *, top: str = "", **options: object) -> None:
    """Asserts a rule of what stands in a function, behind more declarations."""
    check_right(whole(right, top), **options)
    check_error(whole(wrong, top), text, **options)


def check_at_the_top(right: str, wrong: str, text: str, **options: object) -> None:
    """Asserts a rule of what stands at the top of a file; what is declared there is used."""
    check_right(whole("", f"{right}\n{_use(right)}"), **options)
    check_error(whole("", f"{wrong}\n{_use(wrong)}"), text, **options)


def _use(declarations: str) -> str:
    """Returns a block that makes the compiler look at the last of them."""
    names = re.findall(r"^(?:\$\$)?(?:const|var|param) (\w+)", declarations, re.MULTILINE)
    return f"comptime {{ const used = @type_of({names[-1]}); }}" if names else ""
