"""The queue's page: jobs are found, sorted, kept in the address, and whole on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from protos.csctl.api_pb2 import CancelJobRequest
from tests.e2e.conftest import Opener, idle_appliance
from tests.support.appliance_process import USER, ApplianceProcess

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True}
TABLET = {"viewport": {"width": 768, "height": 900}}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the root URL of an appliance, and jobs there by what they are."""
    with idle_appliance(tmp_path_factory.mktemp("queue") / "data") as running:
        found = {"root": running.state.rest_url}
        found["runs"] = running.submit_execute(2, name="gpt-baseline", team="language")
        running.wait_ready(found["runs"])
        found["waits"] = running.submit_execute(1, name="vision-wide", team="vision")
        found["last"] = running.submit_execute(2)
        long = {f"label-{number}": f"{number}" * 60 for number in range(8)}
        found["labelled"] = running.submit_execute(1, **long)
        cancel = CancelJobRequest(job_id=found["labelled"])
        running.csctl.CancelJobV2(cancel, metadata=USER)
        yield found


def table(page: Page, name: str = "Jobs") -> Locator:
    return page.get_by_role("table", name=name, exact=True)


def waiting_row(page: Page, job: str) -> Locator:
    """Return the row of a waiting job; others may name it as what they wait for."""
    rows = table(page, "Waiting jobs").get_by_role("row")
    return rows.filter(has=page.get_by_role("link", name=job))


def shown(page: Page) -> Locator:
    return table(page).get_by_role("link")


def test_jobs_are_found_by_label_phase_and_type(jobs: dict[str, str], opener: Opener) -> None:
    page = opener(jobs["root"]).open("/queue")
    search = page.get_by_role("searchbox", name="Search jobs")
    for words, found in (
        ("team=vision", ["waits"]),
        ("gpt-base", ["runs"]),
        ("running", ["runs"]),
        ("execute queued", ["waits", "last"]),
    ):
        search.fill(words)
        expect(shown(page)).to_have_count(len(found))
        for job in found:
            expect(table(page).get_by_role("link", name=jobs[job])).to_be_visible()
    search.fill("no such words")
    expect(page.get_by_text('No job in this list has "no such words".')).to_be_visible()


def test_lists_are_sorted_and_the_address_keeps_what_was_chosen(
    jobs: dict[str, str], opener: Opener
) -> None:
    page = opener(jobs["root"]).open("/queue")
    head = table(page).get_by_role("columnheader", name="Systems")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(shown(page).first).to_contain_text(jobs["waits"])
    head.get_by_role("button").click()
    expect(shown(page).first).to_contain_text(jobs["last"])
    page.get_by_role("combobox", name="Which jobs").select_option("all")
    page.get_by_role("searchbox", name="Search jobs").fill("wsjob")
    expect(page).to_have_url(re.compile(r"jobs=all"))

    page.reload()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("combobox", name="Which jobs")).to_have_value("all")
    expect(page.get_by_role("searchbox", name="Search jobs")).to_have_value("wsjob")


def test_bars_have_names_and_reasons_are_whole(jobs: dict[str, str], opener: Opener) -> None:
    page = opener(jobs["root"]).open("/queue")
    chart = page.get_by_role("group", name="Jobs on systems over time")
    expect(chart.locator("text", has_text="gpt-baseline").first).to_be_visible()
    row = waiting_row(page, jobs["waits"])
    expect(row).to_contain_text("1 of 2 system(s) requested")
    expect(row.get_by_role("link", name="gpt-baseline")).to_be_visible()


def test_bars_are_one_stop_of_the_keyboard_and_arrows_go_from_bar_to_bar(
    jobs: dict[str, str], opener: Opener
) -> None:
    page = opener(jobs["root"]).open("/queue")
    chart = page.get_by_role("group", name="Jobs on systems over time")
    bars = chart.get_by_role("link")
    expect(bars).to_have_count(2)  # one job on two systems
    stops = chart.locator("a[tabindex='0']")
    expect(stops).to_have_count(1)
    bars.first.focus()
    for key, number in (("ArrowRight", 1), ("ArrowUp", 0), ("ArrowDown", 1), ("Home", 0)):
        page.keyboard.press(key)
        expect(bars.nth(number)).to_be_focused()
        expect(stops).to_have_count(1)
    page.keyboard.press("Tab")
    expect(chart.locator(":focus")).to_have_count(0)


CUT = """() => [...document.querySelectorAll('[aria-label="Jobs"] .row')].flatMap((row) => {
    const bottom = row.getBoundingClientRect().bottom + 1;
    const cut = [...row.querySelectorAll('.badge')].filter(
        ({ parentElement: cell }) => cell.scrollWidth > cell.clientWidth);
    const over = [...row.querySelectorAll('.labels')].filter(
        (each) => each.getBoundingClientRect().bottom > bottom);
    return [...cut, ...over].map((each) => each.textContent);
})"""
"""Phases that are not whole in a list of jobs, and labels that reach below their own card."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [PHONE, TABLET, {}])
def test_phases_are_whole_and_long_labels_stay_in_their_own_card(
    jobs: dict[str, str], opener: Opener, screen: dict[str, object], scheme: str
) -> None:
    page = opener(jobs["root"], color_scheme=scheme, **screen).open("/queue?jobs=all")
    expect(table(page).get_by_text("CANCELLED")).to_be_visible()
    expect(table(page).get_by_text("label-0=")).to_be_visible()
    assert page.evaluate(CUT) == []


def test_while_the_appliance_does_not_answer_no_page_says_that_nothing_has_run(
    jobs: dict[str, str], browser: Browser
) -> None:
    page = browser.new_page()
    page.route("**/api/v1/**", lambda route: route.abort())
    for path, words in (("/", "Nothing has run yet."), ("/queue", "No job has held a system yet.")):
        page.goto(jobs["root"] + path)
        expect(page.get_by_text("The appliance does not answer.").first).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
        expect(page.get_by_text(words)).to_have_count(0)
        expect(page.get_by_text("Nobody has used a system lately.")).to_have_count(0)
    page.close()


@pytest.mark.parametrize("screen", [PHONE, TABLET])
def test_on_a_narrow_screen_rows_are_cards_with_all_that_a_row_has(
    jobs: dict[str, str], opener: Opener, screen: dict[str, object]
) -> None:
    page = opener(jobs["root"], **screen).open("/queue")
    card = waiting_row(page, jobs["waits"])
    card.scroll_into_view_if_needed()
    for part in (
        card.get_by_text(jobs["waits"], exact=True),
        card.get_by_text("system(s) requested"),
        card.get_by_role("button", name="Cancel"),
    ):
        expect(part).to_be_in_viewport(ratio=1)
    for name in ("Waiting jobs", "Jobs"):
        for row in table(page, name).locator(".row").all():
            assert blank_below(row) < 24, "a strip without anything in it"
    identity = card.get_by_text(jobs["waits"], exact=True).bounding_box()
    assert identity is not None
    assert identity["height"] < 30  # one line
    page.get_by_role("combobox", name="Order").select_option("systems down")
    expect(shown(page).first).to_contain_text(jobs["last"])


def blank_below(row: Locator) -> float:
    """Return how many pixels below a card's last line are blank, its padding too."""
    found: float = row.evaluate(
        """(row) => row.getBoundingClientRect().bottom
            - Math.max(...[...row.children].map((each) => each.getBoundingClientRect().bottom))"""
    )
    return found


def test_a_reason_that_fits_needs_no_button_however_wide_the_page_was(
    jobs: dict[str, str], opener: Opener
) -> None:
    page = opener(jobs["root"]).open("/queue")
    row = waiting_row(page, jobs["waits"])
    reason = row.locator(".reason")
    expect(reason).to_contain_text("system(s) requested")
    reason.evaluate("(text) => { text.style.maxWidth = '6rem'; }")
    expect(row.get_by_role("button", name="read all")).to_be_visible()
    reason.evaluate("(text) => { text.style.maxWidth = 'none'; }")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(row.get_by_role("button", name="read all")).to_have_count(0)


def test_a_reason_that_does_not_fit_is_read_whole(jobs: dict[str, str], opener: Opener) -> None:
    page = opener(jobs["root"], viewport={"width": 390, "height": 800}).open("/queue")
    card = waiting_row(page, jobs["waits"])
    expect(card).to_be_visible()
    card.locator(".reason").evaluate(
        "(text) => { text.style.maxWidth = '6rem'; text.style.webkitLineClamp = '1'; }"
    )
    page.set_viewport_size({"width": 760, "height": 800})
    card.get_by_role("button", name="read all").click()
    dialog = page.get_by_role("dialog", name="Why it waits")
    expect(dialog).to_contain_text("system(s) requested")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_a_waiting_job_is_held_and_released(idle: ApplianceProcess, opener: Opener) -> None:
    running = idle.submit_execute(num_systems=2)
    idle.wait_ready(running)
    waiting = idle.submit_execute(num_systems=1)
    page = opener(idle.state.rest_url).open("/queue")
    rows = page.get_by_role("table", name="Waiting jobs").get_by_role("row")
    line = rows.filter(has_text=waiting)
    line.get_by_role("button", name="Hold").click()
    expect(line.get_by_role("button", name="Release")).to_be_visible()
    expect(line).to_contain_text("held by")
    page.get_by_role("button", name="Undo").click()
    expect(line.get_by_role("button", name="Hold")).to_be_visible()

    page.goto(f"{idle.state.rest_url}/jobs/{waiting}")
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_role("button", name="Release")).to_be_visible()
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_role("button", name="Hold")).to_be_visible()
