"""Wsjobs that a limit keeps from being jobs for a while, and such as can never be jobs."""

import pytest

from appliance.cluster.kubernetes.api import ApiError
from appliance.cluster.kubernetes.object_kinds import WSJOB
from appliance.core.queries.audit_trail import AuditFilter
from tests.kubernetes.test_wsjobs import DRIVER, conditions_of, status_of, wait_for_status
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.waiting import wait_until


@pytest.fixture
def admin(account):
    return account.admin


def spec_with(**value_from):
    driver = {**DRIVER["spec"]["driver"], "valueFrom": value_from}
    return {**DRIVER["spec"], "numSystems": 0, "driver": driver}


def test_a_wsjob_beyond_the_limit_of_its_user_waits_with_the_reason_until_one_ends(
    api, admin, tmp_path
):
    """Only what can never run is refused; a declared object waits for the rest."""
    with (
        FakeNodes(admin) as nodes,
        running_kube_harness(tmp_path, api, make_options(tmp_path)) as harness,
    ):
        harness.drivers._max_drivers = 1
        node = {"fieldRef": {"fieldPath": "spec.nodeName"}}
        for name in ("a", "b", "c"):
            admin.create(WSJOB, {"metadata": {"name": name}, "spec": spec_with(NODE=node)})
        left, ended = {"a", "b", "c"}, []
        while left:
            wait_until(
                lambda: [n for n in left if status_of(admin, n).get("phase") == "RUNNING"],
                seconds=120,
                what="a wsjob that runs",
            )
            (runs,) = [name for name in left if status_of(admin, name).get("phase") == "RUNNING"]
            left.remove(runs)
            for name in left:
                wait_for_status(admin, name, phase="CREATED")
                assert (
                    "User ada has 1 unfinished drivers; the most is 1"
                    in status_of(admin, name)["message"]
                )
                assert conditions_of(admin, name)["Queued"] == ("True", "WaitsForAdmission")
            ended.append(runs)
            nodes.end(f"{status_of(admin, runs)['job']}-driver-0", 0)
            wait_for_status(admin, runs, phase="SUCCEEDED")
        assert len(ended) == 3
        key = {"secretKeyRef": {"name": "tls", "key": "tls.key"}}
        admin.create(WSJOB, {"metadata": {"name": "thief"}, "spec": spec_with(KEY=key)})
        wait_for_status(admin, "thief", phase="FAILED")
        assert "Secret tls, and drivers may read none" in status_of(admin, "thief")["message"]
        for wrong in ({}, {**node, **key}, {"secretKeyRef": {"name": "tls"}}):
            with pytest.raises(ApiError, match="valueFrom"):
                admin.create(WSJOB, {"metadata": {"name": "no"}, "spec": spec_with(KEY=wrong)})
        assert not [each for each in harness.access.audit(AuditFilter()) if each.problem]
