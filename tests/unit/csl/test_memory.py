"""The 48 kB of a PE: variables and code, and the table of what fills them."""

import re

import pytest

from appliance.csl.program import footprint
from appliance.csl.program.code import MEMORY_BYTES
from tests.support.csl import code_of, compile_pe, main_of


def used(pe: str) -> int:
    """Returns the bytes that a program takes by the compiler's own count."""
    code = code_of(pe)
    words = sum(map(footprint.code_words, code.functions))
    words += sum(footprint.shared_words(code.functions).values())
    return code.memory_end + 2 * (words + footprint.start_words(code.tasks, code.dsr_loads))


def program(length: int, statements: int) -> str:
    body = "".join(f"  small = small + {7 + number};\n" for number in range(statements))
    return (
        f"var big: [{length}]u16; var small: u16;\n"
        f"fn main() void {{\n  big[small] = 1;\n{body}}}\ncomptime {{ @export_symbol(main); }}\n"
    )


def test_a_table_names_the_largest_symbols_of_a_program_that_does_not_fit() -> None:
    pe = (
        "var big: [10000]f32; var more: [9000]u16; var small: u16;\n"
        "fn main() void { big[0] = 1.0; more[0] = 1; small = 1; }\n"
        "comptime { @export_symbol(main); }"
    )
    text = compile_pe(pe).render()
    found = re.search(
        r"pe\.csl:1:1: error: PE \(0, 0\) needs (\d+) bytes of memory, 58258 for variables and "
        r"about (\d+) for code; it has 49152, so (\d+) are missing",
        text,
    )
    assert found is not None, text
    need, code, missing = map(int, found.groups())
    assert need == 58258 + code == MEMORY_BYTES + missing
    rows = re.findall(r"note: +(\d+) bytes  (.*)", text)
    assert rows[0] == ("40000", "big: [10000]f32")
    assert rows[1] == ("18000", "more: [9000]u16")
    assert {name for _, name in rows} == {
        *("big: [10000]f32", "more: [9000]u16", "small: u16", "main: code")
    }


def test_every_byte_of_code_counts() -> None:
    free = MEMORY_BYTES - used(program(1, 40))
    longest = 1 + free // 2
    assert used(program(longest, 40)) <= MEMORY_BYTES
    assert compile_pe(program(longest, 40)).program is not None
    refused = compile_pe(program(longest, 41))
    assert refused.program is None
    assert "PE (0, 0) needs" in refused.render()
    assert compile_pe(program(longest + 1, 40)).program is None


def test_code_alone_can_fill_a_pe() -> None:
    text = compile_pe(program(1, 3000)).render()
    assert re.search(r"note: +\d{5} bytes  main: code", text), text


def test_smaller_symbols_are_summed_up() -> None:
    names = [f"v{number}" for number in range(30)]
    variables = "".join(f"var {name}: [1000]u16;\n" for name in names)
    stores = "".join(f"{name}[0] = 1; " for name in names)
    pe = f"{variables}fn main() void {{ {stores} }}\ncomptime {{ @export_symbol(main); }}"
    rows = re.findall(r"note: +(\d+) bytes  (.*)", compile_pe(pe).render())
    assert len(rows) == 13
    assert rows[-1][1] == "19 smaller symbols"
    assert sum(int(size) for size, _ in rows) > MEMORY_BYTES


def words(body: str, top: str = "") -> int:
    return footprint.code_words(main_of(body, top)) - footprint.code_words(main_of("", ""))


@pytest.mark.parametrize(
    ("body", "count"),
    [
        # A load, an addition of 1, a store; two addresses.
        ("a = a + 1;", 3 * 2 + 2),
        # A 16-bit constant is a word, a 32-bit one two.
        ("a = a + 77;", 3 * 2 + 2 + 1),
        ("b = b + 77;", 3 * 2 + 2 + 2),
        # An assertion is ignored by the machine.
        ("@assert(true);", 0),
        # Operation and two DSDs: each is loaded, from four words.
        ("@mov16(d, e);", 2 + 2 * (2 + 4)),
        # Of a DSD in a DSR nothing is loaded.
        ("@mov16(r, e);", 2 + (2 + 4)),
    ],
)
def test_words_of_operations(body: str, count: int) -> None:
    top = (
        "var a: u16; var b: u32; var x: [8]u16; var y: [8]u16;\n"
        "const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> x[i] });\n"
        "const e = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> y[i] });\n"
        "const r = @get_dsr(dsr_dest, 1);\n"
    )
    assert words(body, top) == count


@pytest.mark.parametrize("num_arguments", [0, 1, 3])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("argument", ["b", "77"])
def test_words_of_calls(num_arguments: int, is_known: bool, argument: str) -> None:
    """An instruction for the call and for each argument; a known name, or a number, is a word."""
    names = [f"p{number}" for number in range(num_arguments)]
    types = ", ".join(["u16"] * num_arguments)
    top = (
        f"fn one({', '.join(f'{name}: u16' for name in names)}) void {{ a = 1; }}\n"
        "var a: u16; var b: u16;\n"
        f"var q: *const fn ({types}) void = &one;\n"
    )
    body = f"const f = q; f({', '.join([argument] * num_arguments)});"
    call = body.replace("const f = q; f", "one") if is_known else body
    is_number = argument != "b"
    loads = (0 if is_number else num_arguments) + (not is_known)
    numbers = num_arguments if is_number else 0
    assert words(call, top) == 2 * (1 + num_arguments) + is_known + 3 * loads + numbers


def test_a_function_of_mathematics_is_held_once() -> None:
    top = 'const math = @import_module("<math>");\nvar x: f32 = 2.0;\n'
    pe = (
        f"{top}fn main() void {{ x = math.sqrt(x); x = math.sqrt(x) / x; x = x / x; }}\n"
        "comptime { @export_symbol(main); }\n"
    )
    assert footprint.shared_words(code_of(pe).functions) == {"divide": 48, "sqrt": 64}
