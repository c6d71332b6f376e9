"""Ten thousand jobs in the dashboard: only what is seen exists, and all of it can be reached."""

import os
import re
import signal
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import Opener, idle_appliance
from tests.support.many_jobs import fill_queue

pytestmark = pytest.mark.browser

NUM_JOBS = 10_000
MAX_ROWS = 60
"""Rows of one list that exist at a time: what a tall window shows and a margin."""
NUM_ROUNDS = 5
MAX_RATIO = 4.0
"""A page over all these jobs takes input at most so many times later than one over a few."""

FIRST_ROW = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('[aria-label="Jobs"] [role=row] a')) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.interactiveAt = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when the first job is there, is drawn, and the page takes input again."""

INTERACTIVE_AT = """async () => {
    while (!window.interactiveAt) await new Promise((later) => setTimeout(later, 10));
    return window.interactiveAt;
}"""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the root URL of an appliance in which a few jobs wait."""
    data_dir = tmp_path_factory.mktemp("few") / "data"
    fill_queue(data_dir, 10)
    with idle_appliance(data_dir) as running:
        yield running.state.rest_url


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Return the root URL of an appliance in which jobs wait, and their ids, oldest first."""
    data_dir = tmp_path_factory.mktemp("full") / "data"
    jobs = fill_queue(data_dir, NUM_JOBS)
    with idle_appliance(data_dir) as running:
        yield running.state.rest_url, jobs
        # Going down in order would fail ten thousand jobs one by one.
        os.kill(running.state.pid, signal.SIGKILL)


def rows(page: Page, label: str) -> Locator:
    """Return the list of that name."""
    return page.get_by_role("table", name=label, exact=True)


def most_rows_while_scrolling(table: Locator) -> int:
    """Scroll a list from its start to its end in 40 steps; return the most rows that existed."""
    most: int = table.evaluate(
        """async (list) => {
            let most = 0;
            for (let part = 0; part <= 40; part += 1) {
                list.scrollTop = (list.scrollHeight * part) / 40;
                await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
                most = Math.max(most, list.querySelectorAll("[role=row]").length);
            }
            return most;
        }"""
    )
    return most


def test_ten_thousand_jobs_take_input_about_as_soon_as_ten(
    full: tuple[str, list[str]], few: str, opener: Opener
) -> None:
    pages = {"full": opener(full[0]), "few": opener(few)}
    taken: dict[str, list[float]] = {name: [] for name in pages}
    for watched in pages.values():
        watched.page.add_init_script(FIRST_ROW)
    for _ in range(NUM_ROUNDS):
        for name, watched in pages.items():
            taken[name].append(watched.open("/queue").evaluate(INTERACTIVE_AT))
    assert min(taken["full"]) < MAX_RATIO * min(taken["few"]), taken


@pytest.mark.parametrize("label", ["Jobs", "Waiting jobs"])
def test_the_last_of_ten_thousand_is_reached(
    full: tuple[str, list[str]], opener: Opener, label: str
) -> None:
    root, jobs = full
    last = {"Jobs": jobs[0], "Waiting jobs": jobs[-1]}[label]  # of a list: newest first
    page = opener(root).open("/queue")
    table = rows(page, label)
    expect(table).to_have_attribute("aria-rowcount", str(NUM_JOBS + 1))
    assert most_rows_while_scrolling(table) <= MAX_ROWS
    expect(table.get_by_role("link", name=last)).to_be_visible()
    row = table.get_by_role("row").filter(has_text=last)
    expect(row).to_have_attribute("aria-rowindex", str(NUM_JOBS + 1))


def test_a_long_list_is_walked_by_keyboard(full: tuple[str, list[str]], opener: Opener) -> None:
    root, jobs = full
    page = opener(root).open("/queue")
    table = rows(page, "Jobs")
    expect(table.get_by_role("link", name=jobs[-1])).to_be_visible()
    table.focus()
    page.keyboard.press("End")
    expect(table.get_by_role("link", name=jobs[0])).to_be_visible()
    page.keyboard.press("Home")
    first = table.get_by_role("link", name=jobs[-1])
    expect(first).to_be_visible()
    first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{jobs[-1]}$"))


def test_a_long_list_is_searched(full: tuple[str, list[str]], opener: Opener) -> None:
    root, jobs = full
    page = opener(root).open("/queue")
    page.get_by_role("searchbox", name="Search jobs").fill(jobs[1234][-12:])
    table = rows(page, "Jobs")
    expect(table).to_have_attribute("aria-rowcount", "2")
    expect(table.get_by_role("link", name=jobs[1234])).to_be_visible()
    page.get_by_role("searchbox", name="Search jobs").fill("grace")
    expect(table).to_have_attribute("aria-rowcount", str(NUM_JOBS // 4 + 1))


def test_a_change_far_down_is_seen_where_it_is(full: tuple[str, list[str]], opener: Opener) -> None:
    root, jobs = full
    page = opener(root).open("/queue")
    table = rows(page, "Jobs")
    table.focus()
    page.keyboard.press("End")
    row = table.get_by_role("row").filter(has_text=jobs[0])
    row.get_by_role("button", name="Labels").click()
    page.get_by_label("New label").fill("seen")
    page.get_by_label("Value").fill("here")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(row).to_contain_text("seen=here")
    expect(row).to_be_visible()


def test_a_full_queue_is_accessible(full: tuple[str, list[str]], opener: Opener) -> None:
    root, jobs = full
    page = opener(root).open("/queue")
    expect(rows(page, "Waiting jobs").get_by_role("link", name=jobs[0])).to_be_visible()
    expect(rows(page, "Jobs").get_by_role("link", name=jobs[-1])).to_be_visible()
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    serious = [each["help"] for each in found if each["impact"] in ("serious", "critical")]
    assert serious == []
