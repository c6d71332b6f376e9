import os
from pathlib import Path

import pytest

from appliance.core.errors import UserError
from csctl.connection.identity import Identity, current_user


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


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_user_node_may_have_a_program_that_prints_the_token(tmp_path: Path) -> None:
    prints = program(tmp_path / "token", "echo Token=abc.def")
    assert current_user({}, token_program=prints).token == "abc.def"
    assert current_user({"CSAUTH_TOKEN": "mine"}, token_program=prints).token == "mine"


def test_a_program_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    fails = program(tmp_path / "token", "echo no ticket >&2; exit 3")
    with pytest.raises(UserError, match="gives no token: no ticket"):
        current_user({}, token_program=fails)
