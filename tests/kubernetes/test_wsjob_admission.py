"""Wsjobs that a limit keeps from being jobs for a while, and such as can never be jobs."""

import json

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


REFUSED_VALUES = {
    "a number": 1,
    "a fraction": 1.5,
    "a boolean": True,
    "a list": ["a"],
    "a reference": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    "more than 64 KiB": "x" * 65537,
}


@pytest.mark.parametrize("value", REFUSED_VALUES)
def test_a_variable_that_is_no_text_is_refused_by_its_path(kube, admin, value):
    driver = {**DRIVER["spec"]["driver"], "environment": {"A": REFUSED_VALUES[value], "B": "b"}}
    body = {**DRIVER, "metadata": {"name": "odd"}, "spec": {**DRIVER["spec"], "driver": driver}}
    with pytest.raises(ApiError, match=r"spec\.driver\.environment\.A: ") as refused:
        admin.create(WSJOB, body)
    assert refused.value.is_refusal
    with pytest.raises(AssertionError, match=r"environment\.A"):
        kube.kubectl("create", "-f", "-", namespace=admin.namespace, given=json.dumps(body))


def test_a_variable_that_is_null_is_as_one_that_is_not_there(admin):
    """Asked without kubectl, which refuses nulls itself where the server is old."""
    driver = {**DRIVER["spec"]["driver"], "environment": {"A": None, "B": "b"}, "valueFrom": None}
    body = {**DRIVER, "metadata": {"name": "odd"}, "spec": {**DRIVER["spec"], "driver": driver}}
    admin.create(WSJOB, body)
    found = admin.find(WSJOB, "odd")["spec"]["driver"]
    assert found["environment"] == {"B": "b"}
    assert "valueFrom" not in found


@pytest.mark.parametrize("field", ["spec", "spec.driver", "spec.user", "spec.driver.restart"])
def test_kubectl_names_a_field_that_does_not_exist(kube, admin, field):
    """The server alone drops it without a word, unless it is asked to be strict."""
    body = json.loads(json.dumps({**DRIVER, "metadata": {"name": "odd"}}))
    place = body
    for part in field.split("."):
        place = place.setdefault(part, {})
    place["enviroment"] = {"A": "1"}
    with pytest.raises(AssertionError, match=r"unknown field \S*enviroment"):
        kube.kubectl("create", "-f", "-", namespace=admin.namespace, given=json.dumps(body))
    assert admin.find(WSJOB, "odd") is None
