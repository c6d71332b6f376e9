"""A pod's server for its client speaks TLS exactly if the pod has a certificate and its key."""

import pytest

from appliance.pods.served_pod import listen_behind_front


class Server:
    """Keeps what it was asked to listen with."""

    def add_insecure_port(self, address):
        self.asked = ("plain", address)

    def add_secure_port(self, address, credentials):
        self.asked = ("tls", address)


@pytest.fixture
def pair(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    key.write_text("key")
    cert.write_text("cert")
    return cert, key


def test_a_pod_with_a_certificate_encrypts_its_clients_port(pair, tmp_path):
    server, (cert, key) = Server(), pair
    assert listen_behind_front(server, tmp_path / "s", tls_cert=cert, tls_key=key)
    assert server.asked == ("tls", f"unix:{tmp_path}/s")


def test_a_pod_without_a_key_listens_in_plain_text(pair, tmp_path):
    server, (cert, _) = Server(), pair
    assert not listen_behind_front(server, tmp_path / "s", tls_cert=cert, tls_key=None)
    assert server.asked == ("plain", f"unix:{tmp_path}/s")


def test_a_certificate_that_cannot_be_read_leaves_nothing_listening(pair, tmp_path):
    server, (_, key) = Server(), pair
    with pytest.raises(FileNotFoundError):
        listen_behind_front(server, tmp_path / "s", tls_cert=tmp_path / "gone.pem", tls_key=key)
    assert not hasattr(server, "asked")
