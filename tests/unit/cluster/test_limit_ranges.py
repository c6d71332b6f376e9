"""Pods where LimitRanges give, or demand, limits; and how Kubernetes writes amounts."""

from fractions import Fraction

import pytest

from appliance.cluster.kubernetes.limits.amounts import amount_of
from appliance.cluster.kubernetes.limits.limit_ranges import fitted

REQUESTS = {"cpu": "50m", "memory": "6Gi", "ephemeral-storage": "256Mi"}


def pod(limits=None, requests=None):
    resources = {"requests": requests or REQUESTS, "limits": limits or {}}
    return {"spec": {"containers": [{"name": "pod", "resources": resources}]}}


def range_of(kind="Container", **fields):
    return {"spec": {"limits": [{"type": kind, **fields}]}}


def resources_of(body):
    (container,) = body["spec"]["containers"]
    return container["resources"]


@pytest.mark.parametrize(
    ("ranges", "limits"),
    [
        ([], {}),
        # The default is lower than what is requested: the request is the limit, too.
        ([range_of(default={"memory": "512Mi"})], {"memory": "6Gi"}),
        ([range_of(default={"cpu": "10m", "memory": "1G"})], {"cpu": "50m", "memory": "6Gi"}),
        ([range_of(default={"ephemeral-storage": "100M"})], {"ephemeral-storage": "256Mi"}),
        # It is not: the server gives it.
        ([range_of(default={"cpu": "1", "memory": "6442450944"})], {}),
        # A most without a default is the default, as the server has it.
        ([range_of(max={"memory": "4Gi"})], {"memory": "6Gi"}),
        ([range_of(max={"memory": "8Gi"})], {}),
        # Of two defaults either may be given.
        ([range_of(default={"memory": amount}) for amount in ("1G", "9G")], {"memory": "6Gi"}),
        ([range_of(default={"memory": amount}) for amount in ("9G", "1G")], {"memory": "6Gi"}),
        # A most of whole pods is refused without a limit.
        ([range_of("Pod", max={"memory": "16Gi", "cpu": "2"})], {"memory": "16Gi", "cpu": "2"}),
        ([range_of("Pod", max={"memory": "4Gi"})], {"memory": "6Gi"}),
        ([range_of("Pod", max={"memory": "16Gi"}), range_of(default={"memory": "8Gi"})], {}),
        # Others are no limits of pods.
        ([range_of("PersistentVolumeClaim", max={"storage": "1Gi"})], {}),
        ([range_of(max={"nvidia.com/gpu": "1"})], {}),
        ([{"spec": {}}, {}], {}),
    ],
)
def test_what_is_requested_is_the_limit_where_the_default_is_lower(ranges, limits):
    found = resources_of(fitted(pod(), ranges))
    assert found == {"requests": REQUESTS, "limits": limits}


def test_a_limit_that_was_asked_for_stays():
    body = pod(limits={"memory": "6Gi"})
    assert fitted(body, [range_of(default={"memory": "1Gi"}, min={"memory": "7Gi"})]) == body


@pytest.mark.parametrize(
    ("kind", "least", "requested"),
    [
        ("Container", {"memory": "7Gi"}, {"memory": "7Gi"}),
        ("Pod", {"memory": "7Gi", "cpu": "100m"}, {"memory": "7Gi", "cpu": "100m"}),
        ("Container", {"memory": "1Gi", "cpu": "0.01"}, {}),
        ("PersistentVolumeClaim", {"memory": "7Gi"}, {}),
    ],
)
def test_a_request_below_the_least_is_raised_to_it(kind, least, requested):
    found = resources_of(fitted(pod(), [range_of(kind, min=least)]))
    assert found["requests"] == REQUESTS | requested


def test_a_raised_request_is_above_a_low_default():
    ranges = [range_of(min={"memory": "8Gi"}, default={"memory": "7Gi"})]
    assert resources_of(fitted(pod(), ranges))["limits"] == {"memory": "8Gi"}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 1),
        (2, 2),
        (0.5, Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1k", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("100u", Fraction(1, 10000)),
        ("-1", -1),
    ],
)
def test_amounts_are_read_as_kubernetes_does(text, amount):
    assert amount_of(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1GiB", "1 Gi", "0x1", "1mi", "1e", "nan", "1_0"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ValueError, match="no quantity of Kubernetes"):
        amount_of(text)
