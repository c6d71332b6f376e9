"""The dashboard in a real browser: every page shows data, follows changes and lets people act."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from protos.cluster.cluster_pb2 import JOB_STATUS_FAILED, CancelJobRequest
from tests.e2e.conftest import Opener, idle_appliance
from tests.support.appliance_process import (
    ApplianceProcess,
    execute_request,
    run_command,
    running_appliance,
)
from tests.support.ports import free_port
from tests.support.rest import mint, rest_client

pytestmark = pytest.mark.browser

WRITTEN = """
    window.written = new Map();  // what stands on each canvas: text, and where it begins and ends
    const draws = CanvasRenderingContext2D.prototype;
    const {clearRect, fillText} = draws;
    draws.clearRect = function (...box) {
        window.written.set(this.canvas, []);
        return clearRect.apply(this, box);
    };
    draws.fillText = function (text, x, y, ...rest) {
        const before = {center: 0.5, right: 1, end: 1}[this.textAlign] ?? 0;
        const wide = this.measureText(text).width, from = x - before * wide;
        const isUpright = this.getTransform().b === 0;
        window.written.get(this.canvas)?.push({text, y, from, to: from + wide, isUpright});
        return fillText.call(this, text, x, y, ...rest);
    };
"""
SYSTEMS = ("systemf0", "systemf1", "systemf2")


def pages(job: str) -> dict[str, str]:
    """Return the path of each page and words that only real data bring."""
    return {
        "/": "systemf1",
        "/queue": "job-operator",
        "/runs": "browser",
        f"/jobs/{job}": "Simulated wafer time beside wall time",
        f"/jobs/{job}/wafer": "What lies where",
        "/planner": "A transformer",
        "/admin": "Latest changes",
        "/docs": "/api/v1/jobs/{job_id}/cancel",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_shows_data_and_is_accessible(
    trained: tuple[str, str], opener: Opener, scheme: str
) -> None:
    root, job = trained
    watched = opener(root, color_scheme=scheme)
    axe = Axe()
    for path, words in pages(job).items():
        page = watched.open(path)
        expect(page.locator("main")).to_contain_text(words)
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        found = axe.run(page, options={"resultTypes": ["violations"]})
        violations = [
            f"{path}: {each['id']}: {each['help']}: {each['nodes'][0]['html']}"
            for each in found.response["violations"]
        ]
        assert violations == []


def test_no_page_is_wider_than_a_phone(trained: tuple[str, str], opener: Opener) -> None:
    root, job = trained
    watched = opener(root, viewport={"width": 390, "height": 800}, has_touch=True)
    for path, words in pages(job).items():
        page = watched.open(path)
        expect(page.locator("main")).to_contain_text(words)
        too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, path


def test_a_job_shows_its_training(trained: tuple[str, str], opener: Opener) -> None:
    root, job = trained
    page = opener(root).open(f"/jobs/{job}")
    expect(page.get_by_role("heading", level=1)).to_have_text("browser")  # its label `name`
    card = page.get_by_role("region", name="Training").bounding_box()
    drawn = page.locator(".chart").first.bounding_box()
    assert card is not None
    assert drawn is not None
    assert drawn["width"] > 0.9 * card["width"]
    chart = page.get_by_role("img", name=re.compile(r"loss\. Latest values: .*: [0-9.]+\."))
    expect(chart.first).to_be_visible()
    for used in ("memory of its pods", "processors used by its pods"):
        expect(
            page.get_by_role("img", name=re.compile(used + r".*: [0-9.]+\.")).first
        ).to_be_visible()
    expect(page.get_by_role("img", name="Simulated time of a step by module")).to_be_visible()
    page.get_by_role("searchbox", name="Search in the log").fill("coordinator serves")
    expect(page.get_by_role("log")).to_contain_text("Coordinator serves")
    page.get_by_role("link", name=re.compile("Log of .*weight-0")).click()
    expect(page.get_by_role("combobox", name="Log of")).to_have_value(f"{job}-weight-0")
    with page.expect_download() as download:
        page.get_by_role("link", name="Chrome trace").click()
    assert "traceEvents" in Path(download.value.path()).read_text()


def test_an_array_of_runs_is_a_table_whose_curves_are_compared(
    swept: tuple[str, str], opener: Opener
) -> None:
    root, array = swept
    page = opener(root).open(f"/runs?array={array}")
    table = page.get_by_role("table", name="Runs")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table.get_by_role("columnheader", name="index", exact=True)).to_be_visible()
    expect(table.get_by_role("columnheader", name="Last loss")).to_be_visible()
    for name in ("sweep.0", "sweep.1"):
        table.get_by_role("checkbox", name=f"Compare {name}").check()
    of_both = re.compile(r"^loss\. .*sweep\.0: [0-9.]+.*sweep\.1: [0-9.]+")
    chart = page.get_by_role("img", name=of_both)
    expect(chart).to_be_visible()
    smoothing = page.get_by_role("slider", name="smoothing")
    expect(smoothing).to_have_value("0")
    before = chart.get_attribute("aria-label")
    smoothing.press("End")
    page.get_by_role("checkbox", name="logarithmic").check()
    expect(page).to_have_url(re.compile("compare=.*smooth=0.99.*log=1"))
    expect(chart).not_to_have_attribute("aria-label", str(before))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    head, *rows = Path(download.value.path()).read_text().splitlines()
    assert ("index" in head.split(","), "last loss" in head, len(rows)) == (True, True, 2)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_run_shows_its_script_its_jobs_and_their_curves(
    swept: tuple[str, str], opener: Opener, scheme: str, width: int
) -> None:
    root, array = swept
    watched = opener(root, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = watched.open(f"/runs?array={array}")
    page.get_by_role("link", name="sweep.1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sweep.1")
    expect(page.locator("main")).to_contain_text("--run $WSC_ARRAY_INDEX")
    expect(page.get_by_role("log")).to_contain_text("train step 4 loss")
    expect(page.get_by_role("img", name=re.compile(r"^loss\. .*: [0-9.]+"))).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in found] == []
    too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert too_wide <= 0
    jobs = page.get_by_role("table", name="Jobs of the run").get_by_role("link")
    expect(jobs).to_have_count(3)
    jobs.last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sweep")
    page.get_by_role("link", name="wflow-").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sweep.1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_a_failed_run_says_why_before_anything_is_scrolled(
    broken: tuple[str, str], opener: Opener, scheme: str, width: int
) -> None:
    root, array = broken
    watched = opener(root, color_scheme=scheme, viewport={"width": width, "height": 700})
    page = watched.open(f"/runs?array={array}")
    page.get_by_role("link", name="broken.1").click()
    cause = page.get_by_role("note", name="Why the run failed")
    expect(cause).to_contain_text("KeyError: '1' (at ")
    expect(cause).to_contain_text("fails.py:2")
    expect(cause).to_be_in_viewport(ratio=1)
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in found] == []
    page.go_back()
    page.get_by_role("link", name="broken.0").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("broken.0")
    expect(cause).to_have_count(0)


def test_a_run_lists_the_checkpoints_that_its_client_has_made(
    trained: tuple[str, str], opener: Opener
) -> None:
    root, job = trained
    page = opener(root).open(f"/jobs/{job}")
    page.get_by_role("link", name="wflow-").click()
    rows = page.get_by_role("table", name=re.compile("Checkpoints of wflow-")).get_by_role("row")
    expect(rows).to_have_count(3)
    for row, step in ((1, 6), (2, 12)):
        expect(rows.nth(row)).to_contain_text(
            re.compile(
                rf"session 1, step {step}: the client has fetched [0-9]+ tensors, [0-9.]+ [kM]B"
            )
        )
        expect(rows.nth(row).locator("code")).to_have_text(re.compile(rf"^/.*/{step}\.mdl$"))


@pytest.mark.parametrize("width", [1440, 390])
def test_what_stands_at_an_axis_does_not_overlap(
    trained: tuple[str, str], opener: Opener, width: int
) -> None:
    root, job = trained
    watched = opener(root, viewport={"width": width, "height": 900})
    watched.page.add_init_script(WRITTEN)
    for path in ("/", f"/jobs/{job}"):
        page = watched.open(path)
        expect(page.locator(".chart canvas").first).to_be_visible()
        page.wait_for_function("[...written.values()].some(each => each.length)")
        charts = page.evaluate("[...written.values()].filter(each => each.length)")
        for chart in charts:
            across = ticks_of_the_axis_below(chart)
            assert len(across) >= 3, (path, chart)
            assert [each["text"] for each in across if "." in each["text"]] == [], "no step is half"
            assert [
                pair for pair in pairwise(across) if pair[1]["from"] < pair[0]["to"] + 4
            ] == [], path


def ticks_of_the_axis_below(chart: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the topmost line of numbers below what is drawn, from left to right."""
    upright = [each for each in chart if each["isUpright"] and each["text"]]
    rows = {each["y"] for each in upright}
    lines = [[each for each in upright if each["y"] == row] for row in sorted(rows)]
    below = next(line for line in lines if len({each["from"] for each in line}) > 1)
    return sorted(below, key=lambda each: each["from"])


def test_layer_steps_are_walked_through(trained: tuple[str, str], opener: Opener) -> None:
    root, job = trained
    page = opener(root).open(f"/jobs/{job}/wafer")
    first = page.get_by_role("combobox", name="Layer step").input_value()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("combobox", name="Layer step")).not_to_have_value(first)
    expect(page.get_by_role("img", name=re.compile("Who works"))).to_be_visible()
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).first.click()
        assert Path(download.value.path()).read_bytes().startswith(start)


def test_the_shell_says_what_its_switch_does_and_what_is_not_there(
    trained: tuple[str, str], opener: Opener
) -> None:
    watched = opener(trained[0])
    page = watched.open("/docs")
    switch = page.get_by_role("button", name="Colours: ")
    for words in ("System", "Light", "Dark", "System"):
        expect(switch).to_have_accessible_name(f"Colours: {words}")
        switch.click()
    page.get_by_role("searchbox", name="Search the API").fill("wafer")
    page.get_by_text("/api/v1/jobs/{job_id}/wafer", exact=True).click()
    expect(page.locator("main")).to_contain_text("integer or null")
    page.get_by_role("searchbox", name="Search the API").fill("no such words")
    expect(page.locator("main")).to_contain_text("No operation has these words.")

    watched.open("/anything")
    expect(page.get_by_role("heading", name="There is no page here")).to_be_visible()
    assert any(each == f"404 for {watched.root}/anything" for each in watched.complaints)
    watched.complaints.clear()


def test_the_planner_answers(trained: tuple[str, str], opener: Opener) -> None:
    page = opener(trained[0]).open("/planner")
    main = page.locator("main")
    expect(main).to_contain_text("transformer 1.32 B on 16 x CS-2")
    page.get_by_label("Layers", exact=True).fill("12")
    page.get_by_role("button", name="Estimate").click()
    for picture in ("Speed-up over one system", "Samples per second over", "Loss over compute"):
        expect(page.get_by_role("img", name=re.compile(picture))).to_be_visible()
    expect(main).not_to_contain_text("1.32 B")
    page.get_by_label("Decoder layers (T5)").fill("12")
    page.get_by_label("Target length (T5)").fill("128")
    page.get_by_role("button", name="Estimate").click()
    expect(main).to_contain_text("encoder-decoder")
    expect(main).to_contain_text("The scaling law holds for decoders alone.")


def test_a_published_model_is_planned_and_its_address_can_be_sent(
    trained: tuple[str, str], opener: Opener
) -> None:
    page = opener(trained[0]).open("/planner")
    page.get_by_label("Systems").fill("4")
    page.get_by_role("button", name="Estimate").click()
    expect(page).to_have_url(re.compile("systems=4"))
    model = page.get_by_role("combobox", name="Published model")
    model.select_option("Llama 2 70B")
    expect(page.locator("main")).to_contain_text("transformer 69 B on 4 x CS-2")
    expect(page.get_by_label("gated FFN")).to_be_checked()

    sent = opener(trained[0]).open(page.url.removeprefix(trained[0]))
    expect(sent.locator("main")).to_contain_text("transformer 69 B on 4 x CS-2")
    expect(sent.get_by_role("combobox", name="Published model")).to_have_value("Llama 2 70B")

    page.go_back()
    expect(model).to_have_value("Cerebras-GPT 1.3B")
    expect(page.locator("main")).to_contain_text("transformer 1.32 B on 4 x CS-2")


def test_a_question_that_is_refused_leaves_no_older_answer(
    trained: tuple[str, str], opener: Opener
) -> None:
    watched = opener(trained[0])
    page = watched.open("/planner")
    expect(page.locator("main")).to_contain_text("transformer 1.32 B")
    page.get_by_label("Attention heads").fill("7")
    page.get_by_role("button", name="Estimate").click()
    expect(page.get_by_role("alert")).to_contain_text("2048 is no multiple of its 7 heads")
    expect(page.locator("main")).not_to_contain_text("transformer 1.32 B")
    watched.complaints.clear()  # the browser reports the 400 too


def test_memory_that_is_too_small_is_drawn_over_the_limit_and_explained(
    trained: tuple[str, str], opener: Opener
) -> None:
    page = opener(trained[0]).open("/planner")
    memory = page.get_by_role("region", name="Wafer memory of one system")
    waiting = memory.get_by_role("row").filter(has_text="Waiting for the backward pass")
    expect(waiting).to_contain_text(re.compile(r"[\d.]+ GB of 36.6 GB, [\d.]+ GB too much"))
    bar = waiting.get_by_role("img", name=re.compile("over the limit$"))
    expect(bar.locator(".bar-over")).to_be_visible()
    expect(memory).to_contain_text("is more than the wafer holds: it leaves the wafer and returns")
    expect(memory.locator(".bar-over")).to_have_count(1)


def test_what_happens_is_on_the_page_at_once(idle: ApplianceProcess, opener: Opener) -> None:
    page = opener(idle.state.rest_url, asks_again=False).open("/queue")
    expect(page.locator("main")).to_contain_text("Nobody waits.")
    running = idle.submit_execute(num_systems=2)
    rows = page.get_by_role("table", name="Jobs")
    expect(rows.get_by_role("link", name=running)).to_be_visible()
    idle.wait_ready(running)
    waiting = idle.submit_execute(num_systems=1)
    line = (
        page.get_by_role("table", name="Waiting jobs").get_by_role("row").filter(has_text=waiting)
    )
    expect(line).to_be_visible()
    expect(line.get_by_role("link", name=running)).to_be_visible()


def test_a_job_with_several_swarmx_pods_shows_their_tree(tmp_path: Path, opener: Opener) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "systems: [{count: 3}]\n"
        "nodes:\n"
        "  - {roles: [management, activation, worker], memory: 64Gi, cores: 8}\n"
        "  - {role: broadcastreduce, count: 2, memory: 64Gi, cores: 8}\n"
    )
    arguments = ("--cluster", str(cluster), "--lease-seconds", "900")
    with running_appliance(tmp_path / "data", *arguments) as running:
        job = running.submit_execute(num_systems=3)
        running.wait_ready(job)
        page = opener(running.state.rest_url).open(f"/jobs/{job}")
        picture = page.get_by_role("img", name="A tree of 2 SwarmX pods")
        expect(picture).to_be_visible()
        words = ("MemoryX", "broadcastreduce-0", "broadcastreduce-1", *SYSTEMS)
        for word in words:
            expect(picture.get_by_text(word, exact=True)).to_be_visible()
        expect(picture.locator("line")).to_have_count(len(words) - 1)
        page.close()


def test_a_job_is_changed_and_cancelled(idle: ApplianceProcess, opener: Opener) -> None:
    job = idle.submit_execute(num_systems=2)
    idle.wait_ready(job)
    page = opener(idle.state.rest_url, asks_again=False).open(f"/jobs/{job}")

    expect(page.get_by_text("The curves begin with the first step.")).to_be_visible()
    expect(page.get_by_text("Shown once the program is loaded.")).to_be_visible()
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("p1")
    page.get_by_role("button", name="Change", exact=True).click()
    fact = page.locator("dt", has_text="Priority").locator("xpath=following-sibling::dd")
    expect(fact).to_have_text("199")
    page.get_by_role("button", name="Undo").click()
    expect(fact).to_have_text("299")

    page.get_by_role("button", name="Labels").click()
    page.get_by_label("New label").fill("team")
    page.get_by_label("Value").fill("blue")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_text("team=blue")).to_be_visible()

    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep the job").click()
    expect(page.get_by_text("RUNNING").first).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("CANCELLED").first).to_be_visible()
    expect(page.get_by_text("The job ended before its first step.")).to_be_visible()
    expect(page.get_by_text("The job ended before its program was loaded.")).to_be_visible()


def test_sessions_and_systems_are_administered(idle: ApplianceProcess, opener: Opener) -> None:
    page = opener(idle.state.rest_url, asks_again=False).open("/admin")
    page.get_by_role("button", name="Create a session").click()
    expect(page.get_by_role("dialog").get_by_role("button")).to_have_text(
        ["Create", "Do not create"]
    )
    page.get_by_role("dialog").get_by_label("Name").fill("vision")
    page.get_by_role("button", name="Create", exact=True).click()
    row = page.get_by_label("Sessions").get_by_role("row").filter(has_text="vision")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    page.get_by_role("combobox", name="State of systemf0").select_option("drain")
    expect(page.get_by_text("systemf0 is drain.")).to_be_visible()
    assert "drain" in run_csctl(idle, "get", "system", "-o", "json")


HOSTILE = "<img src=/x onerror='window.hurt=1'>"
"""What a page that takes text for HTML runs; the browser would complain of the picture, too."""


def test_what_somebody_wrote_is_text_on_every_page(idle: ApplianceProcess, opener: Opener) -> None:
    user = (("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", HOSTILE))
    job = idle.cluster.InitExecuteJob(execute_request(2, 1), metadata=user).job_id
    idle.wait_ready(job)
    failed = CancelJobRequest(job_id=job, job_status=JOB_STATUS_FAILED, message=HOSTILE)
    idle.cluster.CancelJobV2(failed, metadata=user)
    with rest_client(idle) as rest:
        note = {"state": "drain", "notes": HOSTILE}
        assert rest.patch("systems/systemf0", json=note).status_code == 200
        plan = {"systems": ["systemf1"], "seconds": 60, "notes": HOSTILE}
        assert rest.post("maintenance", json=plan).status_code == 201
    for path in ("/", f"/jobs/{job}", "/admin"):
        page = opener(idle.state.rest_url, asks_again=False).open(path)
        expect(page.locator("main")).to_contain_text("onerror=")
        assert page.evaluate("window.hurt") is None


def run_csctl(appliance: ApplianceProcess, *arguments: str) -> str:
    """Run csctl against an appliance."""
    return subprocess.run(
        [sys.executable, "-m", "csctl", *arguments],
        env=os.environ | {"CSCONFIG_PATH": str(appliance.data_dir / "config_v2")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def add_user(appliance: ApplianceProcess, name: str, uid: int) -> str:
    """Make an account and return a token for it."""
    data_dir = ("--data-dir", str(appliance.data_dir))
    made = run_command("user", "create", name, "--uid", str(uid), "--gid", "100", *data_dir)
    assert made.returncode == 0, made.stderr
    return mint(appliance, name)


def log_in(page: Page, token: str) -> None:
    """Use the login form."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_people_log_in_and_may_change_only_their_own(opener: Opener, tmp_path: Path) -> None:
    with idle_appliance(tmp_path / "data", "--tls", "--tokens") as appliance:
        token = add_user(appliance, "grace", 1001)
        watched = opener(appliance.state.rest_url, ignore_https_errors=True)
        page = watched.open("/admin")
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        expect(page.get_by_text("not logged in", exact=True)).to_be_visible()
        log_in(page, "nonsense")
        expect(page.get_by_role("alert")).to_be_visible()
        refused = [each for each in watched.complaints if "401" in each]
        assert refused
        watched.complaints.clear()

        log_in(page, token)
        expect(page.get_by_text("You are user.")).to_be_visible()
        expect(page.get_by_role("button", name="Create a session")).to_have_count(0)
        expect(page.get_by_role("combobox", name="State of systemf0")).to_have_count(0)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.goto("about:blank")


def test_the_page_comes_back_after_a_restart(tmp_path: Path, opener: Opener) -> None:
    with idle_appliance(tmp_path / "data", "--rest-port", str(free_port())) as idle:
        watched = opener(idle.state.rest_url, asks_again=False)
        page = watched.open("/queue")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        idle.down()
        expect(page.get_by_text("connection lost")).to_be_visible()
        idle.up()
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        watched.complaints.clear()  # the browser says that nobody answered, and it is right
        job = idle.submit_execute(num_systems=1)
        rows = page.get_by_role("table", name="Jobs")
        expect(rows.get_by_role("link", name=job)).to_be_visible()
        page.goto("about:blank")
