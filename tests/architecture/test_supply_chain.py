"""What is installed is what was locked, and no image holds what is secret."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "deploy" / "locks"
LINE = re.compile(r"^([a-z0-9-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)$")


def locked(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        for line in (LOCKS / name).read_text().splitlines()[1:]:
            match = LINE.match(line)
            assert match, f"{name}: {line}"
            found[match[1]] = match[2]
    return found


def test_every_pin_is_locked_by_the_hash_of_its_wheel_and_nothing_else_is():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    normal = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}
    names = ("appliance", "editors", "sdk", "tools", "torch", "tracing")
    found = locked(*(f"{name}.txt" for name in names))
    assert found == {name: normal.get(name) for name in found}, "run: make lock"
    assert set(normal) <= set(found), "run: make lock"


def test_the_runtimes_lock_has_no_tool_of_the_tests():
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & set(locked("appliance.txt"))
    assert {"grpcio", "fastapi", "sqlalchemy"} <= set(locked("appliance.txt"))


def test_an_environment_is_installed_by_hash():
    for path in ("deploy/setup.sh", "deploy/Dockerfile"):
        assert "--require-hashes" in (ROOT / path).read_text(), path


def test_a_wheel_of_pytorch_with_another_hash_is_refused(tmp_path):
    version = locked("torch.txt")["torch"]
    (tmp_path / f"torch-{version}-cp311.whl").write_bytes(b"something else")
    command = [str(LOCKS / "check-torch"), f"torch=={version}", str(tmp_path)]
    path = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 2
    assert "torch.txt does not name" in done.stderr


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LOCKS / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_image_has_a_bill_of_materials_that_says_the_same_twice(tmp_path):
    for directory in ("a", "b"):
        assert run("sbom.py", str(tmp_path / directory)).returncode == 0
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["appliance.cdx.json", "input-node.cdx.json", "user-node.cdx.json"]
    for name in names:
        text = (tmp_path / "a" / name).read_text()
        assert text == (tmp_path / "b" / name).read_text()
        document = json.loads(text)
        assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
        references = [each["bom-ref"] for each in document["components"]]
        assert len(references) == len(set(references)) > 50
    appliance = json.loads((tmp_path / "a" / "appliance.cdx.json").read_text())
    listed = {each["name"]: each for each in appliance["components"]}
    assert {
        *locked("appliance.txt", "sdk.txt", "torch.txt", "tracing.txt"),
        "open-wafer-appliance",
        "python",
    } == set(listed)
    assert all(listed[name].get("hashes") for name in locked("appliance.txt"))


@pytest.fixture
def environment(tmp_path):
    """An environment of one locked package, changed by nobody yet."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    site = next((tmp_path / "v" / "lib").glob("python*/site-packages"))
    name, version = "h11", locked("appliance.txt")["h11"]
    information = site / f"{name}-{version}.dist-info"
    information.mkdir()
    (site / "h11.py").write_text("x = 1")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: h11\nVersion: {version}\n")
    (information / "RECORD").write_text(f"h11.py,sha256={_digest(b'x = 1')},5")
    return tmp_path / "v", site, version


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def test_the_audit_finds_a_changed_file_a_package_without_a_lock_and_a_weakness(
    environment, tmp_path
):
    where, site, version = environment
    python = str(where / "bin" / "python")
    done = run("audit.py", python)
    assert (done.returncode, done.stdout.splitlines()[-1][:25]) == (0, "1 packages, 0 findings; a")
    advisories = tmp_path / "osv"
    advisories.mkdir()
    known = {"package": {"ecosystem": "PyPI", "name": "h11"}, "versions": [version]}
    advisory = {"id": "PYSEC-1", "summary": "bad", "affected": [known]}
    (advisories / "PYSEC-1.json").write_text(json.dumps(advisory))
    (site / "h11.py").write_text("x = 2\n")
    stranger = site / "stranger-1.dist-info"
    stranger.mkdir()
    (stranger / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    done = run("audit.py", python, str(advisories))
    assert done.returncode == 1
    assert f"h11 {version}: h11.py is not as its wheel brought it" in done.stdout
    assert "stranger 1: no lock names it" in done.stdout
    assert f"h11 {version}: PYSEC-1: bad" in done.stdout


def test_nothing_secret_is_sent_to_the_image_builder():
    """All is left out but what is named; of that nothing is a key, a token or a history."""
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    sent = [ROOT / line[1:] for line in lines if line.startswith("!")]
    secret = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|eyJhbGciOi[A-Za-z0-9_.-]{40,}")
    for place in sent:
        for path in [place, *place.rglob("*")] if place.exists() else ():
            assert path.name not in (".git", ".env", "token.key", "id_rsa"), path
            if path.is_file() and path.suffix != ".whl" and "node_modules" not in path.parts:
                assert path.suffix not in (".key", ".pem", ".p12"), path
                assert not secret.search(path.read_bytes()), path
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert not re.search(r"(?im)^(ARG|ENV) .*(secret|password|token)", dockerfile)
