"""A value with some fields changed."""

from dataclasses import dataclass, replace

import pytest

from appliance.core.changed_values import changed
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import JobId
from appliance.management.reconciler.job_machine import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    first: int
    second: str = "b"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Derived(_Base):
    third: tuple[int, ...] = ()


@pytest.mark.parametrize(
    "value",
    [
        _Base(first=1),
        _Derived(first=1, third=(2, 3)),
        JobState(job=JobId("wsjob-1"), type=JobType.EXECUTE, phase=Phase.QUEUED),
    ],
)
def test_a_value_is_changed_as_dataclasses_would(value: _Base) -> None:
    name = type(value).__slots__[-1] if type(value).__slots__ else "first"
    before = replace(value)
    new = changed(value, **{name: "new"})
    assert new == replace(value, **{name: "new"})
    assert type(new) is type(value)
    assert value == before
    assert changed(value) == value


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(KeyError):
        changed(_Base(first=1), third=2)
