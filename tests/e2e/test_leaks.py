"""A dashboard that stays open on a busy appliance keeps neither memory nor connections.

The page's own clock is turned forward, so that its timers do in seconds what they do in an hour;
what changes, changes on the real appliance meanwhile.
"""

import re
from dataclasses import dataclass

import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.e2e.conftest import Opener
from tests.support.appliance_process import ApplianceProcess
from tests.support.busy_job import SERIES, BusyJob
from tests.support.rest import rest_client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser

NUM_ROUNDS = 12
"""Rounds of one accelerated half-hour of the page."""
ROUND_MS = 150_000
CHANGES_PER_ROUND = 50


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What a page with its two streams occupies, after garbage collection."""

    heap_bytes: int
    nodes: int
    listeners: int


def footprint(page: Page, cdp: CDPSession, appliance: ApplianceProcess) -> Footprint:
    # The appliance notices a moment later that a page has left a stream.
    what = "two streams: one for what changes, one for the log that is shown"
    wait_until(lambda: open_streams(appliance) == 2, seconds=120, what=what)
    # A browser on a busy machine lets go of what it drew some frames later; a leak stays.
    what = "no canvas but those that the page shows"
    wait_until(lambda: live_canvases(page, cdp) == len(SERIES), seconds=120, what=what)
    expect(page.locator("canvas")).to_have_count(len(SERIES))
    counters = cdp.send("Memory.getDOMCounters")
    return Footprint(
        heap_bytes=int(cdp.send("Runtime.getHeapUsage")["usedSize"]),
        nodes=counters["nodes"],
        listeners=counters["jsEventListeners"],
    )


def live_canvases(page: Page, cdp: CDPSession) -> int:
    """Return how many canvases garbage collection leaves, shown or not."""
    page.clock.run_for(1_000)
    for _ in range(3):  # what finalisers let go of is collected by the next
        cdp.send("HeapProfiler.collectGarbage")
    prototype = cdp.send("Runtime.evaluate", {"expression": "HTMLCanvasElement.prototype"})
    found = cdp.send("Runtime.queryObjects", {"prototypeObjectId": prototype["result"]["objectId"]})
    canvases = cdp.send(  # only their number: a handle of one would itself keep it
        "Runtime.callFunctionOn",
        {
            "objectId": found["objects"]["objectId"],
            "functionDeclaration": "function () { return this.length; }",
            "returnByValue": True,
        },
    )
    cdp.send("Runtime.releaseObject", {"objectId": found["objects"]["objectId"]})
    return int(canvases["result"]["value"])


def open_streams(appliance: ApplianceProcess) -> int:
    """Return how many event streams the appliance serves, as its own metrics say."""
    with rest_client(appliance) as rest:
        text = rest.get(f"{appliance.state.rest_url}/metrics").text
    found = re.findall(r"^wsc_rest_(?:stream|log)_followers ([0-9.]+)$", text, re.MULTILINE)
    assert len(found) == 2, text
    return int(sum(float(each) for each in found))


def an_hours_half(page: Page, job: BusyJob) -> None:
    """Let the page live through changes, and half an hour of its own time."""
    for _ in range(NUM_ROUNDS):
        job.change(CHANGES_PER_ROUND)
        page.clock.run_for(ROUND_MS)


def walk_around(page: Page, job: BusyJob) -> None:
    """Visit every page and come back, as people do; no page is loaded anew."""
    for name in ("Queue", "Planner", "Admin", "Cluster", "Queue"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        page.clock.run_for(2_000)
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    page.get_by_role("table", name="Jobs").get_by_role("link", name=job.id).click()
    expect(page.get_by_role("heading", name=job.id)).to_be_visible()
    page.clock.run_for(2_000)
    expect(page.locator(".uplot").first).to_be_visible()


def test_an_open_page_leaks_neither_memory_nor_connections(
    idle: ApplianceProcess, opener: Opener
) -> None:
    with BusyJob.start(idle) as job:
        job.change(CHANGES_PER_ROUND)
        watched = opener(idle.state.rest_url)
        page = watched.page
        page.clock.install()
        watched.open(f"/jobs/{job.id}")
        cdp = page.context.new_cdp_session(page)
        page.clock.run_for(2_000)
        expect(page.locator(".uplot").first).to_be_visible()
        expect(page.get_by_role("log")).to_contain_text("line")

        an_hours_half(page, job)
        walk_around(page, job)
        before = footprint(page, cdp, idle)
        an_hours_half(page, job)
        for _ in range(5):
            walk_around(page, job)
        after = footprint(page, cdp, idle)

    assert after.nodes <= before.nodes * 1.1, (before, after)
    assert after.listeners <= before.listeners * 1.1, (before, after)
    assert after.heap_bytes <= before.heap_bytes * 1.25 + 1_000_000, (before, after)


def test_a_closed_page_leaves_no_connection(idle: ApplianceProcess, opener: Opener) -> None:
    with BusyJob.start(idle) as job:
        page = opener(idle.state.rest_url).open(f"/jobs/{job.id}")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        wait_until(lambda: open_streams(idle) == 2, seconds=120, what="two open streams")
        page.close()
        job.change(1)
        wait_until(lambda: open_streams(idle) == 0, seconds=120, what="the end of both streams")
