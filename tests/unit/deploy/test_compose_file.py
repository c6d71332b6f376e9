"""docker-compose.yml: what it mounts exists, and what it tells management is read."""

from pathlib import Path

import yaml

from appliance import settings

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SETTINGS = ("${WSC_SETTINGS_DIR:-./deploy/settings}", "./deploy/settings")
GRAFANA = ROOT / "deploy" / "grafana"


def provisioned(name: str) -> dict:
    return yaml.safe_load((GRAFANA / "provisioning" / name).read_text())


def mounts(service: str) -> dict[str, str]:
    """Return what of this directory is mounted, by its place in the container."""
    found = {}
    for volume in COMPOSE["services"][service]["volumes"]:
        source, _, rest = volume.replace(
            "${WSC_SETTINGS_DIR:-./deploy/settings}", "./deploy/settings"
        ).partition(":")
        if source.startswith("./"):
            found[rest.removesuffix(":ro")] = source
    return found


def test_whatever_is_mounted_of_the_checkout_is_there() -> None:
    found = {
        source
        for name in COMPOSE["services"]
        if "volumes" in COMPOSE["services"][name]
        for source in mounts(name).values()
    }
    assert len(found) > 4
    assert [source for source in found if not (ROOT / source).exists()] == []


def test_management_reads_every_variable_that_it_is_told() -> None:
    told = COMPOSE["services"]["management"]["environment"]
    assert {"WSC_NOTIFY", "WSC_OIDC", "OTEL_EXPORTER_OTLP_ENDPOINT"} <= set(told)
    known = settings.__doc__ or ""
    assert [name for name in told if f"`{name}`" not in known] == ["PGPASSFILE"]


def test_only_management_and_what_people_look_at_reach_the_outside() -> None:
    outside = {
        name for name, each in COMPOSE["services"].items() if "outside" in each.get("networks", ())
    }
    assert outside == {"management", "grafana"}
    assert COMPOSE["networks"]["appliance"] == {"internal": True}


def test_grafana_is_told_of_prometheus_and_of_the_dashboards_that_are_mounted() -> None:
    places = mounts("grafana")
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/wafer.yml").read_text())[
        "providers"
    ]
    mounted = {
        Path(place).name for place in places if place.startswith(provider["options"]["path"])
    }
    drawn = ROOT / "helm" / "wsc-appliance" / "files" / "grafana"
    assert mounted == {path.name for path in drawn.glob("*.json")} != set()
    assert COMPOSE["services"]["grafana"]["profiles"] == ["grafana"]
