"""What the chart makes of the values for notifications, logins and traces."""

from tests.helm.management_values import TELLING
from tests.support.helm import Helm


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
