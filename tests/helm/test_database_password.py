"""What the chart has the bundled database do about its password, done to a real PostgreSQL."""

import base64
import hashlib
import hmac
import os
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.support.helm import Helm, Settings
from tests.support.postgres import find_programs, reason_to_skip, running_postgres

pytestmark = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())


def is_password(verifier: str, password: str) -> bool:
    """Return whether PostgreSQL would let somebody in by a password (RFC 5802, 7677)."""
    _, salted, keys = verifier.split("$")
    count, salt = salted.split(":")
    stored = base64.b64decode(keys.split(":")[0])
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(count))
    return hashlib.sha256(hmac.digest(key, b"Client Key", "sha256")).digest() == stored


@pytest.mark.parametrize("wants", ["trust", "scram-sha-256", "reject"])
@pytest.mark.parametrize("password", ["first", 'it\'s "$second" `3`\\'])
def test_the_secret_says_what_the_password_is_whenever_the_database_starts(
    helm: Helm, password: str, wants: str
) -> None:
    """Whatever the image's database wants of those who come by its socket."""
    objects = helm.template(Settings())
    (database,) = [each for each in objects if each["kind"] == "StatefulSet"]
    (container,) = database["spec"]["template"]["spec"]["containers"]
    command = container["lifecycle"]["postStart"]["exec"]["command"]
    programs = find_programs()
    assert programs is not None
    with running_postgres() as url:
        socket = parse_qs(urlsplit(url).query)["host"][0]
        owner = Path(socket).owner()
        with psycopg.connect(f"host={socket} user={owner} dbname=postgres") as session:
            session.execute("CREATE ROLE \"a user\" LOGIN SUPERUSER PASSWORD 'of an earlier day'")
            (Path(socket) / "data/pg_hba.conf").write_text(f"local all all {wants}\n")
            session.execute("SELECT pg_reload_conf()")
        here = [word.replace("/var/run/postgresql", socket) for word in command]
        variables = {"POSTGRES_USER": "a user", "POSTGRES_DB": "postgres"}
        variables["PGDATA"] = f"{socket}/data"
        subprocess.run(
            here,
            env={"PATH": f"{programs}:{os.environ['PATH']}", "POSTGRES_PASSWORD": password}
            | variables,
            check=True,
            timeout=300,
        )
        with psycopg.connect(f"host={socket} user={owner} dbname=postgres") as session:
            query = "SELECT rolpassword FROM pg_authid WHERE rolname = 'a user'"
            row = session.execute(query).fetchone()
    assert row is not None
    assert is_password(row[0], password)
    assert not is_password(row[0], "of an earlier day")
