"""A pod's port for its client is encrypted exactly if the pod has a certificate and its key."""

import pytest

from appliance.pods.served_pod import add_client_port


class Server:
    """Keeps what it was asked to listen with."""

    def add_insecure_port(self, address):
        self.asked = ("plain", address)
        return 4001

    def add_secure_port(self, address, credentials):
        self.asked = ("tls", address)
        return 4002


@pytest.fixture
def pair(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    key.write_text("key")
    cert.write_text("cert")
    return cert, key


def test_a_pod_with_a_certificate_encrypts_its_clients_port(pair):
    server, (cert, key) = Server(), pair
    assert add_client_port(server, host="10.0.0.1", tls_cert=cert, tls_key=key) == 4002
    assert server.asked == ("tls", "10.0.0.1:0")


def test_a_pod_without_a_key_listens_in_plain_text(pair):
    server, (cert, _) = Server(), pair
    assert add_client_port(server, host="127.0.0.1", tls_cert=cert, tls_key=None) == 4001
    assert server.asked == ("plain", "127.0.0.1:0")


def test_a_certificate_that_cannot_be_read_leaves_nothing_listening(pair, tmp_path):
    server, (_, key) = Server(), pair
    with pytest.raises(FileNotFoundError):
        add_client_port(server, host="127.0.0.1", tls_cert=tmp_path / "gone.pem", tls_key=key)
    assert not hasattr(server, "asked")
