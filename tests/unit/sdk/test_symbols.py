"""What a program lets its host read, write and call."""

import json

import numpy as np
import pytest

from appliance.sdk.symbols import HostCallError, HostSymbols

ENTRIES = [
    {"id": 1, "kind": "Var", "name": "A", "sym_name": "A", "type": "[*]f32", "immutable": 0},
    {"id": 2, "kind": "Var", "name": "y", "sym_name": "y", "type": "[*]f32", "immutable": 1},
    {
        "id": 3,
        "kind": "Func",
        "name": "scale",
        "sym_name": "scale",
        "type": "void",
        "inputs": [
            {"name": "by", "type": "f32"},
            {"name": "n", "type": "i16"},
            {"name": "h", "type": "f16"},
        ],
    },
    {"id": 4, "kind": "Func", "name": "go", "sym_name": "go", "type": "void"},
]


@pytest.fixture
def symbols(tmp_path) -> HostSymbols:
    path = tmp_path / "out_rpc.json"
    path.write_text(json.dumps({"rpc_symbols": ENTRIES}))
    return HostSymbols.load(path)


def test_symbols_have_their_numbers(symbols):
    assert [symbols.id_of(name) for name in ("A", "y", "scale")] == [1, 2, 3]
    assert symbols.variable(2, is_written=False) == "y"


def test_a_name_that_is_not_exported_is_refused_with_those_that_are(symbols):
    with pytest.raises(HostCallError, match=r"no symbol 'B'; it exports A, go, scale, y"):
        symbols.id_of("B")
    with pytest.raises(HostCallError, match=r"no function 'A'; it exports go, scale"):
        symbols.function("A")


def test_only_variables_are_copied_and_only_mutable_ones_written(symbols):
    with pytest.raises(HostCallError, match="3 is not the number of a variable"):
        symbols.variable(3, is_written=False)
    with pytest.raises(HostCallError, match="'y' is exported for reading only"):
        symbols.variable(2, is_written=True)


def test_arguments_become_words_of_their_types(symbols):
    words = symbols.function("scale").words([1.5, -2, np.float16(1.0)])
    assert words == (0x3FC00000, 0xFFFE, 0x3C00)
    assert symbols.function("scale").words([np.float32(1), np.int16(3), 2]) == (
        0x3F800000,
        3,
        0x4000,
    )
    assert symbols.function("go").words([]) == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1.0, 2], r"takes 3 argument\(s\); 2 given"),
        ([1.0, 40000, 1.0], "type i16 holds -32768 to 32767"),
        ([1.0, np.int32(2), 1.0], "has type int32; it must be int16"),
        ([1.0, 2.5, 1.0], "'n' of scale is 2.5; it must be of type i16"),
        ([1.0, True, 1.0], "is True; it must be of type i16"),
        (["x", 1, 1.0], "is 'x'; it must be of type f32"),
        ([1.0e39, 1, 1.0], r"is 1e\+39; type f32 holds -3.40"),
        ([-(10**5000), 1, 1.0], "type f32 holds"),
        ([np.float64(1e300), 1, 1.0], "type f32 holds"),
        ([1.0, 1, 65520], "of 16 bits; type f16 holds -65504 to 65504"),
    ],
)
def test_an_argument_of_another_type_is_refused(symbols, arguments, message):
    with pytest.raises(HostCallError, match=message):
        symbols.function("scale").words(arguments)


@pytest.mark.parametrize("last", [65519.0, float("inf"), -1.0e-30])
def test_a_number_that_a_float_type_rounds_or_has_is_taken(symbols, last):
    words = symbols.function("scale").words([float("-inf"), 1, last])
    assert words[0] == 0xFF800000
    assert words[2] == int(np.float16(last).view(np.uint16))


def test_a_directory_without_a_program_is_refused(tmp_path):
    with pytest.raises(HostCallError, match="There is no compiled program here"):
        HostSymbols.load(tmp_path / "out_rpc.json")
    (tmp_path / "out_rpc.json").write_text('{"rpc_symbols": [{}]}')
    with pytest.raises(HostCallError, match="does not list a program's symbols"):
        HostSymbols.load(tmp_path / "out_rpc.json")
