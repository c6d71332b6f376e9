"""Who calls, as the metadata of the clients of all releases say."""

import pytest

from appliance.wire.caller import caller

AGENT = "2.6.0-202506211141-14-0c2f21fd+0c2f21fdef (csctl:linux/amd64) grpc-go/1.47.0"


@pytest.mark.parametrize(
    ("metadata", "release"),
    [
        ({"client-build-version": "2.9.0+e2e12a41a8"}, "2.9.0"),
        ({"client-build-version": "2.10.0"}, "2.10.0"),
        ({"client-build-version": "2.9.0-202512242343-6-e2e12a41+e2e12a41a8"}, "2.9.0"),
        ({"user-agent": AGENT}, "2.6.0"),
        ({"user-agent": AGENT, "client-build-version": "2.8.0+56f21b7ebd"}, "2.8.0"),
        ({"user-agent": "grpc-python/1.51.1 grpc-c/29.0.0 (linux; chttp2)"}, ""),
        ({"client-build-version": "2.9.0-rc1"}, "2.9.0-rc1"),
        ({"client-build-version": "2.9.0 or so"}, ""),
        ({}, ""),
    ],
)
def test_a_client_and_the_csctl_of_a_release_say_which_release_they_are(metadata, release):
    assert caller(metadata.items()).client_release == release


def test_the_csctl_of_a_release_names_its_session_with_every_call():
    found = caller([("resource-namespace", "team")])
    assert (found.session_of_lists, found.session_of_object, found.session) == ("team", "team", "")


def test_our_csctl_names_a_session_for_the_object_alone():
    found = caller([("wsc-session-of-object", "team")])
    assert (found.session_of_lists, found.session_of_object) == ("", "team")
