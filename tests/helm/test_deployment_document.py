"""docs/deployment.md names only what there is: values, commands, options, files, services, fields.

What these do is tested elsewhere (`deploy/drill.sh` on the API server, `tests/compose`).
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from appliance.cluster.kubernetes import kubernetes_launcher, manifests
from appliance.management.kubernetes import namespaced_jobs, unmapped_wsjobs
from appliance.management.store import disk
from appliance.start import app as appliance
from tests.support.helm import CHART, ROOT, Helm
from tests.support.kube_server import find_tool

TEXT = (ROOT / "docs" / "deployment.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
QUOTED = sorted({" ".join(each.split()) for each in re.findall(r"`([^`]+)`", PROSE)})
KUBERNETES = PROSE[PROSE.index("## Kubernetes") :]


def commands() -> list[list[str]]:
    """Return every command of the page in words, those within quotes of a shell too."""
    lines = [line.replace("\\\n", " ") for block in BLOCKS for line in _prompts(block)]
    found = [words for line in (*lines, *QUOTED) for words in _parts(line)]
    assert len(found) > 60
    return found


def _prompts(block: str) -> Iterator[str]:
    yield from re.findall(r"^[$#] ((?:.*\\\n)*.*)$", block, re.MULTILINE)


def _parts(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(line.partition("  #")[0])
    except ValueError:  # prose with an apostrophe
        return
    joined = " ".join(words)
    for part in re.split(r"&&|;|\||\$\(|\)|=\"|-- |sh -c ", joined):
        if part.strip():
            yield part.split()


def of(program: str) -> list[list[str]]:
    """Return the arguments of each call of a program."""
    calls = [words[i + 1 :] for words in commands() for i in _places(words, program)]
    assert calls, f"{program} is not on the page"
    return calls


def _places(words: list[str], program: str) -> list[int]:
    starts = [i for i, word in enumerate(words) if word == program]
    return [i for i in starts[-1:] if all("=" in w or w.startswith("$") for w in words[:i])]


def flags_of(arguments: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in arguments if re.match(r"--?[a-z]", word)}


def schema_of(path: str) -> Mapping[str, Any] | None:
    """Return the schema of a value; None if the chart has none of that name."""
    found: Any = json.loads((CHART / "values.schema.json").read_text())
    for part in re.sub(r"\[\d+\]", ".0", path).split("."):
        if found.get("type") == "array":
            found = found.get("items", {})
            continue
        known, others = found.get("properties", {}), found.get("additionalProperties", True)
        by_pattern = [
            each for key, each in found.get("patternProperties", {}).items() if re.match(key, part)
        ]
        if part in known or by_pattern:
            found = known[part] if part in known else by_pattern[0]
        elif others is False or (known and others is True):
            return None
        else:
            found = others if isinstance(others, dict) else {}
    return found


def values() -> set[str]:
    """Return the values that the page names, as paths."""
    top = set(yaml.safe_load((CHART / "values.yaml").read_text()))
    quoted = {re.split(r"[=:]", word)[0] for word in QUOTED if " " not in word or ":" in word}
    given = {
        word.partition("=")[0]
        for words in of("helm")
        for before, word in pairwise(words)
        if before == "--set"
    }
    return given | {word for word in quoted if "." in word and word.split(".")[0] in top}


def test_every_value_exists() -> None:
    named = values()
    assert len(named) > 40
    assert sorted(each for each in named if schema_of(each) is None) == []
    assert schema_of("jobs.affinty") is None
    assert schema_of("systems.cuont") is None


def test_values_with_their_settings_render(helm: Helm) -> None:
    shown = ["systems.count=2", "storage.accessModes={ReadWriteMany}", "jobs.planMemory=false"]
    shown += ["jobs.schedulingGates=false", "crds.upgrade=false", "rbac.tellUnmapped=false"]
    shown += ["jobs.resources.chief.cpu=4", "jobs.resources.chief.memory=8Gi"]
    for part in ("service.type=LoadBalancer", "rbac.tellUnmapped=false", "crds.upgrade=false"):
        assert f"`{part}`" in PROSE
    sets = [part for value in shown for part in ("--set-string", value)]
    plain = [part.replace("--set-string", "--set") for part in sets]
    done = helm.run("template", "wafer", str(CHART), "--namespace", "wafer", *plain)
    assert done.returncode == 0, done.stderr
    made = {each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout) if each}
    objects = set(re.findall(r"(?:deploy/|`)(wafer-wsc-appliance[-a-z]*)", TEXT))
    assert objects
    assert objects <= made


@pytest.mark.parametrize("program", ["helm", "kubectl"])
def test_every_option_of_helm_and_kubectl_exists(program: str) -> None:
    tool = find_tool(program)
    assert tool
    common = _said(tool, "options" if program == "kubectl" else "--help")
    for arguments in of(program):
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        if not (verbs := _verbs(own)):
            continue
        said = common + _said(tool, *verbs, "--help")
        unknown = [flag for flag in flags_of(own) if not re.search(rf"(^|\W){flag}\b", said)]
        assert unknown == [], f"{program} {' '.join(own)}"


def _verbs(arguments: list[str]) -> list[str]:
    """Return the subcommand of a call: `rollout restart`, `create secret generic`."""
    words, skip = [], False
    for word in arguments:
        if skip or word.startswith("-"):
            skip = not skip and word in ("-n", "--namespace")
            continue
        words.append(word)
    count = {"rollout": 2, "create": 3}.get(words[0] if words else "", 1)
    return words[:count]


def _said(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["appliance", "csctl"])
def test_every_command_and_option_of_our_own_exists(program: str) -> None:
    for arguments in of(program):
        groups = {"token": 2, "get": 2, "session": 2, "job": 2}
        verbs = arguments[: groups.get(arguments[0], 1)] if arguments else []
        said = _help_of(program, verbs)
        flags = flags_of(arguments)
        unknown = [flag for flag in flags if not re.search(rf"(^|\W){flag}\b", said)]
        assert unknown == [], f"{program} {' '.join(arguments)}: {said}"


def _help_of(program: str, verbs: list[str]) -> str:
    if program == "csctl":  # a test holds the copy to the command line
        stored = (ROOT / "tests" / "architecture" / "csctl_help.txt").read_text()
        head = " ".join(["$ csctl", *verbs, "--help"])
        assert f"{head}\n" in stored, head
        return stored.partition(f"{head}\n")[2].partition("\n$ csctl")[0]
    done = CliRunner().invoke(appliance, [*verbs, "--help"], env={"COLUMNS": "300"}, color=False)
    assert done.exit_code == 0, f"{program} {verbs}: {done.output}"
    return done.output


def test_every_file_of_the_tree_exists() -> None:
    named = set(re.findall(r"(?<![\w/.])((?:examples|deploy|helm|docs)/[\w./-]*\w)", TEXT))
    named.discard("deploy/wafer-wsc-appliance")  # an object of Kubernetes
    named |= set(re.findall(r"decision (\d{4})", TEXT))
    assert len(named) > 10
    missing = []
    for each in named:
        pattern = f"docs/decisions/{each[-4:]}-*.md" if re.search(r"(^|/)\d{4}$", each) else each
        if not list(ROOT.glob(pattern)):
            missing.append(each)
    assert missing == []


def test_the_services_of_docker_compose_and_their_networks_are_those_of_the_table() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE)
    table = {
        service: set() if networks.strip() == "-" else set(networks.replace(" ", "").split(","))
        for names, networks in rows
        for service in re.findall(r"`([^`]+)`", names)
    }
    assert table == {name: set(each.get("networks") or ()) for name, each in compose.items()}


def test_every_variable_of_docker_compose_is_one() -> None:
    section = TEXT[TEXT.index("## docker-compose") : TEXT.index("## Kubernetes")]
    named = set(re.findall(r"`(WSC_\w+|BASE|\w+_IMAGE|TORCH_INDEX|OTEL_\w+)`", section))
    assert len(named) >= 8
    text = (ROOT / "docker-compose.yml").read_text()
    assert sorted(each for each in named if f"${{{each}" not in text) == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_no_key_of_an_example_is_a_word_that_yaml_takes_for_another_thing(path: Path) -> None:
    def keys(part: object) -> Iterator[object]:
        for each in part if isinstance(part, list) else ():
            yield from keys(each)
        for name, each in part.items() if isinstance(part, dict) else ():
            yield name
            yield from keys(each)

    found = [key for document in yaml.safe_load_all(path.read_text()) for key in keys(document)]
    assert found
    assert [key for key in found if not isinstance(key, str)] == []


def test_every_field_condition_and_label_of_a_wsjob_exists() -> None:
    definition = yaml.safe_load((CHART / "files" / "crds" / "wsjobs.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    named = {each.partition(":")[0] for each in QUOTED if re.match(r"(spec|status)\.\w", each)}
    named |= {"spec.driver.environment", "spec.driver.restart.on"}
    assert len(named) > 6
    assert sorted(each for each in named if not _has_field(schema, each.split("."))) == []
    kubernetes = (ROOT / "appliance" / "management" / "kubernetes").glob("*.py")
    code = "\n".join(path.read_text() for path in kubernetes)
    for word in ("Queued", "Suspended", "PodsPlaced", "Complete", "NoSession", "SpecChangeIgnored"):
        assert f"`{word}`" in KUBERNETES
        assert f'"{word}"' in code, word


SCHEMA = {
    *("type", "format", "enum", "default", "pattern", "description", "required", "anyOf"),
    *(
        "properties",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "items",
        "minItems",
        "maxItems",
    ),
    *("minimum", "maximum", "minLength", "maxLength"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
}


@pytest.mark.parametrize("name", ["wsjobs", "wscsystems"])
def test_a_definition_holds_nothing_that_is_no_schema(name: str) -> None:
    """As a comma in a plain scalar makes; `kubectl apply --server-side` refuses it."""

    def strangers(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        yield from (f"{path}: {key}" for key in schema if key not in SCHEMA)
        for part, each in schema.get("properties", {}).items():
            yield from strangers(each, f"{path}.{part}")
        for part in ("items", "additionalProperties"):
            if isinstance(schema.get(part), dict):
                yield from strangers(schema[part], f"{path}.{part}")

    definition = yaml.safe_load((CHART / "files" / "crds" / f"{name}.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    assert list(strangers(version["schema"]["openAPIV3Schema"], name)) == []


def _has_field(schema: Mapping[str, Any], path: list[str]) -> bool:
    for part in path:
        schema = schema.get("items", schema).get("properties", {}).get(part)
        if schema is None:
            return False
    return True


def test_every_claim_of_a_default_is_the_chart_s() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert defaults["proxy"]["drainSeconds"] == 24 * 3600  # "a day"
    assert defaults["jobs"]["onDrain"] == "wait"
    assert defaults["storage"]["keep"] is True
    assert defaults["rbac"]["aggregateClusterRoles"] is True
    assert defaults["storage"]["accessModes"] == ["ReadWriteOnce"]


def test_every_number_that_is_not_a_value_is_the_code_s() -> None:
    words = " ".join(TEXT.split())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert "Kubernetes 1.20 or newer" in words
    assert chart["kubeVersion"] == ">=1.20.0-0"
    assert "50 to 100 millicores, 256 or 512 MiB of memory and what their compiled" in words
    assert {*manifests._CORES.values(), manifests._CORES_OF_OTHERS} == {"50m", "100m"}
    assert {*manifests._MEMORY_MIB.values(), manifests._MEMORY_MIB_OF_OTHERS} == {256, 512}
    assert "256 MiB of the node's disk" in words
    assert manifests._EPHEMERAL_STORAGE == "256Mi"
    assert "is tried again every five seconds" in words
    assert kubernetes_launcher._REFUSED_SECONDS == 5
    assert "after half a minute it has an event `NoSession`" in words
    assert unmapped_wsjobs._GRACE_SECONDS == 30
    assert "Management looks every ten seconds" in words
    assert namespaced_jobs._LOOK_SECONDS == 10
    assert "where rights are missing jobs go on for five minutes" in words
    assert namespaced_jobs._GRACE_SECONDS == 5 * 60
    assert "at most a twentieth of the disk" in words
    assert disk._RESERVE_SHARE == 1 / 20
    assert "start again once a quarter more than the reserve is free" in words
    assert disk._RESUME_FACTOR == 1.25


def test_resource_definitions_change_when_the_page_says_and_hold_the_rules_that_it_names() -> None:
    hook = (CHART / "templates" / "crds-hook.yaml").read_text()
    assert "before every install, upgrade and rollback" in " ".join(TEXT.split())
    assert '"pre-install,pre-upgrade,pre-rollback"' in hook
    (named,) = re.findall(r"hold rules \((.+?) of a wsjob cannot be changed\)", PROSE, re.DOTALL)
    rules = yaml.safe_load((CHART / "files" / "crd-rules" / "rules.yaml").read_text())
    of_edits = (
        rule["message"]
        for rule in rules["wsjobs.wsc.open-appliance.org"]["spec"]
        if "cannot be changed" in rule["message"]
    )
    fixed = [message.split()[0] for message in of_edits]
    assert re.findall(r"`(\w+)`", named) == fixed


def test_what_stays_after_an_uninstallation_has_the_label_by_which_it_is_removed(
    helm: Helm,
) -> None:
    done = helm.run("template", "wafer", str(CHART), "--namespace", "wafer")
    made = [each for each in yaml.safe_load_all(done.stdout) if each]
    claims = [each for each in made if each["kind"] == "PersistentVolumeClaim"]
    for each in made:
        claims += each.get("spec", {}).get("volumeClaimTemplates", [])
    assert len(claims) == 2
    for claim in claims:
        assert claim["metadata"]["labels"]["app.kubernetes.io/instance"] == "wafer"
    kept = {each["metadata"]["name"] for each in claims if "annotations" in each["metadata"]}
    assert kept == {"wafer-wsc-appliance-data"}
    secret = next(
        argument
        for each in made
        if each["metadata"]["name"] == "wafer-wsc-appliance-password" and each["kind"] == "Job"
        for argument in each["spec"]["template"]["spec"]["containers"][0]["args"]
        if argument.startswith("--secret=")
    )
    rows = re.findall(r"^\| (?:claim|Secret) `([^`]+)`", TEXT, re.MULTILINE)
    assert [row.replace("<release>", "wafer") for row in rows] == [
        "wafer-wsc-appliance-data",
        "data-wafer-wsc-appliance-postgresql-0",
        secret.removeprefix("--secret="),
        "wafer-wsc-appliance-tls",
    ]


def test_every_secret_variable_that_is_taken_out_is_named() -> None:
    text = Path(ROOT / "appliance" / "observability" / "redaction.py").read_text()
    for word in ("TOKEN", "PASSWORD", "SECRET", "API_KEY"):
        assert f"`{word}`" in KUBERNETES
        assert re.search(word.replace("_", ".*"), text, re.IGNORECASE), word
