"""Numbers for people: one table of cases for Python and for the dashboard."""

import json
import math
from pathlib import Path

import pytest

import appliance.dashboard
from appliance.core import quantities

TABLE = Path(appliance.dashboard.__file__).parent / "web" / "src" / "quantities.json"
CASES = [
    (name, value, text)
    for name, cases in json.loads(TABLE.read_text()).items()
    for value, text in cases
]


@pytest.mark.parametrize(("name", "value", "text"), CASES)
def test_a_number_is_written_as_the_table_says(name, value, text):
    assert getattr(quantities, name)(value) == text


def test_a_unit_has_the_prefix_that_leaves_three_digits():
    assert quantities.quantity(2.64e21, "FLOP") == "2.64 ZFLOP"
    assert quantities.quantity(12, "FLOP") == "12 FLOP"


def test_what_is_no_number_is_a_dash():
    for write in (quantities.size, quantities.count, quantities.figure, quantities.duration):
        assert write(math.nan) == "-"
