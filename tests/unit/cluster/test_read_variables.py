"""Variables of a driver whose values Kubernetes reads: what may be read, and what shows."""

import os
from dataclasses import replace

import pytest

from appliance.cluster.kubernetes import manifests
from appliance.cluster.kubernetes.options import RoleOptions
from appliance.cluster.kubernetes.read_variables import check_variables
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.errors import UserError
from appliance.core.ids import Role
from appliance.core.pods.pod_options import DriverPodOptions
from appliance.pods.job_user import JobUser
from tests.support.kube_jobs import make_gang, make_options
from workers.driver.script import Script

SECRET = {"secretKeyRef": {"name": "hub", "key": "token"}}
MAP = {"configMapKeyRef": {"name": "site", "key": "region", "optional": True}}
FIELD = {"fieldRef": {"fieldPath": "spec.nodeName"}}


def driver(argv=("true",), **value_from):
    return DriverSpec(argv=argv, work_dir="/", value_from=value_from)


def pod_of(directory, spec):
    (pod,) = make_gang(directory, members=((Role.DRIVER, 0),))
    return replace(pod, options=DriverPodOptions(user_uid=1000, driver=spec.to_json()))


@pytest.fixture
def options(tmp_path):
    return replace(make_options(tmp_path), driver_secrets=("hub",), driver_config_maps=("site",))


def test_what_the_administrator_lists_may_be_read(options):
    check_variables(driver(A=SECRET, B=MAP, C=FIELD), options)
    check_variables(driver(), replace(options, driver_secrets=(), driver_config_maps=()))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            {"secretKeyRef": {"name": "wsc-tls", "key": "tls.key"}},
            "Secret wsc-tls, and drivers may read hub.",
        ),
        ({"configMapKeyRef": {"name": "hub", "key": "a"}}, "ConfigMap hub, and drivers may read"),
        ({"secretKeyRef": {"name": "site", "key": "a"}}, "Secret site, and drivers may read hub"),
        ({"fieldRef": {"fieldPath": "metadata.annotations"}}, "fieldRef 'metadata.annotations'"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "from resourceFieldRef"),
        ({}, "from 0 places"),
        ({**SECRET, **MAP}, "from 2 places"),
    ],
)
def test_nothing_else_may(options, source, words):
    with pytest.raises(UserError, match="Variable A is to be read from") as refused:
        check_variables(driver(A=source), options)
    assert words in str(refused.value)


def test_by_default_no_secret_may(tmp_path):
    with pytest.raises(UserError, match="Secret hub, and drivers may read none") as refused:
        check_variables(driver(A=SECRET), make_options(tmp_path))
    assert refused.value.hint
    assert "jobs.driverSecrets" in refused.value.hint


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B"])
def test_names_are_those_that_every_program_can_read(name):
    with pytest.raises(UserError, match="cannot be the name of a variable whose value is read"):
        driver(**{name: SECRET})


def test_a_variable_has_one_value():
    with pytest.raises(UserError, match="Variable A has a value, and one that is read"):
        DriverSpec(argv=("a",), work_dir="/", environment={"A": "1"}, value_from={"A": SECRET})


def test_the_spec_keeps_what_is_read_and_says_nothing_of_it_where_there_is_none():
    spec = driver(A=SECRET, B=FIELD)
    assert DriverSpec.from_json(spec.to_json()) == spec
    assert "value_from" not in driver().to_json()


def test_the_pod_of_the_driver_has_the_references_apart_from_its_own_variables(tmp_path, options):
    pod = pod_of(tmp_path, driver(HOME=FIELD, A=SECRET))
    made = manifests.pod(pod, {}, options, tmp_path / "data" / "gangs")
    variables = made["spec"]["containers"][0]["env"]
    assert {"name": "WSC_VALUE_OF_A", "valueFrom": SECRET} in variables
    assert {"name": "WSC_VALUE_OF_HOME", "valueFrom": FIELD} in variables
    assert [each["value"] for each in variables if each["name"] == "HOME"] == ["/tmp"]


def test_the_script_has_the_values_and_prints_none_of_a_secret(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("WSC_VALUE_OF_CODE", "open-sesame-1001")
    monkeypatch.setenv("WSC_VALUE_OF_NODE", "node-of-a-rack")
    spec = driver(
        ("sh", "-c", "echo $CODE $NODE ${REGION-none}"), CODE=SECRET, NODE=FIELD, REGION=MAP
    )
    user = JobUser.of(os.getuid(), os.getgid(), "ada")
    code = Script(pod_of(tmp_path, spec), spec, user, token="t").run(0)
    assert (code, capfd.readouterr().out) == (0, "[redacted] node-of-a-rack none\n")


GIVEN = (
    {"name": "SITE", "value": "east"},
    {"name": "CODE", "valueFrom": SECRET},
    {"name": "NODE", "valueFrom": FIELD},
)


def test_programs_of_users_are_told_which_variables_an_administrator_gives_their_pod(tmp_path):
    of_workers = RoleOptions(extra_env=({"name": "SETS", "value": "/sets"},))
    options = replace(make_options(tmp_path), extra_env=GIVEN, roles={Role.WORKER: of_workers})
    pods = make_gang(tmp_path, members=((Role.WORKER, 0), (Role.COORDINATOR, 0)))
    worker, coordinator = (manifests.fitted(pod, options).options for pod in pods)
    assert worker.user_variables == ("SITE", "CODE", "NODE", "SETS")
    assert coordinator.user_variables == ("SITE", "CODE", "NODE")
    driver_pod = manifests.fitted(pod_of(tmp_path, driver()), options)
    assert driver_pod.options_of(DriverPodOptions).redacted_variables == ("CODE",)


ORDER = {
    "an administrator's": ({}, {}, "east [redacted] n1\n"),
    "its own counts": ({"SITE": "west"}, {}, "west [redacted] n1\n"),
    "also an empty one": ({"NODE": ""}, {}, "east [redacted]\n"),
    "and one that is read": ({}, {"SITE": MAP}, "north [redacted] n1\n"),
}


@pytest.mark.parametrize("case", ORDER)
def test_a_script_has_what_an_administrator_gives_every_pod(tmp_path, monkeypatch, capfd, case):
    sent, read, printed = ORDER[case]
    given = {"SITE": "east", "CODE": "open-sesame-1001", "NODE": "n1", "WSC_VALUE_OF_SITE": "north"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    spec = replace(driver(("sh", "-c", "echo $SITE $CODE $NODE"), **read), environment=sent)
    options = replace(make_options(tmp_path), extra_env=GIVEN)
    pod = manifests.fitted(pod_of(tmp_path, spec), options)
    user = JobUser.of(os.getuid(), os.getgid(), "ada")
    assert Script(pod, spec, user, token="t").run(0) == 0
    assert capfd.readouterr().out == printed


@pytest.mark.parametrize("name", ["CSAUTH_TOKEN", "WSC_JOB", "USER", "WSC_RESTART_COUNT"])
def test_an_administrator_s_variables_replace_none_of_the_appliance_s(
    tmp_path, monkeypatch, capfd, name
):
    monkeypatch.setenv(name, "given")
    spec = driver(("sh", "-c", f"echo ${name}"))
    options = replace(make_options(tmp_path), extra_env=[{"name": name, "value": "given"}])
    pod = manifests.fitted(pod_of(tmp_path, spec), options)
    assert Script(pod, spec, JobUser.of(os.getuid(), os.getgid(), "ada"), token="t").run(0) == 0
    assert "given" not in capfd.readouterr().out
