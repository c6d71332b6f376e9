"""Who may create, change and delete wsjobs where the chart installs its admission policy."""

from collections.abc import Iterator
from typing import Any

import cel
import pytest

from tests.helm.management_values import ADMISSION
from tests.support.helm import CHART, Helm


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[dict[str, Any]]:
    return helm.template(ADMISSION)


def requests() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield requests to change wsjobs, and a part of the refusal; empty for what is let through."""
    ada = {"uid": 1001, "name": "ada"}
    yield {"operation": "CREATE", "username": "oidc:ada", "user": ada}, ""
    yield {"operation": "CREATE", "username": "ada", "user": ada}, "is not yours: you are ada"
    yield {"operation": "CREATE", "username": "oidc:bob", "user": ada}, "you are oidc:bob"
    yield {"operation": "CREATE", "username": "oidc:ada", "user": ada | {"uid": 5}}, "uids"
    yield {"operation": "CREATE", "username": "oidc:bob", "user": {"uid": 5, "name": "bob"}}, "uids"
    yield {"operation": "CREATE", "username": "oidc:ada", "user": None}, "is missing"
    yield {"operation": "CREATE", "username": "oidc:ada", "user": ada | {"gid": 1001}}, ""
    yield {"operation": "CREATE", "username": "oidc:ada", "user": ada | {"gid": 27}}, "gid"
    eve = {"uid": 1002, "name": "eve"}
    yield {"operation": "CREATE", "username": "oidc:eve", "user": eve | {"gid": 50}}, ""
    yield {"operation": "CREATE", "username": "oidc:eve", "user": eve}, "gid"
    yield {"operation": "CREATE", "username": "oidc:eve", "user": eve | {"gid": 1002}}, "gid"
    suspended = {"suspend": True}
    for groups, refused in (
        ([], "not yours: you are oidc:bob"),
        (["editors"], "not yours: you are oidc:bob"),
        (["ops"], ""),
        (["system:serviceaccounts", "system:serviceaccounts:kube-system"], ""),
    ):
        bob = {"username": "oidc:bob", "groups": groups, "old": ada}
        yield {"operation": "UPDATE", "user": ada, **bob}, refused
        yield {"operation": "UPDATE", "user": ada, **suspended, **bob}, refused
        yield {"operation": "DELETE", "user": None, **bob}, refused
        nobodys = {"operation": "UPDATE", "user": None, **bob, "old": None}
        yield nobodys, refused
    yield {"operation": "DELETE", "username": "oidc:ada", "user": None, "old": ada}, ""
    changed = ada | {"uid": 5}
    wanted = "cannot be changed"
    yield {"operation": "UPDATE", "username": "oidc:ada", "user": ada, "old": ada, **suspended}, ""
    yield {"operation": "UPDATE", "username": "oidc:ada", "user": changed, "old": ada}, wanted
    yield {"operation": "UPDATE", "username": "oidc:ada", "user": ada, "old": None}, wanted


def wsjob_of(user: dict[str, Any] | None) -> dict[str, Any]:
    return {"spec": {} if user is None else {"user": user}}


@pytest.mark.parametrize(("request_", "refusal"), list(requests()))
def test_the_admission_policy_lets_nobody_create_jobs_of_others(
    objects: list[dict[str, Any]], request_: dict[str, Any], refusal: str
) -> None:
    (policy,) = [each for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
    (binding,) = [each for each in objects if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    changes = {"suspend": True} if request_.get("suspend") else {}
    context = {
        "object": {"spec": {**wsjob_of(request_["user"])["spec"], **changes}},
        "oldObject": wsjob_of(request_.get("old")),
        "request": {
            "operation": request_["operation"],
            "userInfo": {
                "username": request_["username"],
                **({"groups": request_["groups"]} if request_.get("groups") else {}),
            },
        },
    }
    (condition,) = policy["spec"]["matchConditions"]
    assert cel.evaluate(condition["expression"], context) is True
    broken = [
        each.get("message") or cel.evaluate(each["messageExpression"], context)
        for each in policy["spec"]["validations"]
        if not cel.evaluate(each["expression"], context)
    ]
    assert any(refusal in each for each in broken) if refusal else not broken, broken
    for account in ("", "-end-jobs", "-helm-test"):
        name = f"system:serviceaccount:wafer:wsc-wsc-appliance{account}"
        context["request"] = {"userInfo": {"username": name}}
        assert cel.evaluate(condition["expression"], context) is False


def test_an_admission_policy_is_refused_where_the_server_has_none(helm: Helm) -> None:
    done = helm.run("template", "wsc", str(CHART), "--set", "admissionPolicy.enabled=true")
    assert done.returncode != 0
    assert "which Kubernetes has since 1.30" in done.stderr
