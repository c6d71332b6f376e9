"""What an attribute of a node counts as, and which are reported."""

import numpy as np
import pytest

from appliance.core.errors import InternalError
from appliance.core.ir import attributes
from appliance.core.ir.attributes import resolve_axes, resolve_axis
from appliance.core.ir.tensors import Constant
from tests.support.plans import f32, node

CONSTANT = Constant(f32(2), np.zeros(2, np.float32).tobytes())
VALUES = {
    "whole": 3,
    "zero": 0,
    "broken": 2.5,
    "true": True,
    "word": "NHWC",
    "one": (4,),
    "none": (),
    "two": (4, 5),
    "dense": CONSTANT,
}
NODE = node("Relu", "x", "y", f32(2), **VALUES)
COUNTS_AS = {
    "integers": {"whole": (3,), "zero": (0,), "true": (1,), "one": (4,), "none": (), "two": (4, 5)},
    "integer": {"whole": 3, "zero": 0, "true": 1, "one": 4},
    "number": {"whole": 3.0, "zero": 0.0, "broken": 2.5, "true": 1.0},
    "flag": {"whole": True, "zero": False, "true": True},
    "text": {"word": "NHWC"},
    "constant": {"dense": CONSTANT},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", COUNTS_AS)
def test_an_attribute_counts_as_what_it_is_or_is_reported_with_its_node(kind, name):
    read = getattr(attributes, kind)
    if name in COUNTS_AS[kind]:
        found, wanted = read(NODE, name), COUNTS_AS[kind][name]
        assert found is wanted or (type(found), found) == (type(wanted), wanted)
    else:
        with pytest.raises(InternalError, match=f"Relu at .*: attribute '{name}' is .*, not a"):
            read(NODE, name)


@pytest.mark.parametrize(
    ("kind", "default", "found"),
    [
        ("integers", (7, 8), (7, 8)),
        ("integer", 7, 7),
        ("number", 0.5, 0.5),
        ("text", "NCHW", "NCHW"),
    ],
)
def test_one_that_is_not_there_is_its_default_or_missing(kind, default, found):
    read = getattr(attributes, kind)
    assert read(NODE, "absent", default) == found
    with pytest.raises(InternalError, match="attribute 'absent' is missing"):
        read(NODE, "absent")


def test_a_truth_value_that_is_not_there_is_false_unless_it_has_to_be():
    assert attributes.flag(NODE, "absent") is False
    assert attributes.flag(NODE, "absent", default=True) is True
    with pytest.raises(InternalError, match="attribute 'absent' is missing"):
        attributes.flag(NODE, "absent", default=None)


@pytest.mark.parametrize(("axis", "found"), [(0, 0), (1, 1), (3, 3), (-1, 3), (-2, 2), (-4, 0)])
def test_negative_axes_count_from_the_back(axis, found):
    assert resolve_axis(axis, 4) == found
    assert resolve_axes((axis, 0), 4) == (found, 0)
