"""REST of a running appliance: jobs, changes, who may do what, and what browsers are told."""

import hashlib
import io
import os
import zipfile

import grpc
import pytest

from protos.cluster import cluster_pb2 as pb
from tests.support.appliance_process import USER, running_appliance, wait_for
from tests.support.rest import mint, rest_client


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--lease-seconds", "900") as running:
        yield running


@pytest.fixture(scope="module")
def rest(appliance):
    with rest_client(appliance) as client:
        yield client


@pytest.fixture(scope="module")
def job(appliance):
    """A job of ada's that runs, as everybody may see it."""
    job = appliance.submit_execute()
    appliance.wait_ready(job)
    return job


@pytest.fixture(scope="module")
def bob(appliance):
    token = mint(appliance, "bob", "--uid", "1001", "--gid", "200")
    with rest_client(appliance, token) as client:
        yield client


def problem_of(answer) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    return body["detail"]


def test_a_job_is_told_with_its_phases_pods_and_events(rest, job):
    answer = rest.get(f"jobs/{job}")
    body = answer.json()
    assert answer.headers["etag"] == f'"{body["mark"]}"'
    assert (body["user"], body["uid"], body["gid"]) == ("ada", 1000, 100)
    assert [span["phase"] for span in body["phases"]][:3] == ["CREATED", "QUEUED", "SCHEDULED"]
    assert body["phases"][0]["left_at"] == body["phases"][1]["entered_at"]
    assert {pod["role"] for pod in body["pods"]} >= {"coordinator", "chief", "weight"}
    assert rest.get(f"jobs/{job}/pods").json()["items"] == body["pods"]
    assert rest.get(f"jobs/{job}/events").json()["items"][0]["reason"] == "JobCreated"
    assert rest.get(f"jobs/{job}/waiting").json() is None
    assert rest.get(f"jobs/{job}/configuration").json()["job_mode"]["job"] == "EXECUTE"


def test_lists_come_in_pages_that_hold_each_job_once(appliance, rest, job):
    jobs = {appliance.submit_execute() for _ in range(5)}
    wait_for(lambda: rest.get("queue").json()["total"] == 5, what="a queue of five")
    for order in ("priority", "reversed", "newest", "oldest"):
        seen, cursor = [], ""
        while cursor is not None:
            parameters = {"limit": 2, "order": order, "cursor": cursor, "with_total": True}
            page = rest.get("jobs", params=parameters).json()
            seen += [item["id"] for item in page["items"]]
            cursor = page["next"]
        assert len(seen) == len(set(seen)) == page["total"]
        assert jobs | {job} <= set(seen)
    waiting = rest.get("jobs", params={"phase": "QUEUED", "user": "ada", "mine": False}).json()
    assert {item["id"] for item in waiting["items"]} == jobs
    explained = rest.get(f"jobs/{min(jobs)}/waiting").json()
    assert explained["blocking"] == [job]
    queue = rest.get("queue", params={"limit": 3}).json()
    assert [item["waiting"]["position"] for item in queue["items"]] == [1, 2, 3]
    assert queue["total"] == 5
    following = rest.get("queue", params={"cursor": queue["next"]}).json()["items"]
    assert {item["job"]["id"] for item in queue["items"] + following} == jobs
    for waiting_job in jobs:
        assert rest.post(f"jobs/{waiting_job}/cancel").status_code == 202
    wait_for(lambda: len(rest.get("jobs").json()["items"]) == 1)
    assert rest.get("jobs", params={"all_states": True, "text": min(jobs)}).json()["items"]


def test_a_change_for_an_older_state_is_refused(rest, job):
    etag = rest.get(f"jobs/{job}").headers["etag"]
    changed = rest.patch(
        f"jobs/{job}", json={"labels": {"model": "gpt"}}, headers={"if-match": etag}
    )
    assert changed.json()["labels"] == {"model": "gpt"}
    assert changed.headers["etag"] != etag
    lost = rest.patch(f"jobs/{job}", json={"labels": {"a": "b"}}, headers={"if-match": etag})
    assert lost.status_code == 412
    assert "has changed" in problem_of(lost)
    fresh = {"if-match": changed.headers["etag"]}
    body = {"labels": {"model": None}, "priority": "p1"}
    got = rest.patch(f"jobs/{job}", json=body, headers=fresh).json()
    assert (got["labels"], got["priority"]) == ({}, 199)
    assert rest.get("jobs", params={"label": "model=gpt"}).json()["items"] == []


def test_a_waiting_job_is_held_and_released(appliance, rest, bob, job):
    waiting = appliance.submit_execute()
    wait_for(lambda: rest.get(f"jobs/{waiting}/waiting").json())
    assert bob.post(f"jobs/{waiting}/hold").status_code == 403
    body = rest.post(f"jobs/{waiting}/hold").json()
    assert body["waiting"]["kind"] == "Held"
    assert f"held by {body['held_by']}" in body["waiting"]["reason"]
    assert rest.post(f"jobs/{waiting}/hold").status_code == 409
    assert rest.post(f"jobs/{waiting}/release").json()["waiting"]["kind"] == "Resources"
    assert "is not held" in problem_of(rest.post(f"jobs/{waiting}/release"))
    assert "only what waits" in problem_of(rest.post(f"jobs/{job}/hold"))
    rest.post(f"jobs/{waiting}/cancel")
    wait_for(lambda: rest.get(f"jobs/{waiting}").json()["phase"] == "CANCELLED")


def test_a_script_is_run_detached(appliance, rest, tmp_path):
    body = {
        "argv": ["sh", "-c", "echo $GREETING from $PWD"],
        "work_dir": str(tmp_path),
        "environment": {"GREETING": "hello", "PATH": os.environ["PATH"]},
        "labels": {"name": "greeter"},
        "git_commit": "0" * 40,
        "is_dirty": True,
    }
    sent = rest.post("jobs/detached", json=body)
    assert sent.status_code == 201, sent.text
    run = sent.json()["job"]
    wait_for(lambda: rest.get(f"jobs/{run}").json()["phase"] == "SUCCEEDED")
    shown = rest.get(f"jobs/{run}").json()
    assert (shown["type"], shown["labels"]) == ("driver", {"name": "greeter"})
    assert rest.get(f"jobs/{run}/logs/driver-0").text == f"hello from {tmp_path}\n"
    shown = rest.get(f"runs/{sent.json()['workflow']}").json()
    assert (shown["git_commit"], shown["is_dirty"]) == ("0" * 40, True)
    never = {**body, "restart": {"on": ["user"], "limit": 1}}
    assert "own error" in problem_of(rest.post("jobs/detached", json=never))
    far = problem_of(rest.post("jobs/detached", json={**body, "num_systems": 9}))
    assert far == "The run asks for 9 systems; the cluster has 1."


def test_an_archive_of_logs_is_gathered_and_downloaded(rest, bob, job):
    export = rest.post(f"jobs/{job}/log-exports", json={"tasks": ["coordinator"]}).json()
    wait_for(lambda: rest.get(f"log-exports/{export['id']}").json()["status"] != "running")
    done = rest.get(f"log-exports/{export['id']}").json()
    assert (done["status"], done["job"]) == ("completed", job)
    answer = rest.get(f"log-exports/{export['id']}/archive")
    assert answer.headers["content-type"] == "application/zip"
    assert hashlib.sha256(answer.content).hexdigest() == done["sha256"]
    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    root = f"log-export-{job}-{export['id'].removeprefix('export-')[:8]}"
    assert f"{root}/events.txt" in names
    assert bob.get(f"log-exports/{export['id']}/archive").status_code == 403
    assert rest.get("log-exports/export-0000000000000000").status_code == 404
    assert "no pods of role" in problem_of(
        rest.post(f"jobs/{job}/log-exports", json={"tasks": ["cook"]})
    )


def test_the_topology_of_a_job_names_its_pods_and_systems(rest, job):
    items = rest.get(f"jobs/{job}/topology").json()["items"]
    assert {item["pod"] for item in items} == {
        pod["name"] for pod in rest.get(f"jobs/{job}/pods").json()["items"]
    }
    (chief,) = (item for item in items if item["pod"] == f"{job}-chief-0")
    assert chief["systems"] == rest.get(f"jobs/{job}").json()["systems"]


def test_the_cluster_file_is_read_changed_and_not_by_two_at_a_time(rest, bob, job):
    got = rest.get("cluster/file")
    assert got.headers["content-type"].startswith("application/yaml")
    headers = {"content-type": "application/yaml", "if-match": got.headers["etag"]}
    larger = got.text.replace("systems:\n", "systems:\n- name: spare\n", 1)
    assert bob.put("cluster/file", content=larger, headers=headers).status_code == 403
    put = rest.put("cluster/file", content=larger, headers=headers)
    assert put.status_code == 200, put.text
    assert "spare" in {each["name"] for each in rest.get("cluster").json()["systems"]}
    assert "has changed" in problem_of(rest.put("cluster/file", content=larger, headers=headers))
    nothing = {"content-type": "application/yaml"}
    (held,) = rest.get(f"jobs/{job}").json()["systems"]
    without = larger.replace(f"- name: {held}\n", "")
    assert rest.put("cluster/file", content=without, headers=nothing).status_code == 409
    assert rest.put("cluster/file", content="a: [", headers=nothing).status_code == 400
    back = rest.put("cluster/file", content=got.text, headers=nothing)
    assert back.text == got.text


def test_what_happens_to_systems_is_listed(rest):
    (name,) = (each["name"] for each in rest.get("cluster").json()["systems"])
    rest.patch(f"systems/{name}", json={"is_healthy": True, "notes": "seen to"})
    items = rest.get("system-events", params={"system": name}).json()["items"]
    assert items[-1]["kind"] == "state-change"
    assert (items[-1]["details"]["state"], items[-1]["note"]) == ("healthy", "seen to")
    assert rest.get("system-events", params={"kind": "stall"}).json()["items"] == []


def test_a_plan_says_what_would_become_of_a_request(rest, job):
    assert rest.post("queue/plan", json={"num_systems": 0}).json()["starts_now"]
    waits = rest.post("queue/plan", json={"num_systems": 1}).json()
    assert waits["waiting"]["blocking"] == [job]
    assert "2 system" in rest.post("queue/plan", json={"num_systems": 2}).json()["refusal"]


def test_sessions_are_created_changed_at_their_version_and_deleted(rest, bob):
    assert rest.post("sessions", json={"name": "a", "num_systems": 9}).status_code == 400
    dry = rest.post("sessions", params={"dry_run": True}, json={"name": "team-a"})
    assert dry.status_code == 201
    assert rest.get("sessions/team-a").status_code == 404
    rest.post("sessions", json={"name": "team-a", "members": ["ada"]})
    etag = rest.get("sessions/team-a").headers["etag"]
    changed = rest.patch("sessions/team-a", json={"shares": 2}, headers={"if-match": etag})
    assert changed.json()["shares"] == 2
    stale = rest.patch("sessions/team-a", json={"shares": 3}, headers={"if-match": etag})
    assert stale.status_code == 412
    assert bob.patch("sessions/team-a", json={"is_paused": True}).status_code == 403
    shown = rest.get("sessions/team-a").json()
    assert (shown["spec"]["shares"], shown["spec"]["members"]) == (2, ["ada"])
    assert "shares: 1.0 -> 2.0" in shown["history"][-1]["message"]
    assert rest.delete("sessions/team-a").status_code == 204
    assert [item["name"] for item in rest.get("sessions").json()["items"]] == ["job-operator"]


def test_a_session_is_paused_by_its_administrator_who_changes_nothing_else(appliance):
    token = mint(
        appliance,
        *("sue", "--uid", "1010", "--role", "session-admin", "--session", "job-operator"),
    )
    with rest_client(appliance, token) as sue:
        paused = sue.patch("sessions/job-operator", json={"is_paused": True})
        assert paused.json()["is_paused"]
        assert sue.patch("sessions/job-operator", json={"shares": 3}).status_code == 403
        assert sue.patch("sessions/job-operator", json={"is_paused": False}).status_code == 200


def test_systems_are_drained_at_their_version_and_sent_to_maintenance(rest, bob, job):
    system = rest.get(f"jobs/{job}").json()["systems"][0]
    shown = rest.get(f"systems/{system}")
    assert shown.json()["job"] == job
    drained = rest.patch(
        f"systems/{system}",
        json={"state": "drain", "notes": "fan"},
        headers={"if-match": shown.headers["etag"]},
    )
    assert (drained.json()["state"], drained.json()["notes"]) == ("drain", "fan")
    stale = {"if-match": shown.headers["etag"]}
    assert rest.patch(f"systems/{system}", json={"state": "up"}, headers=stale).status_code == 412
    assert bob.patch(f"systems/{system}", json={"state": "up"}).status_code == 403
    rest.patch(f"systems/{system}", json={"state": "up", "is_healthy": True})
    plan = {"systems": [system], "starts_at": "2999-01-01T00:00:00Z", "seconds": 60}
    assert rest.post("maintenance", json=plan, params={"dry_run": True}).status_code == 201
    assert rest.get("maintenance").json()["items"] == []
    made = rest.post("maintenance", json=plan).json()["items"][0]
    assert rest.post("maintenance", json=plan).status_code == 409
    assert rest.delete(f"maintenance/{made['id']}").status_code == 204
    assert [item["name"] for item in rest.get("cluster").json()["systems"]] == [system]


def test_what_cannot_be_done_is_a_problem_with_a_sentence(rest, job):
    assert "no job 'wsjob-x'" in problem_of(rest.get("jobs/wsjob-x"))
    assert rest.get("jobs", params={"cursor": "%%%"}).status_code == 400
    assert rest.get("jobs", params={"limit": 0}).status_code == 422
    for selector in ("x=y", "x in (a,y)", "x", "!z", "x!=z"):
        assert rest.get("jobs", params={"label": selector}).status_code == 200, selector
    for selector in ("x y", "x>1", "x in y", "=", ""):
        for path in ("jobs", "runs"):
            assert "not understood" in problem_of(rest.get(path, params={"label": selector}))
    assert "no such parameter" in problem_of(rest.get("runs", params={"lable": "x=y"}))
    assert rest.patch(f"jobs/{job}", json={"priority": "p9"}).status_code == 400
    assert rest.patch(f"jobs/{job}", json={"owner": "eve"}).status_code == 422
    assert rest.delete(f"jobs/{job}").status_code == 409
    assert rest.get(f"jobs/{job}/profile").status_code == 404
    assert problem_of(rest.get("nothing/here")) == "There is nothing at /api/v1/nothing/here."
    assert problem_of(rest.post("cluster")) == "Method Not Allowed"


def test_another_users_job_may_be_seen_and_not_changed(rest, bob, job):
    assert bob.get(f"jobs/{job}").status_code == 200
    for refused in (
        bob.post(f"jobs/{job}/cancel"),
        bob.patch(f"jobs/{job}", json={"labels": {"x": "y"}}),
        bob.patch(f"jobs/{job}", json={"priority": "p3"}),
        bob.get(f"jobs/{job}/configuration"),
        bob.get("users"),
        bob.get("audit"),
        bob.post("tokens", json={"user": "ada"}),
    ):
        assert refused.status_code == 403
        assert "User bob (uid 1001) may not" in problem_of(refused)
    audit = rest.get("audit", params={"user": "bob", "limit": 2}).json()
    assert audit["items"][0]["problem"].startswith("User bob")
    rest_of_it = rest.get("audit", params={"user": "bob", "cursor": audit["next"]}).json()
    names = [entry["name"] for entry in audit["items"] + rest_of_it["items"]]
    assert names.count(job) == 3


def test_grpc_follows_the_same_rules(appliance, rest, job):
    eve = (("auth-uid", "1002"), ("auth-gid", "300"), ("auth-username", "eve"))
    with pytest.raises(grpc.RpcError) as caught:
        appliance.cluster.CancelJobV2(pb.CancelJobRequest(job_id=job), metadata=eve)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "eve (uid 1002)" in caught.value.details()
    metadata = (*USER, ("auth-token", "nonsense"))
    with pytest.raises(grpc.RpcError) as caught:
        appliance.cluster.GetJob(pb.GetJobRequest(job_id=job), metadata=metadata)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    last = rest.get("audit", params={"user": "eve"}).json()["items"][0]
    assert (last["door"], last["action"], last["detail"]) == ("grpc", "end-job", "CancelJobV2")


def test_a_blocked_user_cannot_submit_until_unblocked(appliance, rest):
    created = rest.post("users", json={"name": "ada", "uid": 1000, "gid": 100})
    assert created.status_code == 201
    rest.patch("users/ada", json={"is_blocked": True})
    with pytest.raises(grpc.RpcError, match="is blocked"):
        appliance.submit_compile()
    rest.patch("users/ada", json={"is_blocked": False})
    appliance.submit_compile()
    assert rest.delete("users/ada").status_code == 204


def test_a_login_changes_things_only_with_its_proof(appliance):
    token = mint(appliance, "root", "--uid", "0", "--role", "cluster-admin")
    with rest_client(appliance) as browser:
        me = browser.post("login", json={"token": token})
        cookie = me.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert me.json()["role"] == "cluster-admin"
        proof = me.json()["csrf_token"]
        assert browser.get("me").json() == me.json()
        new = {"name": "zoe", "uid": 1009, "gid": 1009}
        assert "x-csrf-token" in problem_of(browser.post("users", json=new))
        assert browser.post("users", json=new, headers={"x-csrf-token": proof}).status_code == 201
        assert browser.delete("users/zoe", headers={"x-csrf-token": proof}).status_code == 204
        assert browser.post("logout", headers={"x-csrf-token": proof}).status_code == 204
        assert browser.get("me").json()["csrf_token"] == ""
        assert browser.post("login", json={"token": "nonsense"}).status_code == 401


def test_pages_of_other_sites_are_refused(rest, job):
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "null"},
    ):
        assert rest.post(f"jobs/{job}/cancel", headers=headers).status_code == 403
    assert rest.get("jobs", headers={"host": "evil.example"}).status_code == 421
    assert rest.post("login", content=b"x" * (2 << 20)).status_code == 413


def test_browsers_are_told_to_be_careful(rest):
    headers = rest.get("jobs").headers
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_with_tokens_every_call_carries_one(tmp_path):
    with running_appliance(tmp_path / "data", "--tokens", "--tls") as appliance:
        with rest_client(appliance) as stranger:
            refused = stranger.get("jobs")
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert "wants a token" in problem_of(refused)
        token = mint(appliance, "ada", "--uid", "1000", "--gid", "100")
        with rest_client(appliance, token) as ada:
            assert ada.get("me").json()["name"] == "ada"
            assert ada.get("jobs").headers["strict-transport-security"]
