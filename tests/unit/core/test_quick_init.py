"""What `quick_init` makes of a class is what `dataclasses` makes of it."""

import copy
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from appliance.core.quick_init import quick_init


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    first: int
    second: str = "two"
    third: Mapping[str, int] = field(default_factory=dict)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class _QuicklyNamed:
    first: int
    second: str = "two"
    third: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Placed:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)
    fourth: int = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError(f"{self.first} is negative")


@quick_init
@dataclass(frozen=True, slots=True)
class _QuicklyPlaced:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)
    fourth: int = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError(f"{self.first} is negative")


PAIRS = [(_Named, _QuicklyNamed), (_Placed, _QuicklyPlaced)]
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"first": 1}),
    ((), {"first": 1, "second": "b", "third": {"a": 1}}),
    ((), {"first": 1, "sixth": 6}),
    ((), {"first": -1}),
    ((), {"first": 1, "fourth": 5}),
    ((1,), {}),
    ((1, "b", [3]), {}),
    ((1, "b", [3], 4), {}),
    ((1,), {"first": 2}),
]


def _outcome(kind: Callable[..., object], args: tuple[Any, ...], named: dict[str, Any]) -> str:
    try:
        return repr(kind(*args, **named)).replace("Quickly", "")
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}".replace("Quickly", "")


@pytest.mark.parametrize(("plain", "quick"), PAIRS)
@pytest.mark.parametrize(("args", "named"), ARGUMENTS)
def test_values_and_errors_are_those_of_dataclasses(plain, quick, args, named):
    assert _outcome(quick, args, named) == _outcome(plain, args, named)


@pytest.mark.parametrize(("plain", "quick"), PAIRS)
def test_a_value_stays_a_frozen_dataclass(plain, quick):
    value = quick(first=1)
    with pytest.raises(FrozenInstanceError):
        value.first = 2
    assert value == quick(first=1)
    assert value != plain(first=1)
    assert replace(value, first=3) == quick(first=3)
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    names = list(inspect.signature(quick).parameters)
    assert names == list(inspect.signature(plain).parameters)


def test_each_value_has_a_default_of_its_own():
    one, other = _QuicklyNamed(first=1), _QuicklyNamed(first=1)
    assert one.third is not other.third


def test_a_class_that_cannot_be_made_so_is_refused():
    @dataclass(frozen=True)
    class _WithoutSlots:
        first: int

    @dataclass(frozen=True, slots=True)
    class _NotGiven:
        first: int = field(default=1, init=False)

    for kind in (_WithoutSlots, _NotGiven):
        with pytest.raises(TypeError, match="has no slots, or fields that are no arguments"):
            quick_init(kind)
