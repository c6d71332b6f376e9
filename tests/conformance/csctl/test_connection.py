"""The way to the cluster: TLS, identity, and every way a call can fail."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.conformance.csctl.conftest import Shell
from tests.support.csctl import (
    AUTHORITY,
    Cluster,
    config_document,
    make_job,
    serve,
    write_config,
)
from tests.support.ports import free_port


def make_certificate(host: str) -> tuple[bytes, bytes]:
    """Return a key and a certificate, self-signed, for a host name; both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return private, certificate.public_bytes(pem)


def test_the_certificate_and_the_sessions_host_name_make_a_tls_channel(
    shell: Shell, tmp_path: Path
) -> None:
    key, certificate = make_certificate(f"*.{AUTHORITY}")
    cluster = Cluster(jobs=[make_job("wsjob-a")])
    with serve(cluster, tls=(key, certificate)) as port:
        document = config_document(f"localhost:{port}", certificate=certificate)
        path = write_config(tmp_path / "tls", document)
        answer = shell.run(f"--csconfig {path} get jobs")

    assert answer.err == ""
    assert "wsjob-a" in answer.out


def test_a_server_with_another_certificate_is_not_talked_to(tmp_path: Path) -> None:
    _, ours = make_certificate(f"*.{AUTHORITY}")
    cluster = Cluster(jobs=[make_job("wsjob-a")])
    with serve(cluster, tls=make_certificate(f"*.{AUTHORITY}")) as port:
        document = config_document(f"localhost:{port}", certificate=ours)
        path = write_config(tmp_path / "tls", document)
        command = [sys.executable, "-m", "csctl", "get", "jobs", "--csconfig", str(path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 3
    assert cluster.last_metadata == {}
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_every_call_says_who_asks(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSAUTH_TOKEN", "a-token")

    assert shell.run("types").code == 0
    assert shell.cluster.last_metadata["auth-uid"] == str(os.getuid())
    assert shell.cluster.last_metadata["auth-gid"] == str(os.getgid())
    assert shell.cluster.last_metadata["auth-token"] == "a-token"
    assert shell.cluster.last_metadata["auth-username"]


def test_my_jobs_are_those_of_the_user_who_asks(shell: Shell) -> None:
    shell.cluster.jobs = [make_job("wsjob-hers"), make_job("wsjob-mine", uid=os.getuid())]

    out = shell.run("get jobs -m").out

    assert "wsjob-mine" in out
    assert "wsjob-hers" not in out


def test_the_session_travels_with_the_request(shell: Shell) -> None:
    shell.cluster.jobs = [make_job("wsjob-a", session="red")]

    assert "wsjob-a" in shell.run("get jobs -n red").out
    assert "wsjob-a" in shell.run("-n red get jobs").out
    assert shell.run("get job red/wsjob-a").code == 0
    assert shell.cluster.last_get.options.namespace == "red"


def test_a_cluster_that_is_down_is_named_with_its_address(shell: Shell, tmp_path: Path) -> None:
    port = free_port()
    path = write_config(tmp_path / "down", config_document(f"localhost:{port}"))

    answer = shell.run(f"get jobs --csconfig {path}")

    assert answer.code == 3
    assert answer.out == ""
    assert answer.err.startswith(f"Error: Cluster 'wsc' at localhost:{port} is unavailable: ")
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("status", "want_code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
        (grpc.StatusCode.PERMISSION_DENIED, 2),
        (grpc.StatusCode.UNAUTHENTICATED, 2),
        (grpc.StatusCode.UNAVAILABLE, 3),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 3),
        (grpc.StatusCode.INTERNAL, 4),
        (grpc.StatusCode.UNIMPLEMENTED, 4),
    ],
)
def test_the_exit_code_says_whose_fault_it_is(
    shell: Shell, status: grpc.StatusCode, want_code: int
) -> None:
    shell.cluster.failure = (status, "Something is wrong")

    answer = shell.run("get jobs")

    assert answer.code == want_code
    assert answer.out == ""
    assert answer.err.startswith("Error: ")
    assert answer.err.count("\n") == 1


def test_a_traceback_needs_debug(shell: Shell) -> None:
    shell.cluster.failure = (grpc.StatusCode.INTERNAL, "Something is wrong")

    answer = shell.run("get jobs -d 1")

    assert "Traceback" in answer.err
    assert answer.err.splitlines()[-1].startswith("Error: ")


def test_an_answer_of_another_kind_is_a_defect(shell: Shell) -> None:
    shell.cluster.others["volumes"] = make_job("\x07" * 40)

    answer = shell.run("get volumes")

    assert answer.code == 4
    assert "are not a VolumeList" in answer.err


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    shell.cluster.jobs = [make_job(f"wsjob-{n}") for n in range(2000)]
    command = f"{sys.executable} -m csctl get jobs --limit 0 | head -1"

    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert result.stdout.startswith("SESSION")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("get jobs --my-jobs", {"current_user_only": True}),
        ("get jobs --labels team=a", {"label_filters": {"team": "a"}}),
        ("get job --labels team=a", {"label_filters": {"team": "a"}}),
        ("get jobs --sort age --order asc", {"sort_by": "age", "order_by": "asc"}),
        ("get jobs --sort age --order desc", {"sort_by": "age", "order_by": "desc"}),
        ("get jobs --sort age --desc", {"sort_by": "age", "order_by": "asc"}),
        ("get jobs --pending-status", {"show_pending_status": True}),
        ("get cluster --system systemf0", {"system": "systemf0"}),
        ("get cluster --version version=v1", {"version": "version=v1"}),
        ("get systems --version version!=v1", {"version": "version!=v1"}),
    ],
)
def test_the_options_of_the_csctl_of_a_release_are_ours_too(
    shell: Shell, line: str, asked: dict[str, object]
) -> None:
    shell.run(line)
    options = shell.cluster.last_get.options
    assert {name: type(wanted)(getattr(options, name)) for name, wanted in asked.items()} == asked


def test_opposite_orders_are_refused(shell: Shell) -> None:
    answer = shell.run("get jobs --sort age --desc --order desc")
    assert answer.code != 0
    assert "--desc and --order desc are opposites." in answer.err
