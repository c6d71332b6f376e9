"""A copy of objects stays true through cut connections, expired versions and concurrent changes."""

import threading

import pytest

from appliance.cluster.kubernetes.api import ApiError
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.object_kinds import CONFIG_MAP, version_of
from tests.support.faulty_link import FaultyLink
from tests.support.waiting import wait_until

LABEL = "of-the-test"


def make(api, name, value="1"):
    metadata = {"name": name, "labels": {LABEL: "yes"}}
    return api.create(CONFIG_MAP, {"metadata": metadata, "data": {"value": value}})


def values(informer):
    return {name: each["data"]["value"] for name, each in informer.all().items()}


def wait_for_values(informer, wanted):
    wait_until(
        lambda: values(informer) == wanted,
        seconds=120,
        what=f"{wanted}",
        seen=lambda: str(values(informer)),
    )


@pytest.fixture
def rules(rules):
    """Those of the appliance, and the config maps that the tests copy."""
    return [*rules, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]


@pytest.fixture
def link(kube):
    with FaultyLink(kube.address) as link:
        yield link


@pytest.fixture
def informer(kube, account, link):
    told = []
    api = kube.as_account(account.namespace, account.token, address=link.address)
    informer = Informer(api, CONFIG_MAP, LABEL, lambda each: told.append(each["metadata"]["name"]))
    informer.told = told
    informer.start(timeout_seconds=120)
    yield informer
    informer.close()
    link.cut()
    api.close()


def test_the_copy_follows_what_others_change(api, informer):
    make(api, "a")
    make(api, "b")
    api.patch(CONFIG_MAP, "a", {"data": {"value": "2"}})
    api.delete(CONFIG_MAP, "b")
    wait_for_values(informer, {"a": "2"})
    assert {"a", "b"} <= set(informer.told)


def test_a_cut_connection_loses_no_change(api, informer, link):
    make(api, "a")
    wait_for_values(informer, {"a": "1"})
    for number in range(3):
        link.cut()
        api.patch(CONFIG_MAP, "a", {"data": {"value": f"cut {number}"}})
        wait_for_values(informer, {"a": f"cut {number}"})


def test_what_went_while_the_version_expired_is_noticed(api, informer, link, kube):
    if not kube.etcd_url:
        pytest.skip("only our own server can be made to forget")
    make(api, "stays")
    make(api, "goes")
    wait_for_values(informer, {"stays": "1", "goes": "1"})
    told = len(informer.told)
    link.hold()
    api.delete(CONFIG_MAP, "goes")
    api.patch(CONFIG_MAP, "stays", {"data": {"value": "2"}})
    kube.compact()
    with pytest.raises(ApiError) as refused:
        next(iter(api.watch(CONFIG_MAP, LABEL, "1")))
    assert refused.value.is_gone
    link.cut()
    link.go_on()
    wait_for_values(informer, {"stays": "2"})
    assert "goes" in informer.told[told:]


def test_of_two_changes_for_the_same_version_one_is_refused(api):
    seen = make(api, "contested")
    outcomes = []

    def change(value):
        metadata = {"resourceVersion": version_of(seen)}
        try:
            api.patch(CONFIG_MAP, "contested", {"metadata": metadata, "data": {"value": value}})
            outcomes.append("taken")
        except ApiError as error:
            outcomes.append("conflict" if error.is_conflict else str(error))

    threads = [threading.Thread(target=change, args=(f"by {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict", "conflict", "conflict", "taken"]


def test_an_object_of_another_uid_is_neither_changed_nor_deleted(api):
    first = make(api, "again")["metadata"]["uid"]
    api.delete(CONFIG_MAP, "again")
    make(api, "again", "second")
    assert not api.delete(CONFIG_MAP, "again", uid=first)
    with pytest.raises(ApiError) as refused:
        api.patch(CONFIG_MAP, "again", {"metadata": {"uid": first}, "data": {"value": "wrong"}})
    assert refused.value.is_conflict
    assert api.find(CONFIG_MAP, "again")["data"]["value"] == "second"
