"""The chart's role is enough, and without any one of its verbs something fails.

All other tests here act by the chart's role, so it is enough. Here each verb is taken away in turn,
and the one thing that the appliance needs it for is tried.
"""

import copy
import secrets

import pytest

from appliance.cluster.kubernetes.api import ApiError
from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    LIMIT_RANGE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    WSCSYSTEM,
    WSJOB,
    version_of,
)
from tests.support.waiting import wait_until

KINDS = {
    kind.plural: kind
    for kind in (
        *(POD, EVENT, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, LEASE, LIMIT_RANGE),
        *(WSJOB, WSCSYSTEM),
    )
}
CONTAINER = {"name": "pod", "image": "none"}
BODIES = {
    "pods": {"spec": {"containers": [CONTAINER], "automountServiceAccountToken": False}},
    "wsjobs": {"spec": {"type": "execute"}},
    "wscsystems": {"spec": {"state": "up"}},
}


def each_verb(rules):
    for rule in rules:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield resource, verb


def without(rules, resource, verb):
    """Return the rules without one verb of one resource."""
    result = []
    for rule in copy.deepcopy(rules):
        if resource in rule["resources"]:
            rule["resources"].remove(resource)
            verbs = [each for each in rule["verbs"] if each != verb]
            if verbs:
                result.append({**rule, "resources": [resource], "verbs": verbs})
        if rule["resources"]:
            result.append(rule)
    return result


def attempt(api, admin, resource, verb):
    """Do the one thing that a verb is for."""
    plural, _, part = resource.partition("/")
    kind = KINDS[plural]
    if plural == "events":
        name = f"made-{secrets.token_hex(4)}"
        api.create(kind, {**body_of(plural, name), "involvedObject": {"namespace": api.namespace}})
    elif verb == "list":
        api.list(kind)
    elif verb == "watch":
        _, version = admin.list(kind)
        name = f"seen-by-{verb}"
        admin.create(kind, body_of(plural, name))
        try:
            next(iter(api.watch(kind, "", version)))
        finally:
            admin.delete(kind, name, grace_seconds=0)
    elif verb == "create":
        api.create(kind, body_of(plural, "made"))
        admin.delete(kind, "made", grace_seconds=0)
    else:
        present = admin.create(kind, body_of(plural, "there"))
        try:
            change_one(api, kind, verb, part, present)
        finally:
            admin.delete(kind, "there", grace_seconds=0)


def change_one(api, kind, verb, part, present):
    if verb == "get":
        api.find(kind, "there")
    elif verb == "delete":
        api.delete(kind, "there")
    elif verb == "update":
        metadata = {"name": "there", "resourceVersion": version_of(present)}
        api.replace(kind, {"metadata": metadata, "spec": {"holderIdentity": "me"}})
    elif part == "status":
        api.patch(kind, "there", {"status": {"message": "seen"}}, subresource="status")
    else:
        assert verb == "patch", f"nothing is known that needs {verb}"
        api.patch(kind, "there", {"metadata": {"labels": {"seen": "yes"}}})


def body_of(plural, name):
    return {"metadata": {"name": name}, **BODIES.get(plural, {})}


def is_forbidden(api, admin, resource, verb):
    try:
        attempt(api, admin, resource, verb)
    except ApiError as error:
        if error.status != 403:
            raise
        return True
    return False


def test_each_verb_is_needed_and_no_other_is_asked_for(api, account, rules):
    verbs = list(each_verb(rules))
    assert len(verbs) == len(set(verbs)) > 15
    for resource, verb in verbs:
        assert not is_forbidden(api, account.admin, resource, verb), (resource, verb)
    for resource, verb in verbs:
        account.set_rules(without(rules, resource, verb))
        wait_until(
            lambda resource=resource, verb=verb: is_forbidden(api, account.admin, resource, verb),
            seconds=120,
            what=f"refusal without {verb} of {resource}",
        )


@pytest.mark.parametrize(
    "attempt",
    [
        lambda api: api.find(SECRET, "any"),
        lambda api: api.list(SECRET),
        lambda api: api.find(SERVICE_ACCOUNT, "any"),
    ],
)
def test_the_role_reads_nobody_s_secrets(api, attempt):
    with pytest.raises(ApiError) as refused:
        attempt(api)
    assert refused.value.status == 403
    assert "helm/wsc-appliance" in str(refused.value)
