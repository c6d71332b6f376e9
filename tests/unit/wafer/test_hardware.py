from dataclasses import replace

import pytest

from appliance.core.errors import UserError
from appliance.wafer.hardware import (
    CS2,
    CS3,
    VectorOp,
    find_machine,
    machine_from_mapping,
    parse_machine,
)


def test_peak_of_all_pes_at_the_maximum_clock_is_the_vendors_7_5_pflops() -> None:
    flops = CS2.num_pes * CS2.width(VectorOp.FMAC, 16) * 2 * 1.1e9
    assert flops == pytest.approx(7.5e15, rel=0.01)


def test_memory_of_all_pes_is_what_the_vendor_prints() -> None:
    assert CS2.num_pes * CS2.sram_bytes_per_pe == pytest.approx(40e9, rel=0.05)
    assert CS3.num_pes * CS3.sram_bytes_per_pe == pytest.approx(44e9, rel=0.02)


@pytest.mark.parametrize("name", ["CS-2", "cs2", "wse-2"])
def test_machines_are_found_by_any_of_their_names(name: str) -> None:
    assert find_machine(name) is CS2


def test_an_unknown_machine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="CS-2, CS-3"):
        find_machine("CS-9")


def test_a_user_defined_machine_differs_from_its_base_where_it_says_so() -> None:
    mine = machine_from_mapping(
        {
            "base": "CS-3",
            "name": "mine",
            "clock_hertz": 10**9,
            "simd": {"fmac": {"half": 16, "single": 2}},
        }
    )
    assert mine.clock_hertz == 1e9
    assert mine.width(VectorOp.FMAC, 16) == 16
    assert mine.width(VectorOp.ADD, 32) == CS3.width(VectorOp.ADD, 32)
    assert mine.grid_width == CS3.grid_width


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("speed", 3, "not known"),
        ("clock_hertz", "fast", "float"),
        ("clock_hertz", 0, "above 0"),
        ("grid_width", 10_000, "PEs"),
        ("swarmx_fan_in", 1, "fan_in"),
        ("simd", {"fmac": {"half": 0, "single": 1}}, "above 0"),
        ("simd", 4, "mapping"),
        ("num_pes", True, "int"),
    ],
)
def test_an_impossible_machine_is_refused_by_field(field: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        machine_from_mapping({field: value})


def test_a_table_without_an_instruction_class_is_refused() -> None:
    with pytest.raises(UserError, match="lacks"):
        replace(CS2, simd={VectorOp.FMAC: CS2.simd[VectorOp.FMAC]})


def test_a_machine_is_parsed_from_its_name_or_from_a_table() -> None:
    assert parse_machine("cs3") is CS3
    small = parse_machine('{"base": "cs3", "name": "small", "clock_hertz": 4e8}')
    assert (small.name, small.clock_hertz, small.grid_width) == ("small", 4e8, CS3.grid_width)
    for text in ("cs9", "{", '{"colour": 1}'):
        with pytest.raises(UserError):
            parse_machine(text)
