"""The chart on clusters with IPv6 addresses, alone or beside IPv4."""

from typing import Any

import pytest

from appliance.management.options.settings_by_group import ListenOptions
from tests.helm.test_chart import container_of, of_kind
from tests.support.helm import Helm, Settings

OUTSIDE = ("service.type=LoadBalancer", "service.publicName=wafer.example.org")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), {}),
        (("service.ipFamilies={IPv6}",), {"ipFamilies": ["IPv6"]}),
        (("service.ipFamilyPolicy=PreferDualStack",), {"ipFamilyPolicy": "PreferDualStack"}),
        (
            ("service.ipFamilyPolicy=RequireDualStack", "service.ipFamilies={IPv6,IPv4}"),
            {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
        ),
    ],
)
def test_every_service_has_addresses_of_the_families_that_are_wanted(
    helm: Helm, values: tuple[str, ...], expected: dict[str, Any]
) -> None:
    services = of_kind(helm.template(Settings(values=(*OUTSIDE, *values))), "Service")
    assert len(services) == 4
    for service in services:
        found = {name: value for name, value in service["spec"].items() if name.startswith("ipFam")}
        assert found == expected, service["metadata"]["name"]


@pytest.mark.parametrize(
    "value",
    [
        *("service.ipFamilies={IPv5}", "service.ipFamilies={IPv6,IPv6}"),
        *("service.ipFamilies=IPv6", "service.ipFamilyPolicy=DualStack"),
    ],
)
def test_families_that_there_are_not_are_refused(helm: Helm, value: str) -> None:
    assert value.partition("=")[0].partition(".")[2] in helm.refusal(Settings(values=(value,)))


def test_management_and_proxies_listen_at_addresses_of_both_families(helm: Helm) -> None:
    objects = helm.template(Settings())
    for component in ("management", "proxy"):
        assert "--host=::" in container_of(objects, component)["args"]
    assert ListenOptions(host="::", public_name="wafer.svc").bind_host == "::"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("db.example.org", "db.example.org"), ("10.0.0.5", "10.0.0.5")]
    + [(host, "[fd00::5]") for host in ("fd00::5", "[fd00::5]")],
)
def test_an_address_of_a_database_is_in_brackets(helm: Helm, host: str, expected: str) -> None:
    values = ("postgresql.mode=external", f"postgresql.external.host={host}")
    objects = helm.template(Settings(values=(*values, "postgresql.password=x")))
    for component in ("management", "proxy"):
        (url,) = [word for word in container_of(objects, component)["args"] if "--database" in word]
        assert f"@{expected}:5432/wsc" in url


def test_addresses_in_a_certificate_of_cert_manager_are_no_names(helm: Helm) -> None:
    values = ("tls.source=certManager", "tls.certManager.issuerRef.name=a")
    extra = "tls.extraNames={10.0.0.7,fd00::7,wafer.example.org}"
    (certificate,) = of_kind(helm.template(Settings(values=(*values, extra))), "Certificate")
    assert certificate["spec"]["ipAddresses"] == ["10.0.0.7", "fd00::7"]
    assert "wafer.example.org" in certificate["spec"]["dnsNames"]
    assert not {"10.0.0.7", "fd00::7"} & set(certificate["spec"]["dnsNames"])


@pytest.mark.parametrize("name", ["fd00::7", "[fd00::7]", "wafer.example.org:9000"])
def test_clients_are_told_no_ipv6_address(helm: Helm, name: str) -> None:
    assert "give a name" in helm.refusal(Settings(values=(f"service.publicName={name}",)))
