"""What the chart makes of the values for notifications, logins and traces."""

import pytest

from appliance.cluster.kubernetes.options import parse_options
from tests.helm.management_values import TELLING
from tests.support.helm import Helm, Settings


@pytest.mark.parametrize(("replicas", "is_alone"), [(1, True), (2, False), (3, False)])
def test_one_management_is_told_that_nobody_else_could_lead(
    helm: Helm, replicas: int, *, is_alone: bool
) -> None:
    objects = helm.template(Settings(values=(f"management.replicas={replicas}",)))
    (text,) = (
        each["data"]["settings.yaml"] for each in objects if "settings.yaml" in each.get("data", {})
    )
    assert parse_options(text, source="the chart").is_alone is is_alone


def test_management_is_told_of_notifications_logins_and_traces(
    helm: Helm,
) -> None:
    (deployment,) = (
        each
        for each in helm.template(TELLING)
        if each["kind"] == "Deployment"
        and each["metadata"]["labels"]["app.kubernetes.io/component"] == "management"
    )
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert told["WSC_NOTIFY"] == f"{mounts['notify']}/notify.yaml"
    assert told["WSC_OIDC"] == f"{mounts['oidc']}/oidc.yaml"
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert told["HTTPS_PROXY"] == "http://proxy:3128"
    assert volumes["notify"]["secret"]["secretName"] == "notify"
    assert volumes["oidc"]["secret"]["secretName"] == "oidc"
    assert mounts["authorities"] == "/etc/wsc/authorities"
    assert set(mounts) <= set(volumes)
