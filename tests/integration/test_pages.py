"""What the pages tell to type does what they say, where it needs nothing but the appliance."""

import datetime as dt
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from appliance.management.access.certificates import issue
from appliance.management.access.provider_options import read_provider_options
from appliance.management.background.notification_channels import NotifyOptions, read_notify_options
from appliance.management.cluster.cluster_file import parse_cluster
from tests.support.pages import (
    ROOT,
    Block,
    Command,
    block_of,
    blocks_of,
    commands_of,
    follow,
    short_home,
)
from tests.support.postgres import reason_to_skip, running_postgres


@pytest.fixture
def home() -> Iterator[Path]:
    with short_home() as path:
        yield path


@pytest.mark.parametrize(
    "blocks",
    [
        blocks_of("docs/administration.md", "console"),
        blocks_of("docs/operations.md", "console"),
    ],
    ids=["administration", "operations"],
)
def test_a_page_can_be_followed_from_its_first_command_to_its_last(blocks, home):
    commands = commands_of(*blocks)
    assert len(commands) > 10
    follow(commands, home)


def console(text: str) -> Block:
    return Block("page", "console", text)


def test_a_command_that_prints_something_else_is_found(tmp_path):
    commands = commands_of(console("$ echo one two\none ... three\n"))
    with pytest.raises(AssertionError, match=re.escape("shown:   one ... three")):
        follow(commands, tmp_path)


def test_a_command_that_fails_is_named(tmp_path):
    with pytest.raises(AssertionError, match=r"\$ false"):
        follow(commands_of(console("$ true\n$ false\n$ true\n")), tmp_path)


def test_ids_of_a_page_stand_for_those_that_are_printed(tmp_path):
    shown, real = "wsjob-keaww0vzjsfw3yr5yvktk8", "wsjob-00000000000000000000ab"
    (tmp_path / "name").write_text(real)
    (again := tmp_path / "again").mkdir()
    page = f"$ cat {tmp_path}/name\n{shown}\n$ echo {shown}; cat {tmp_path}/name\n{shown} {shown}\n"
    follow(commands_of(console(page)), tmp_path)
    page += f"$ echo wsjob-0000000000000000000000\n{shown}\n"
    with pytest.raises(AssertionError, match="printed: wsjob-0"):
        follow(commands_of(console(page)), again)


def test_the_estimate_of_a_lab_needs_no_appliance(home):
    follow(commands_of(*blocks_of("docs/labs/5-planning-70b.md", "console")), home)


def test_a_kernel_is_compiled_run_and_traced_as_the_pages_say(home):
    shutil.copytree(ROOT / "examples", home / "examples")
    for file in (home / "examples" / "csl").iterdir():
        shutil.copy(file, home)
    commands = [
        *commands_of(block_of("docs/sdk.md", "$ make setup")),
        *commands_of(block_of("docs/sdk.md", "$ cslc layout.csl")),
        Command("WSC_FABRIC_TRACE=run.trace cs_python run.py --name out"),
        *commands_of(*blocks_of("docs/fabric-traces.md", "console")),
        *commands_of(block_of("docs/sdk.md", "$ make test-csl")),
    ]
    follow(commands, home)
    assert (home / "cycle.svg").read_text().startswith("<svg")
    assert (home / "run.json").stat().st_size > 1000


def test_a_program_is_debugged_as_the_page_says(home):
    shutil.copytree(ROOT / "examples" / "csl_sum", home, dirs_exist_ok=True)
    command = f"{sys.executable} -m appliance.sdk.cs_debug"
    blocks = blocks_of("docs/csl-debugging.md", "console")
    replaced = {"cs_debug --": f"{command} --"}
    follow(commands_of(*blocks), home, replaced=replaced, variables={"PYTHONPATH": str(ROOT)})


@pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())
def test_postgresql_is_set_up_and_used_as_the_page_says(home):
    block = block_of("docs/operations.md", "createuser wsc")
    (home / "pgpass").write_text("*:*:wsc:wsc:secret\n")
    (home / "pgpass").chmod(0o600)
    with running_postgres() as url:
        follow(
            [*map(Command, block.text.splitlines()), Command("csctl get cluster")],
            home,
            variables=postgres_variables(url),
            replaced={"/etc/wafer/pgpass": str(home / "pgpass"), "@host:5432": "@"},
        )
        options = home.glob(".local/share/wafer-appliance/database.url")
        assert [path.read_text().splitlines()[0] for path in options] == [
            "postgresql+psycopg://wsc@/wsc"
        ]


@pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())
def test_an_appliance_moves_from_sqlite_to_postgresql_as_the_page_says(home):
    create, *_ = block_of("docs/operations.md", "createuser wsc").text.splitlines()
    move = block_of("docs/operations.md", "appliance backup wsc.tar").text.splitlines()
    with running_postgres() as url:
        commands = [create, "appliance up --systems 2", "csctl session create nlp", *move]
        follow(
            [*map(Command, commands), Command("csctl session list -o name", ("...nlp",))],
            home,
            variables=postgres_variables(url),
            replaced={"@host:5432": "@"},
        )


def postgres_variables(url: str) -> dict[str, str]:
    """Return what libpq takes from its environment, so that the pages' URLs need no host."""
    user, _, directory = url.partition("//")[2].partition("@/{name}?host=")
    return {"PGHOST": directory, "PGUSER": user}


def with_files(block: Block, directory: Path) -> Path:
    """Write a page's YAML to a file, and every file that it names beside it."""
    text = block.text
    issued = issue(["wafer.example.com"], now=dt.datetime.now(dt.UTC))
    for name in re.findall(r"/etc/[\w./-]+", text):
        content = issued.authority if name.endswith(".pem") else b"secret"
        (directory / Path(name).name).write_bytes(content)
        text = text.replace(name, str(directory / Path(name).name))
    path = directory / "page.yaml"
    path.write_text(text)
    return path


def test_the_file_of_an_identity_provider_is_one(tmp_path):
    path = with_files(block_of("docs/administration.md", "issuer:"), tmp_path)
    options = read_provider_options(path)
    assert options.rules.claims.uid == "uidNumber"
    assert [role.group for role in options.rules.roles] == ["wafer-admins", "nlp-leads"]


def test_the_file_of_notifications_is_one(tmp_path):
    options = read_notify_options(with_files(block_of("docs/notifications.md", "mail:"), tmp_path))
    assert options.mail
    assert [target.threshold for target in options.targets] == [2, 1]
    defaults = {"pagerduty_url", "retry_seconds", "max_attempts"}
    for name in defaults:
        assert getattr(options, name) == NotifyOptions.__dataclass_fields__[name].default


def test_the_file_of_a_cluster_is_one():
    (block,) = blocks_of("docs/scheduling.md", "yaml")
    cluster = parse_cluster(block.text, source="the page")
    assert [system.name for system in cluster.systems] == [f"systemf{i}" for i in range(4)]
    assert len(cluster.node_groups) == 2


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Debian: prometheus) is missing")
def test_prometheus_takes_the_page_s_configuration(tmp_path):
    (block,) = blocks_of("docs/metrics.md", "yaml")
    path = with_files(block, tmp_path)
    checked = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (job,) = yaml.safe_load(path.read_text())["scrape_configs"]
    rules = (ROOT / "helm/wsc-appliance/files/prometheus/rules.yml").read_text()
    assert f'job="{job["job_name"]}"' in rules
