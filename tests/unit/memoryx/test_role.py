"""Whose tensors a weight pod gives out."""

from types import SimpleNamespace

import pytest

from appliance.core.errors import ConflictError
from appliance.core.plans.plan_text import print_plan
from appliance.core.plans.shard_plans import shard_plans
from protos.wsc.v1 import pods_pb2
from tests.support.plans import two_layer_plan
from workers.memoryx import role as role_module
from workers.memoryx.role import WeightRole


def role_of(index=0):
    spec = SimpleNamespace(
        name=f"wsjob-a-weight-{index}", index=index, work_dir=None, options_of=lambda kind: kind()
    )
    served = []
    context = SimpleNamespace(spec=spec, serve_store=lambda *name: served.append(name), got=served)
    return WeightRole(context)


@pytest.fixture
def role():
    return role_of()


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


@pytest.fixture
def loaded(monkeypatch):
    """Return what a pod's store and session are given when a plan is loaded."""
    monkeypatch.setattr(role_module, "TensorStore", lambda plan, *_: SimpleNamespace(plan=plan))
    monkeypatch.setattr(role_module, "WeightSession", lambda _, **given: SimpleNamespace(**given))

    def load(index, num_shards):
        request = pods_pb2.LoadRequest(
            session=3,
            plan=print_plan(two_layer_plan()).encode(),
            num_shards=num_shards,
            num_systems=2,
        )
        role = role_of(index)
        session = role.load(request)
        assert role.store_of(3) is session.store
        assert role._context.got == [(3, f"store-{index}")]
        return session

    return load


@pytest.mark.parametrize(("index", "num_shards"), [(0, 0), (0, 1), (0, 2), (1, 2), (2, 3)])
def test_a_pod_has_its_own_shard_of_as_many_as_there_are(loaded, index, num_shards):
    session = loaded(index, num_shards)
    wanted = shard_plans(two_layer_plan(), num_shards or 1)[index]
    assert (session.number, session.shard) == (3, wanted)
    assert session.store.plan == wanted.plan
