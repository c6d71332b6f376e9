"""Whose tensors a weight pod gives out."""

from types import SimpleNamespace

import pytest

from appliance.core.errors import ConflictError
from workers.memoryx.role import WeightRole


@pytest.fixture
def role():
    spec = SimpleNamespace(name="wsjob-a-weight-0", options_of=lambda kind: kind())
    return WeightRole(SimpleNamespace(spec=spec))


@pytest.mark.parametrize("session", [0, 1])
def test_a_pod_that_has_loaded_nothing_has_no_store(role, session):
    with pytest.raises(ConflictError, match=f"session {session} but holds"):
        role.store_of(session)


def test_only_the_session_that_was_loaded_last_has_a_store(role):
    role._store, role._number = object(), 2
    assert role.store_of(2) is role._store
    for other in (1, 3):
        with pytest.raises(ConflictError, match=f"session {other} but holds.*session 2"):
            role.store_of(other)
