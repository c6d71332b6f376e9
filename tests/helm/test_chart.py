"""The chart: what it makes of many values, held to the schemas of recent Kubernetes versions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from appliance.cluster.kubernetes.options import parse_options
from appliance.management.access.certificates import AUTHORITY_NAMES
from appliance.management.cluster.cluster_file import parse_cluster
from tests.helm.management_values import ADMISSION, PLACEMENT, SESSIONS, TELLING
from tests.support.helm import CHART, Helm, Settings

VERSIONS = ("1.28", "1.32", all_versions()[-1])
FOREIGN = {"Certificate", "ServiceMonitor", "PrometheusRule", "TLSRoute"}
"""Kinds that are not Kubernetes' own."""

TOO_NEW = {
    ("ValidatingAdmissionPolicy", "1.28"),
    ("ValidatingAdmissionPolicyBinding", "1.28"),
}
READS = {"get", "list", "watch"}
CLUSTER = "systems:\n- {count: 3}\nnodes:\n- {role: management, memory: 64Gi, cores: 8}\n"
MATRIX = {
    "defaults": Settings(),
    "sqlite": Settings(values=("postgresql.mode=none", "systems.count=16", "systems.machine=cs3")),
    "external database": Settings(
        values=(
            "postgresql.mode=external",
            "postgresql.existingSecret=db",
            "postgresql.external.host=db.example.org",
            "postgresql.external.authoritySecret=db-authority",
        )
    ),
    "given password": Settings(values=("postgresql.password=secret",)),
    "cert-manager": Settings(
        values=("tls.source=certManager", "tls.certManager.issuerRef.name=authority")
    ),
    "given certificates": Settings(
        values=("tls.source=secret", "tls.secretName=mine", "tls.extraNames={a.example.org}")
    ),
    "ports": Settings(
        values=(
            "service.type=LoadBalancer",
            "service.publicName=wafer.example.org",
            "service.loadBalancerClass=edge",
            "service.loadBalancerSourceRanges={10.0.0.0/8}",
            "ingress.enabled=true",
            "ingress.host=dashboard.example.org",
            "gateway.enabled=true",
            "gateway.parentRefs[0].name=edge",
            "networkPolicy.from[0].namespaceSelector.matchLabels.team=a",
        )
    ),
    "monitoring": Settings(
        values=(
            "metrics.serviceMonitor.enabled=true",
            "metrics.serviceMonitor.tokenSecret=scraper",
            "metrics.rules.enabled=true",
            "grafana.dashboards.enabled=true",
        )
    ),
    "placement": PLACEMENT,
    "telling": TELLING,
    "embedded": Settings(values=("jobs.launcher=embedded",)),
    "jobs": Settings(
        values=(
            "management.replicas=2",
            "jobs.userImage=mine:1",
            "jobs.userVolumes[0].name=home",
            "jobs.userVolumes[0].path=/home",
            "jobs.userVolumes[0].nfs.server=nfs.example.org",
            "jobs.userVolumes[0].nfs.path=/export",
            "jobs.nodeSelectors.chief.accelerator=cs2",
            "jobs.resources.chief.memory=8Gi",
            "jobs.onDrain=requeue",
            "jobs.podLabels.team=a",
            "jobs.extraVolumes[0].name=scratch",
            "jobs.extraVolumeMounts[0].name=scratch",
            "jobs.streams=network",
            "jobs.kueue.enabled=true",
            "jobs.kueue.queueName=wafers",
            "storage.accessModes={ReadWriteMany}",
        )
    ),
    "admission": ADMISSION,
    "storage": Settings(
        values=(
            "storage.existingClaim=mine",
            "postgresql.storageClassName=fast",
            "serviceAccount.create=false",
            "networkPolicy.enabled=false",
            "podDisruptionBudget.enabled=false",
        )
    ),
    "sessions": SESSIONS,
    "node port": Settings(
        values=(
            "service.type=NodePort",
            "service.nodePort=31000",
            "service.publicName=wafer.example.org",
        )
    ),
    "cluster file": Settings(
        values=(f"systems.clusterFile={CLUSTER.replace(',', chr(92) + ',')}",)
    ),
}


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [found for found in objects if found["kind"] == kind]


def pod_specs(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for found in objects:
        if found["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield found["metadata"]["name"], found["spec"]["template"]["spec"]
        if found["kind"] == "Pod":
            yield found["metadata"]["name"], found["spec"]


def container_of(objects: list[dict[str, Any]], component: str) -> dict[str, Any]:
    (deployment,) = [
        found
        for found in of_kind(objects, "Deployment")
        if found["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    container: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return container


def management(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return container_of(objects, "management")


def test_helm_finds_no_fault(helm: Helm) -> None:
    done = helm.run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MATRIX)
def test_every_object_is_right_for_recent_kubernetes(
    made: dict[str, list[dict[str, Any]]], name: str, version: str
) -> None:
    own = [
        found
        for found in made[name]
        if found["kind"] not in FOREIGN and (found["kind"], version) not in TOO_NEW
    ]
    assert own
    for found in own:
        kubernetes_validate.validate(found, version, strict=True)


def test_a_drain_waits_for_jobs_by_a_number_that_needs_no_scale_or_not_at_all(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    """A percentage, and maxUnavailable, are computed from a controller that pods of jobs lack."""
    budgets = {
        name: {each["metadata"]["name"]: each["spec"] for each in of_kind(objects, kind)}
        for name, objects in made.items()
        for kind in ("PodDisruptionBudget",)
    }
    of_jobs = budgets["defaults"]["wsc-wsc-appliance-jobs"]
    assert isinstance(of_jobs["minAvailable"], int)
    assert "maxUnavailable" not in of_jobs
    assert "wsc-wsc-appliance-jobs" not in budgets["jobs"]
    assert "wsc-wsc-appliance-proxy" in budgets["jobs"]


@pytest.mark.parametrize(
    ("number", "tag"), [("15", "15"), ("20241231", "20241231"), ("1.2", "1.2")]
)
def test_a_tag_may_be_a_number(helm: Helm, tmp_path: Path, number: str, tag: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"image: {{tag: {number}}}\npostgresql: {{image: {{tag: {number}}}}}\n")
    done = helm.run("template", "wsc", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    images = {each["containers"][0]["image"] for _, each in pod_specs(objects)}
    assert images == {f"wsc-appliance/input-node:{tag}", f"postgres:{tag}"}


@pytest.mark.parametrize("name", MATRIX)
def test_two_renders_are_alike(
    helm: Helm, made: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """Else whoever compares a render with the cluster, as GitOps does, changes it for ever."""
    assert helm.template(MATRIX[name]) == made[name]


def test_the_password_of_the_database_is_no_object_of_the_release(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    for name, objects in made.items():
        secrets = {each["metadata"]["name"] for each in of_kind(objects, "Secret")}
        wanted = {"wsc-wsc-appliance-postgresql-password"} if name == "given password" else set()
        assert secrets == wanted, name


def test_users_of_a_namespace_read_and_change_wsjobs_by_kubernetes_own_roles(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    granted = {
        (label.removeprefix(prefix), resource, verb)
        for role in of_kind(made["defaults"], "ClusterRole")
        for label in role["metadata"]["labels"]
        if label.startswith(prefix)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {("view", "wsjobs", "watch"), ("edit", "wsjobs", "create")} <= granted
    assert ("admin", "wscsystems", "patch") in granted
    assert not {each for each in granted if each[0] == "view" and each[2] not in READS}
    assert not {each for each in granted if each[:2] == ("edit", "wscsystems")}


def test_the_hook_carries_every_definition_and_may_change_no_other(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    (carried,) = [
        each for each in of_kind(made["defaults"], "ConfigMap") if "rules.yaml" in each["data"]
    ]
    files = {path.name: path.read_text() for path in (CHART / "files" / "crds").glob("*.yaml")}
    assert {name: yaml.safe_load(text) for name, text in carried["data"].items()} == {
        **{name: yaml.safe_load(text) for name, text in files.items()},
        "rules.yaml": yaml.safe_load((CHART / "files/crd-rules/rules.yaml").read_text()),
    }
    (role,) = [
        each
        for each in of_kind(made["defaults"], "ClusterRole")
        if each["metadata"]["name"].endswith("-crds")
    ]
    (patches,) = [each for each in role["rules"] if "patch" in each["verbs"]]
    names = {yaml.safe_load(text)["metadata"]["name"] for text in files.values()}
    assert set(patches["resourceNames"]) == names


def test_names_of_objects_are_unique(made: dict[str, list[dict[str, Any]]]) -> None:
    for objects in made.values():
        names = [
            (found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"])
            for found in objects
        ]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("name", MATRIX)
def test_no_pod_has_more_rights_than_it_needs(
    made: dict[str, list[dict[str, Any]]], name: str
) -> None:
    for pod, spec in pod_specs(made[name]):
        assert spec["securityContext"]["runAsNonRoot"], pod
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, pod
        assert "automountServiceAccountToken" in spec, pod
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], pod
            assert not context["allowPrivilegeEscalation"], pod
            assert context["capabilities"] == {"drop": ["ALL"]}, pod
            assert container["resources"]["limits"]["memory"], pod


def test_every_claim_secret_and_map_that_a_pod_mounts_is_made_or_given(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    given = {"mine", "db", "db-authority", "scraper", "registry", "wsc-wsc-appliance-tls"}
    given |= {"wsc-wsc-appliance-postgresql"}  # which a hook's job makes
    given |= {"notify", "oidc", "authorities"}
    for objects in made.values():
        there = {found["metadata"]["name"] for found in objects} | given
        for _, spec in pod_specs(objects):
            for volume in spec.get("volumes", []):
                wanted = (
                    volume.get("secret", {}).get("secretName"),
                    volume.get("configMap", {}).get("name"),
                    volume.get("persistentVolumeClaim", {}).get("claimName"),
                )
                assert set(wanted) - {None} <= there


def test_the_certificate_is_for_all_names_that_clients_use(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    (job,) = [
        found
        for found in of_kind(made["ports"], "Job")
        if found["metadata"]["name"].endswith("-make-tls")
    ]
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    wanted = {*AUTHORITY_NAMES, "wafer.example.org", "dashboard.example.org", "localhost"}
    assert wanted <= set(arguments)
    (certificate,) = of_kind(made["cert-manager"], "Certificate")
    names = certificate["spec"]["dnsNames"]
    assert {*AUTHORITY_NAMES, "wsc-wsc-appliance.wafer.svc"} <= set(names)


def test_a_cluster_file_reaches_the_appliance_as_it_was_written(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    maps = of_kind(made["cluster file"], "ConfigMap")
    (config,) = [found for found in maps if found["metadata"]["name"].endswith("-cluster")]
    assert len(parse_cluster(config["data"]["cluster.yaml"], source="the chart").systems) == 3
    arguments = management(made["cluster file"])["args"]
    assert "--cluster=/etc/wsc/cluster/cluster.yaml" in arguments
    assert not any(argument.startswith("--systems") for argument in arguments)


@pytest.mark.parametrize("name", ["defaults", "jobs", "placement", "sessions"])
def test_management_understands_what_it_is_told_of_the_cluster(
    made: dict[str, list[dict[str, Any]]], name: str
) -> None:
    maps = of_kind(made[name], "ConfigMap")
    (config,) = [found for found in maps if found["metadata"]["name"].endswith("-jobs")]
    options = parse_options(config["data"]["settings.yaml"], source="the chart")
    container = management(made[name])
    assert options.image == container["image"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(options.data_volume.path) == mounts["data"]
    assert f"--kubernetes={mounts['jobs']}/settings.yaml" in container["args"]


def test_the_password_is_never_an_argument(made: dict[str, list[dict[str, Any]]]) -> None:
    for name in ("defaults", "external database"):
        container = management(made[name])
        (url,) = [text for text in container["args"] if text.startswith("--database=")]
        assert "postgresql+psycopg://wsc@" in url
        (password,) = [entry for entry in container["env"] if entry["name"] == "PGPASSWORD"]
        assert password["valueFrom"]["secretKeyRef"]["key"] == "password"


def selected(objects: list[dict[str, Any]], service: dict[str, Any]) -> list[str]:
    """Return the containers that a Service leads to, by the labels that Helm gives to pods."""
    wanted = service["spec"]["selector"].items() - {("wsc.open-appliance.org/leader", "true")}
    templates = [found["spec"]["template"] for found in of_kind(objects, "Deployment")]
    return [
        template["spec"]["containers"][0]["name"]
        for template in templates
        if wanted <= template["metadata"]["labels"].items()
    ]


@pytest.mark.parametrize(
    ("name", "container"),
    [
        ("defaults", "proxy"),
        ("external database", "proxy"),
        ("jobs", "proxy"),
        ("sqlite", "management"),
        ("embedded", "management"),
    ],
)
def test_clients_are_led_to_proxies_where_these_can_find_coordinators(
    made: dict[str, list[dict[str, Any]]], name: str, container: str
) -> None:
    services = {each["metadata"]["name"]: each for each in of_kind(made[name], "Service")}
    assert selected(made[name], services["wsc-wsc-appliance"]) == [container]
    ports = {port["containerPort"] for port in container_of(made[name], container)["ports"]}
    assert {9000, 9001} <= ports
    if container == "management":
        return
    told = dict(word.split("=", 1) for word in container_of(made[name], container)["args"][1:])
    host, _, port = told["--management"].partition(":")
    inner = services[host.partition(".")[0]]
    assert selected(made[name], inner) == ["management"]
    assert int(port) in [each["port"] for each in inner["spec"]["ports"]]
    assert f"--database={told['--database']}" in management(made[name])["args"]


def test_the_leader_alone_is_scraped(made: dict[str, list[dict[str, Any]]]) -> None:
    (monitor,) = of_kind(made["monitoring"], "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = [
        each
        for each in of_kind(made["monitoring"], "Service")
        if wanted <= each["metadata"]["labels"].items()
    ]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert service["spec"]["selector"]["wsc.open-appliance.org/leader"] == "true"


def test_what_grafana_and_prometheus_get_is_what_is_in_the_tree(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    (rule,) = of_kind(made["monitoring"], "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/prometheus/rules.yml").read_text())
    boards = {
        name: json.loads(text)
        for found in of_kind(made["monitoring"], "ConfigMap")
        for name, text in found["data"].items()
        if name.endswith(".json")
    }
    stored = {p.name: json.loads(p.read_text()) for p in (CHART / "files/grafana").glob("*.json")}
    assert boards == stored


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "postgresql.mode=external,postgresql.external.host=db",
            "postgresql.existingSecret or postgresql.password",
        ),
        ("management.replicas=2,postgresql.mode=none", "SQLite has one"),
        ("management.replicas=2,jobs.launcher=embedded", "one management has all jobs"),
        ("service.type=NodePort", "service.nodePort is needed"),
        ("metrics.serviceMonitor.enabled=true", "tokenSecret is needed"),
        ("tls.source=certManager", "issuerRef.name is needed"),
        ("ingress.enabled=true", "ingress.host is needed"),
        ("jobs.kueue=null", "kueue"),  # as `--reuse-values` has it of an earlier chart
        ("image.repository=null", "repository"),
        ("management.extraEnv[0].name=HOME", "management.extraEnv has HOME"),
        ("management.extraEnv[0].name=PGPASSWORD", "management.extraEnv has PGPASSWORD"),
        ("management.extraEnv[0].name=A,management.extraEnv[1].name=A", "or which is there twice"),
        (
            "management.otlpEndpoint=x,management.extraEnv[0].name=OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL",
        ),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Helm, value: str, message: str) -> None:
    done = helm.run("template", "wsc", str(CHART), "--set", value)
    assert done.returncode != 0
    assert message in done.stderr


def test_what_helm_test_needs_is_made_by_it_alone(made: dict[str, list[dict[str, Any]]]) -> None:
    """Helm calls whatever has run for the event `test` a test, also after an installation."""
    for found in (each for objects in made.values() for each in objects):
        hooks = found["metadata"].get("annotations", {}).get("helm.sh/hook", "").split(",")
        assert "test" not in hooks or hooks == ["test"], found["metadata"]["name"]
