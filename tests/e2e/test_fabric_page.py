"""The Fabric page in a real browser, with traces of real runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import CDPSession, Page, expect

from appliance.fabric.tracing.trace import read_trace
from appliance.wire.fabric_traces import TraceFile
from protos.sdk.sdk_common_pb2 import StatusCode
from tests.e2e.conftest import Opener
from tests.support.appliance_process import ApplianceProcess, running_appliance
from tests.support.sdk_jobs import compile_command, example_sources, sdk_job

pytestmark = pytest.mark.browser

VECTOR = np.random.default_rng(0).integers(0, 100, (4, 6, 12))[1, 2]
"""What PE (2, 1) of 6 x 4 adds to the sum: examples/csl_sum/run.py draws it."""
FRAMES = 60
"""Over which the cost of one is measured."""
RUN = "WSC_FABRIC_TRACE=1 cs_python run.py --name out"


def traced(appliance: ApplianceProcess, *, width: int, height: int, n: int, edit: str = "") -> str:
    """Run the sum over a grid as a job and return the job."""
    with sdk_job(appliance) as job:
        job.upload_artifact("art", **example_sources("csl_sum"))
        commands = [edit] * bool(edit) + [compile_command(width=width, height=height, n=n), RUN]
        answer = job.run(*commands, target="art")
        wanted = StatusCode.SDK_COMMAND_ERROR if edit else StatusCode.SDK_RT_SUCCESS
        assert answer.code == wanted, answer.message
        return job.id


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield running


@pytest.fixture(scope="module")
def job(appliance: ApplianceProcess) -> str:
    """The sum over 6 x 4 PEs."""
    return traced(appliance, width=6, height=4, n=12)


def opened(opener: Opener, appliance: ApplianceProcess, job: str, **options: object) -> Page:
    page = opener(appliance.state.rest_url, **options).open(f"/jobs/{job}/fabric")
    expect(grid(page)).to_be_visible()
    return page


def grid(page: Page):
    return page.get_by_role("img", name=re.compile("Grid of"))


def cycle(page: Page) -> int:
    return int(page.get_by_role("spinbutton", name="Cycle").input_value())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_with_and_without_a_pe(
    appliance: ApplianceProcess, job: str, opener: Opener, scheme: str
) -> None:
    page = opened(opener, appliance, job, color_scheme=scheme)
    for _ in range(2):
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert [
            f"{each['id']}: {each['help']}: {each['nodes'][0]['html']}"
            for each in found.response["violations"]
        ] == []
        grid(page).click()
        expect(page.get_by_role("region", name=re.compile(r"PE \("))).to_be_visible()


def test_the_job_leads_to_its_trace_and_shows_how_it_went(
    appliance: ApplianceProcess, job: str, opener: Opener
) -> None:
    page = opener(appliance.state.rest_url).open(f"/jobs/{job}")
    expect(page.get_by_text("SUCCEEDED").first).to_be_visible()
    expect(page.get_by_text("SdkTraced")).to_be_visible()
    page.get_by_role("combobox", name="Log of").select_option(f"{job}-sdk-0")
    expect(page.get_by_role("log")).to_contain_text("is right")
    page.get_by_role("link", name="See wavelets move").click()
    expect(grid(page)).to_be_visible()


def test_cycles_are_stepped_scrubbed_and_played(
    appliance: ApplianceProcess, job: str, opener: Opener
) -> None:
    page = opened(opener, appliance, job)
    first = cycle(page)
    page.get_by_role("button", name="One cycle forward").click()
    assert cycle(page) == first + 1
    slider = page.get_by_role("slider", name="Cycle")
    slider.focus()
    slider.press("ArrowRight")
    assert cycle(page) == first + 2
    slider.press("End")
    last = cycle(page)
    expect(page.get_by_role("button", name="One cycle forward")).to_be_disabled()
    page.get_by_role("combobox", name="Speed").select_option("100")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_visible()  # at the end, by itself
    assert cycle(page) == last


def test_a_pe_shows_its_line_its_tasks_and_its_memory(
    appliance: ApplianceProcess, job: str, opener: Opener
) -> None:
    page = opened(opener, appliance, job)
    page.get_by_role("spinbutton", name="Column").fill("2")
    page.get_by_role("spinbutton", name="Row").fill("1")
    card = page.get_by_role("region", name="PE (2, 1)")
    expect(card.get_by_role("img", name=re.compile("[1-9].* tasks and operations"))).to_be_visible()
    name = page.get_by_role("cell", name="vector", exact=True)  # within a row
    row = card.get_by_role("row").filter(has=name)
    expect(row).to_contain_text("[12]f32")
    expect(row.get_by_role("cell", name=", ".join(map(str, VECTOR)))).to_be_visible()
    page.get_by_role("spinbutton", name="Cycle", exact=True).fill("40")
    page.keyboard.press("Tab")
    expect(card).to_contain_text("pe.csl:44")
    expect(card).to_contain_text("@fadds(to_west, whole, from_east")
    hot = page.get_by_role("region", name="Cycles by source line")
    expect(hot.get_by_role("row").nth(1)).to_contain_text("@fadds(to_west, whole, from_east")
    total = hot.get_by_role("row").nth(1).inner_text()
    hot.get_by_role("checkbox", name="PE (2, 1) alone").check()
    assert hot.get_by_role("row").nth(1).inner_text() != total
    grid(page).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("region", name="PE (3, 1)")).to_be_visible()


def test_heat_and_colors_change_the_picture(
    appliance: ApplianceProcess, job: str, opener: Opener
) -> None:
    page = opened(opener, appliance, job)
    page.get_by_role("slider", name="Cycle").press("End")
    seen = set()
    for heat in ("none", "traffic", "occupancy", "work"):
        page.get_by_role("combobox", name="Heat").select_option(heat)
        page.get_by_role("combobox", name="over").select_option("0")
        expect(page.get_by_role("img", name=re.compile(f"heat: {heat}"))).to_be_visible()
        seen.add(picture(page))
    page.get_by_role("combobox", name="Color").select_option("1")
    seen.add(picture(page))
    assert len(seen) == 5


def picture(page: Page) -> str:
    """Return what the grid shows, once it has been drawn."""
    drawn = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(drawn)
    return str(grid(page).evaluate("canvas => canvas.toDataURL()"))


def test_the_trace_is_saved_for_perfetto_and_as_it_is(
    appliance: ApplianceProcess, job: str, opener: Opener
) -> None:
    page = opened(opener, appliance, job)
    with page.expect_download() as download:
        page.get_by_role("button", name="Perfetto").click()
    events = json.loads(Path(download.value.path()).read_text())["traceEvents"]
    assert {"sum", "row_done", "done"} <= {each["name"] for each in events}
    with page.expect_download() as download:
        page.get_by_role("link", name="Trace").click()
    assert read_trace(TraceFile(Path(download.value.path()))).width == 6


def test_a_run_that_stalls_says_what_could_not_go_on(
    appliance: ApplianceProcess, opener: Opener
) -> None:
    silent = "sed -i 's/@fmovs(to_west, whole, .*;/@activate(done_id);/' pe.csl"
    job = traced(appliance, width=3, height=2, n=4, edit=silent)
    page = opened(opener, appliance, job)
    expect(page.locator("main")).to_contain_text("Nothing has moved since simulated cycle")
    table = page.get_by_role("region", name="What could not go on")
    button = page.get_by_role("button", name="(1, 0)")  # within a row, not within the card
    row = table.get_by_role("row").filter(has=button)
    expect(row).to_contain_text("for a wavelet in input queue 2 (color 0)")
    expect(row).to_contain_text("PE (2, 0) would have to send it, but nothing in ")
    row.get_by_role("button").click()
    expect(page.get_by_role("region", name="PE (1, 0)")).to_be_visible()


def test_sixty_by_sixty_pes_move_at_thirty_frames_a_second(
    appliance: ApplianceProcess, opener: Opener
) -> None:
    job = traced(appliance, width=60, height=60, n=60)
    page = opened(opener, appliance, job)
    page.get_by_role("combobox", name="Speed").select_option("20")
    page.get_by_role("slider", name="Cycle").focus()
    page.get_by_role("spinbutton", name="Cycle", exact=True).fill("300")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Play").click()
    meter = page.context.new_cdp_session(page)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = processor_seconds(meter)
    page.evaluate(
        """frames => new Promise(done => {
            requestAnimationFrame(function step() {
                if (--frames > 0) requestAnimationFrame(step);
                else done();
            });
        })""",
        FRAMES,
    )
    assert cycle(page) > 300
    assert (processor_seconds(meter) - before) / FRAMES < 1 / 30


def processor_seconds(meter: CDPSession) -> float:
    """Return what the page's main thread has taken of a processor, however busy the machine is."""
    metrics = meter.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "ThreadTime")
