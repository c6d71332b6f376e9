"""An appliance that root runs: programs of an SDK job are its user's, and get at nobody else's."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.appliance import ROOT
from tests.support.sdk_client import PROGRAMS, sdk_client_venv
from tests.support.two_users import Person, SharedAppliance, made_user, open_to_all

pytestmark = [
    pytest.mark.client,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as other users"),
    pytest.mark.skipif(shutil.which("useradd") is None, reason="there is no useradd here"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="wsc-sdk-users-", dir="/tmp"))
    made.chmod(0o711)
    shutil.copytree(PROGRAMS, made / "client")
    shutil.copytree(ROOT / "examples" / "csl", made / "csl")
    for each in (made / "client", made / "csl", *made.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def run_client(
    appliance: SharedAppliance, folder: Path, user: Person, *commands: str
) -> dict[str, object]:
    """Run commands in an SDK job of a user's; return what they said."""
    account = (user.name, "--uid", str(user.uid), "--gid", str(user.gid))
    token = appliance.command("token", "create", *account, program="appliance").strip()
    words = (str(sdk_client_venv() / "bin" / "python"), str(folder / "client" / "prying.py"))
    command = user.command(
        *(*words, str(folder / "csl"), *commands),
        CSCONFIG_PATH=str(folder / "config_v2"),
        CSAUTH_TOKEN=token,
    )
    done = subprocess.run(
        [*appliance.enter, *command], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout.strip().split("\n")[-1])
    return found


def test_programs_of_a_job_have_its_users_rights_and_no_others(folder: Path) -> None:
    with (
        made_user(f"wscsdk{os.getpid()}", folder / "home") as ada,
        open_to_all(sdk_client_venv()) as enter,
    ):
        appliance = SharedAppliance(folder / "data", enter=enter)
        appliance.up("--systems", "1", "--tls", "--tokens")
        try:
            shutil.copy(appliance.config_path, folder / "config_v2")
            (folder / "config_v2").chmod(0o644)
            runtime = json.loads((folder / "data" / "appliance.json").read_text())["runtime_root"]
            found = run_client(
                appliance,
                folder,
                ada,
                "id -u; id -g",
                f"cat {folder}/data/token.key",
                f"ls {runtime}",
                f"ls {folder}/data/compile/sdk_cached_compile/programs",
                "ls ../../..",
                f"touch {runtime}/machine-code/fabric-evil.o",
                "touch ../../bin/python",
                'kill -9 $(cut -d" " -f4 /proc/$PPID/stat)',
            )
        finally:
            appliance.down()
    first, *others = found["said"]  # type: ignore[misc] # a list of texts
    assert first.split() == [str(ada.uid), str(ada.gid)]
    assert "SUCCESS!" in str(found["run"])
    assert found["owners"] == [0]  # nobody's: the archive says nothing of whose it is
    for said in others:
        assert "denied" in said or "not permitted" in said, others
