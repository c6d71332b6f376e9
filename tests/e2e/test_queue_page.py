"""The queue's page: jobs are found, sorted, kept in the address, and whole on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import Opener, idle_appliance

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
