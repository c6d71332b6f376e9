"""Pods that a quota or another rule of the namespace does not let in."""

import datetime as dt
import http

import pytest

from appliance.cluster.kubernetes import gangs, manifests
from appliance.cluster.kubernetes.api import ApiError
from appliance.cluster.kubernetes.gang_records import GangRecords
from appliance.cluster.kubernetes.gangs import Seen
from tests.support.kube_jobs import make_gang, make_options

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OWNER = {"apiVersion": "wsc.open-appliance.org/v1", "kind": "WsJob", "name": "a", "uid": "u-owner"}


def test_what_the_server_does_not_take_is_what_the_gang_waits_for_and_fails_by(tmp_path):
    options = make_options(tmp_path)
    specs = make_gang(tmp_path)
    made = manifests.gang(specs, OWNER, options, tmp_path / "gangs", launched_at=NOW)
    gang = GangRecords(tmp_path / "gangs", options.group_id).write(
        specs[0].job, made, {}, launched_at=NOW
    )
    name = f"{gang.job}-chief-1"
    rejected = {name: "exceeded quota: team"}
    waiting = gangs.decide(gang, Seen(pods={}, now=NOW, rejected=rejected), options)
    assert waiting.waits == f"4 of 4 pods wait; {name}: exceeded quota: team"
    late = NOW + dt.timedelta(seconds=options.placement_seconds + 1)
    (end,) = gangs.decide(gang, Seen(pods={}, now=late, rejected=rejected), options).exits
    assert end.pod == name
    assert "(exceeded quota: team)" in end.reason


@pytest.mark.parametrize(
    ("reason", "is_admission"),
    [
        ('pods "a" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1', True),
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest"', True),
        ('pods is forbidden: User "x" cannot create resource "pods" in API group ""', False),
        ("", False),
    ],
)
def test_a_rule_of_the_namespace_is_not_taken_for_a_missing_right(reason, is_admission):
    error = ApiError("refused", status=http.HTTPStatus.FORBIDDEN, reason=reason)
    assert error.is_admission == is_admission
    assert bool(error.hint) != is_admission


@pytest.mark.parametrize(
    ("status", "reason", "is_refusal"),
    [
        (400, 'admission webhook "a.example" denied the request: no limits', True),
        (403, 'admission webhook "a.example" denied the request without explanation', True),
        (500, 'admission webhook "a.example" denied the request: its own code', True),
        (422, "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'a' denied request: no", True),
        (401, "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no", True),
        (422, 'Pod "a" is invalid: spec.containers[0].env[0].name: Invalid value', True),
        (500, 'Internal error occurred: failed calling webhook "a.example": refused', True),
        (400, "the object provided is unrecognized", False),
        (500, "etcdserver: request timed out", False),
        (429, "too many requests", False),
    ],
)
def test_who_does_not_let_a_pod_in_is_told_whatever_the_status(status, reason, is_refusal):
    assert ApiError("refused", status=status, reason=reason).is_refusal == is_refusal
