"""A whole appliance whose state is in PostgreSQL: jobs, queue, users, tokens, and a restart."""

import re
import signal
import subprocess
import sys

import pytest
from sqlalchemy import create_engine, text

from tests.support.appliance_process import run_command, running_appliance, wait_for
from tests.support.files import put
from tests.support.postgres import reason_to_skip, running_postgres
from tests.support.rest import mint, rest_client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip()),
]


@pytest.fixture(scope="module")
def url():
    with running_postgres() as template:
        server = create_engine(template.format(name="postgres"), isolation_level="AUTOCOMMIT")
        with server.connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE appliance")
        server.dispose()
        yield template.format(name="appliance")


def names_in(url, query):
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return {row[0] for row in connection.execute(text(query))}
    finally:
        engine.dispose()


def test_jobs_users_and_tokens_of_an_appliance_are_in_postgresql(url, tmp_path):
    data = tmp_path / "data"
    arguments = ("--database", url, "--systems", "1", "--lease-seconds", "900")
    with running_appliance(data, *arguments) as appliance, rest_client(appliance) as rest:
        assert not (data / "state.db").exists()
        assert (data / "database.url").stat().st_mode & 0o777 == 0o600

        running, waiting = appliance.submit_execute(), appliance.submit_execute()
        assert appliance.wait_ready(running)[-1].is_ready
        wait_for(lambda: rest.get(f"jobs/{waiting}/waiting").json())
        assert names_in(url, "SELECT id FROM jobs") == {running, waiting}

        token = mint(appliance, "bob", "--uid", "1001", "--gid", "200")
        with rest_client(appliance, token) as bob:
            assert bob.post(f"jobs/{waiting}/hold").status_code == 403
        made = run_command("user", "create", "eve", "--uid", "1003", "--data-dir", str(data))
        assert made.returncode == 0, made.stderr
        assert names_in(url, "SELECT name FROM users") >= {"bob", "eve"}
        assert not (data / "state.db").exists()

        appliance.kill_management()
        appliance.up()
        with rest_client(appliance, token) as bob:
            assert bob.get(f"jobs/{running}").json()["phase"] == "RUNNING"
        put(appliance.runtime_dir(running) / "exit", "0")
        assert appliance.wait_ready(waiting)[-1].is_ready
        with rest_client(appliance) as again:
            wait_for(lambda: again.get(f"jobs/{running}").json()["phase"] == "SUCCEEDED")
            assert again.post(f"jobs/{waiting}/cancel").status_code == 202
            wait_for(lambda: again.get(f"jobs/{waiting}").json()["phase"] == "CANCELLED")


def test_a_management_in_the_foreground_waits_for_a_database_that_starts_later(url, tmp_path):
    later = re.sub(r"/appliance\?", "/later?", url)
    up = (sys.executable, "-m", "appliance", "up", "--foreground", "--port", "0")
    with subprocess.Popen(
        [*up, "--rest-port", "0", "--data-dir", str(tmp_path / "data"), "--database", later],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as management:
        try:
            seen = next(line for line in management.stderr if "does not answer yet" in line)
            assert 'database "later" does not exist' in seen
            server = create_engine(url, isolation_level="AUTOCOMMIT")
            with server.connect() as connection:
                connection.exec_driver_sql("CREATE DATABASE later")
            server.dispose()
            assert any("Appliance is up" in line for line in management.stderr)
            management.send_signal(signal.SIGTERM)
            management.stderr.read()
            assert management.wait() == 0
        finally:
            management.kill()


def test_a_database_that_does_not_answer_is_named_and_so_is_what_to_do(tmp_path):
    nowhere = f"postgresql+psycopg://nobody@/none?host={tmp_path}"
    up = ("up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--rest-port", "0")
    answer = run_command(*up, "--database", nowhere)
    assert answer.returncode != 0
    assert "The database cannot be opened" in answer.stderr
    assert "See that the server runs" in answer.stderr
    assert "Traceback" not in answer.stderr
    misspelt = run_command(*up, "--database", "postgres/name")
    assert "The database's URL is not understood" in misspelt.stderr
