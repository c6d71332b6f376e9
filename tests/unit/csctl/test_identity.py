import os

from csctl.identity import Identity, current_user


def test_metadata_has_the_keys_of_the_python_client() -> None:
    user = Identity(uid=7, gid=8, username="alice", token="t")

    assert dict(user.metadata(build_version="0.1.0")) == {
        "auth-uid": "7",
        "auth-gid": "8",
        "auth-username": "alice",
        "auth-token": "t",
        "workflow-id": "",
        "client-build-version": "0.1.0",
        "client-semantic-version": "1.14.0",
    }


def test_the_token_comes_from_the_environment() -> None:
    assert current_user({"CSAUTH_TOKEN": "abc"}).token == "abc"
    assert current_user({}).token == ""
    assert current_user({}).uid == os.getuid()
