"""A running appliance tells real servers of HTTP and SMTP what becomes of jobs."""

import email
import json
import queue
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from protos.cluster import cluster_pb2 as pb
from tests.support.appliance_process import USER, execute_request, running_appliance, wait_for
from tests.support.ports import free_port
from tests.support.rest import rest_client

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

SECRET = "T0KEN-that-nobody-may-read"


class Hooks(ThreadingHTTPServer):
    """Webhooks: `/busy...` refuses the first call with 503, `/gone...` every call with 404."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Hook)
        self.calls = queue.Queue()
        self._refused, self._lock = set(), threading.Lock()
        self.is_open = threading.Event()

    def is_first(self, path):
        """Return whether a path has not been called before."""
        with self._lock:
            is_first = path not in self._refused
            self._refused.add(path)
        return is_first

    @property
    def root(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status = 200
        if self.path.startswith("/hang"):
            self.server.is_open.wait(600)
        if self.path.startswith("/gone"):
            status = 404
        if self.path.startswith("/busy") and self.server.is_first(self.path):
            status = 503
        self.server.calls.put((self.path, status, body))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *arguments):
        pass


class Inbox:
    """Takes mail from whoever logs in as ada; refuses recipients at `nowhere`."""

    def __init__(self):
        self.letters = queue.Queue()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.endswith("@nowhere.example"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.letters.put((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
        return "250 OK"


def _login(server, session, envelope, mechanism, auth_data):
    is_ada = (auth_data.login, auth_data.password) == (b"ada", SECRET.encode())
    return AuthResult(success=is_ada)


@contextmanager
def serving(hooks):
    thread = threading.Thread(target=hooks.serve_forever, daemon=True)
    thread.start()
    try:
        yield hooks
    finally:
        hooks.is_open.set()
        hooks.shutdown()
        hooks.server_close()
        thread.join()


@pytest.fixture(scope="module")
def hooks():
    with serving(Hooks()) as server:
        yield server


@pytest.fixture(scope="module")
def inbox():
    taken = Inbox()
    controller = Controller(
        taken,
        hostname="127.0.0.1",
        port=free_port(),
        authenticator=_login,
        auth_required=True,
        auth_require_tls=False,
        ready_timeout=120,
    )
    controller.start()
    taken.port = controller.port
    yield taken
    controller.stop()


@pytest.fixture(scope="module")
def appliance(tmp_path_factory, hooks, inbox):
    directory = tmp_path_factory.mktemp("notify")
    (directory / "password").write_text(SECRET + "\n")
    settings = {
        "mail": {
            "host": "127.0.0.1",
            "port": inbox.port,
            "sender": "wafer@example.com",
            "user": "ada",
            "password_file": str(directory / "password"),
        },
        "targets": [{"channel": "webhook", "address": f"{hooks.root}/all/{SECRET}"}],
        "allowed_networks": ["127.0.0.0/8"],
        "pagerduty_url": f"{hooks.root}/pagerduty",
        "retry_seconds": 0.2,
    }
    (directory / "notify.yaml").write_text(json.dumps(settings))
    arguments = ("--lease-seconds", "900", "--notify", str(directory / "notify.yaml"))
    with running_appliance(directory / "data", *arguments) as running:
        yield running


def submit(appliance, *targets):
    """Submit a job as the client does that has `notifications` in its cluster config."""
    request = execute_request(1, 1)
    for kind, address, threshold in targets:
        request.user_notifications.add(
            notification_type=kind, target=address, severity_threshold=threshold
        )
    return appliance.cluster.InitExecuteJob(request, metadata=USER).job_id


def cancel(appliance, job):
    appliance.wait_ready(job)
    with rest_client(appliance) as rest:
        assert rest.post(f"jobs/{job}/cancel").status_code == 202


def events(appliance, job, reason):
    with rest_client(appliance) as rest:
        found = rest.get(f"jobs/{job}/events").json()["items"]
    return [event for event in found if event["reason"] == reason]


def test_a_cancelled_job_is_told_of_by_mail_slack_pagerduty_and_webhook(appliance, hooks, inbox):
    job = submit(
        appliance,
        (pb.NOTIFICATION_TYPE_EMAIL, "ada@example.com", 3),
        (pb.NOTIFICATION_TYPE_SLACK, f"{hooks.root}/busy/{SECRET}", 4),
        (pb.NOTIFICATION_TYPE_SLACK, f"{hooks.root}/urgent/{SECRET}", 1),
        (pb.NOTIFICATION_TYPE_PAGERDUTY, SECRET, 3),
    )
    cancel(appliance, job)
    wait_for(lambda: len(events(appliance, job, "Notified")) == 5, what="five notices")

    recipients, letter = inbox.letters.get(timeout=120)
    assert recipients == ["ada@example.com"]
    assert letter["From"] == "wafer@example.com"
    subject = " ".join(letter["Subject"].split())
    assert subject.startswith(f"Execute job {job}")
    assert " of ada was cancelled" in subject
    assert f"{appliance.state.rest_url}/jobs/{job}" in letter.get_payload()

    calls = [hooks.calls.get_nowait() for _ in range(hooks.calls.qsize())]
    by_path = {}
    for path, status, body in calls:
        by_path.setdefault(path.split("/")[1], []).append((status, body))
    assert set(by_path) == {"busy", "pagerduty", "all"}, "the urgent one hears of failures alone"
    assert [status for status, _ in by_path["busy"]] == [503, 200, 200], "tried again, then both"
    assert set(by_path["busy"][0][1]) == {"text"}
    assert any("was cancelled" in body["text"] for _, body in by_path["busy"])
    ((_, incident),) = by_path["pagerduty"]
    assert (incident["routing_key"], incident["dedup_key"]) == (SECRET, job)
    ((_, whole),) = by_path["all"]
    assert (whole["job"], whole["phase"], whole["severity"]) == (job, "CANCELLED", 3)
    assert (whole["alert"], whole["labels"]) == ("", {})


def test_a_target_that_is_gone_is_given_up_and_the_owner_is_told(appliance, hooks):
    job = submit(
        appliance,
        (pb.NOTIFICATION_TYPE_EMAIL, "nobody@nowhere.example", 3),
        (pb.NOTIFICATION_TYPE_SLACK, f"{hooks.root}/gone/{SECRET}", 3),
    )
    cancel(appliance, job)
    wait_for(lambda: len(events(appliance, job, "NotificationFailed")) == 2, what="two failures")
    texts = sorted(event["message"] for event in events(appliance, job, "NotificationFailed"))
    assert "refused the address with 550" in texts[0]
    assert texts[1].endswith("it did not take the notice")
    assert "it answered HTTP 404" in appliance.log()


def test_a_target_that_hangs_holds_up_nobody(appliance, hooks):
    hanging = submit(appliance, (pb.NOTIFICATION_TYPE_SLACK, f"{hooks.root}/hang", 4))
    appliance.wait_ready(hanging)
    job = submit(appliance)  # the only system is busy, so it waits
    with rest_client(appliance) as rest:
        assert rest.post(f"jobs/{job}/cancel").status_code == 202
    wait_for(lambda: events(appliance, job, "Notified"), what="the notice of another job")
    assert not events(appliance, hanging, "Notified")
    hooks.is_open.set()
    wait_for(lambda: events(appliance, hanging, "Notified"), what="the slow answer")
    cancel(appliance, hanging)


def test_a_target_of_the_appliance_itself_gets_nothing_done_there(appliance):
    """Loopback is allowed here; even so management is nobody at its own listeners."""
    victim = submit(appliance)
    appliance.wait_ready(victim)
    address = f"{appliance.state.rest_url}/api/v1/jobs/{victim}/cancel"
    job = submit(appliance, (pb.NOTIFICATION_TYPE_SLACK, address, 4))
    with rest_client(appliance) as rest:
        assert rest.post(f"jobs/{job}/cancel").status_code == 202
        wait_for(lambda: events(appliance, job, "NotificationFailed"), what="a failure")
        assert rest.get(f"jobs/{victim}").json()["phase"] == "RUNNING"
    assert "it answered HTTP 401" in appliance.log()
    cancel(appliance, victim)


def test_secrets_are_in_no_log_and_no_answer(appliance, hooks):
    job = submit(appliance, (pb.NOTIFICATION_TYPE_SLACK, f"{hooks.root}/gone/{SECRET}", 3))
    cancel(appliance, job)
    wait_for(lambda: events(appliance, job, "NotificationFailed"), what="a failure")
    with rest_client(appliance) as rest:
        jobs = rest.get("jobs", params={"all_states": True}).json()["items"]
        assert jobs
        answers = [
            rest.get(f"jobs/{job['id']}{part}").text
            for job in jobs
            for part in ("", "/events", "/configuration")
        ]
    assert SECRET not in "".join(answers)
    assert SECRET not in appliance.log()
