"""Proxy variables, as sites export them before any command."""

from pathlib import Path

import pytest

from csctl.connection.config import ClusterAccess
from csctl.connection.errors import _proxy_hint


def access(server: str) -> ClusterAccess:
    return ClusterAccess(
        cluster="c",
        server=server,
        namespace="job-operator",
        authority="",
        certificate=None,
        source=Path("config_v2"),
    )


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy"])
def test_a_call_that_goes_through_a_proxy_says_so_when_it_fails(variable: str) -> None:
    hint = _proxy_hint(access("cluster.site:443"), {variable: "http://proxy:3128"})

    assert f"the proxy of {variable}, http://proxy:3128" in hint
    assert "add cluster.site to no_proxy" in hint


def test_without_a_proxy_or_on_loopback_there_is_nothing_to_say() -> None:
    proxies = {"https_proxy": "http://proxy:3128"}

    assert _proxy_hint(access("cluster.site:443"), {"https_proxy": ""}) == ""
    assert _proxy_hint(access("localhost:9000"), proxies) == ""
