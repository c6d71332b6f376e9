from pathlib import Path

import pytest

from appliance.core.errors import UserError
from appliance.settings import Settings, read_settings
from csctl.connection.config import (
    DEFAULT_PATH,
    ClusterAccess,
    cluster_access,
    config_path,
    load_document,
    without_certificates,
)
from tests.support.csctl import AUTHORITY, config_document, write_config

SOURCE = Path("/etc/config_v2")
PEM = b"-----BEGIN CERTIFICATE-----"


def access_to(document: dict, namespace: str | None = None) -> ClusterAccess:
    return cluster_access(document, namespace=namespace, source=SOURCE)


def test_the_flag_goes_before_the_environment_and_that_before_the_usual_place() -> None:
    environ = {"CSCONFIG_PATH": "/env/config_v2"}

    assert config_path(Path("/flag/config_v2"), environ) == Path("/flag/config_v2")
    assert config_path(None, environ) == Path("/env/config_v2")
    assert config_path(None, {}) == DEFAULT_PATH


def test_the_only_session_is_taken_and_gives_the_authority_its_first_label() -> None:
    access = access_to(config_document("10.0.0.1:9000", certificate=PEM))

    assert access.namespace == "job-operator"
    assert access.authority == f"job-operator.{AUTHORITY}"
    assert access.certificate == PEM


def test_one_of_several_sessions_must_be_named() -> None:
    document = config_document("10.0.0.1:9000", certificate=PEM, sessions=("red", "blue"))

    assert access_to(document, "blue").authority == f"blue.{AUTHORITY}"
    with pytest.raises(UserError, match="2 sessions: red, blue"):
        access_to(document)
    with pytest.raises(UserError, match="Session 'green' is not in config file"):
        access_to(document, "green")


def test_a_certificate_may_be_in_a_file(tmp_path: Path) -> None:
    document = config_document("10.0.0.1:9000", certificate=PEM)
    (tmp_path / "ca.pem").write_bytes(b"from a file")
    session = document["clusters"][0]["namespaces"][0]
    del session["certificateAuthorityData"]
    session["certificateAuthority"] = str(tmp_path / "ca.pem")

    assert access_to(document).certificate == b"from a file"

    session["certificateAuthority"] = str(tmp_path / "none.pem")
    with pytest.raises(UserError, match=r"none\.pem .* cannot be read"):
        access_to(document)

    del session["certificateAuthority"]
    with pytest.raises(UserError, match="neither certificateAuthorityData nor"):
        access_to(document)


@pytest.mark.parametrize("server", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000"])
def test_plain_text_is_for_loopback(server: str) -> None:
    access = access_to(config_document(server))

    assert access.certificate is None
    assert access.namespace == "job-operator"


@pytest.mark.parametrize("server", ["10.0.0.1:9000", "cluster:9000", "localhost.example.com:9000"])
def test_plain_text_elsewhere_is_refused(server: str) -> None:
    with pytest.raises(UserError, match="plain text is for loopback only"):
        access_to(config_document(server))


@pytest.mark.parametrize("key", ["currentContext", "contexts", "clusters"])
def test_a_missing_key_is_named(key: str) -> None:
    document = config_document("localhost:9000")
    del document[key]

    with pytest.raises(UserError, match=f"lacks the key '{key}'"):
        access_to(document)


def test_a_certificate_that_is_not_base64_is_refused() -> None:
    document = config_document("localhost:9000", certificate=PEM)
    document["clusters"][0]["namespaces"][0]["certificateAuthorityData"] = "%%%"

    with pytest.raises(UserError, match="not base64"):
        access_to(document)


@pytest.mark.parametrize(("text", "want"), [("{", "is not JSON"), ("[]", "not a JSON object")])
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "config_v2"
    path.write_text(text)

    with pytest.raises(UserError, match=want):
        load_document(path)


def test_a_missing_file_is_named_with_the_ways_to_name_another(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file") as caught:
        load_document(tmp_path / "config_v2")

    assert "--csconfig or CSCONFIG_PATH" in caught.value.hint


def test_certificates_are_left_out_of_what_is_shown(tmp_path: Path) -> None:
    document = load_document(
        write_config(tmp_path / "c", config_document("localhost:1", certificate=PEM))
    )
    shown = without_certificates(document)

    assert shown["clusters"][0]["namespaces"][0]["certificateAuthorityData"] == "OMITTED"
    assert document["clusters"][0]["namespaces"][0]["certificateAuthorityData"] != "OMITTED"


def test_a_session_without_a_certificate_is_plain_text_and_leaves_the_name_to_the_cluster() -> None:
    document = config_document("localhost:9000", certificate=PEM, sessions=("job-operator",))
    document["clusters"][0]["namespaces"][0]["certificateAuthorityData"] = ""
    assert access_to(document).namespace == "job-operator"
    assert access_to(document).certificate is None
    assert access_to(document, "team").namespace == "team"


def test_without_a_flag_or_a_variable_the_users_own_appliance_is_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    own = data / "wafer-appliance" / "config_v2"
    environ = {"XDG_DATA_HOME": str(data), "HOME": str(tmp_path)}
    usual = Path("/opt/cerebras/config_v2")
    assert config_path(None, environ) == usual
    own.parent.mkdir(parents=True)
    own.touch()
    if not usual.exists():
        assert config_path(None, environ) == own
    assert config_path(None, {**environ, "CSCONFIG_PATH": "/x"}) == Path("/x")
    assert config_path(Path("/y"), environ) == Path("/y")
    assert read_settings_in(environ).data_dir == own.parent, "`appliance up` writes it there"


def read_settings_in(environ: dict[str, str]) -> Settings:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        return read_settings()
