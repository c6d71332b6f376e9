"""Each client is answered as a cluster of its own release would answer."""

import pytest

from appliance.management.store.versions import CLIENT_BUILDS, NEWEST_CLIENT, client_build


@pytest.mark.parametrize("release", CLIENT_BUILDS)
def test_a_served_release_is_told_its_own_build(release: str) -> None:
    assert client_build(release) == (release, CLIENT_BUILDS[release])


def test_a_caller_without_a_release_is_told_the_newest_build() -> None:
    assert client_build("") == (NEWEST_CLIENT, CLIENT_BUILDS[NEWEST_CLIENT])


@pytest.mark.parametrize("release", ["2.5.0", "2.10.1", "2.10.0rc1", "3"])
def test_another_release_is_told_all_that_are_served(release: str) -> None:
    version, githash = client_build(release)
    assert version == "2.6.0, 2.7.0, 2.7.1, 2.8.0, 2.9.0 or 2.10.0"
    assert githash == CLIENT_BUILDS[NEWEST_CLIENT]
