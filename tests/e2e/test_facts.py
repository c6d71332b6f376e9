"""The facts of jobs and runs stand beside each other, whatever they say."""

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Opener

pytestmark = pytest.mark.browser

OUT_OF_ITS_PLACE = """() => [...document.querySelectorAll(".facts > div")].filter(fact => {
    const place = fact.getBoundingClientRect(), text = document.createRange();
    text.selectNodeContents(fact);
    return [...text.getClientRects()].some(
        each => each.left < place.left - 1 || each.right > place.right + 1);
}).map(fact => fact.textContent)"""


@pytest.mark.parametrize("width", [1440, 1280, 768, 390])
def test_no_fact_of_a_job_or_run_lies_over_the_next_one(
    trained: tuple[str, str], opener: Opener, width: int
) -> None:
    root, job = trained
    page = opener(root, viewport={"width": width, "height": 900}).open(f"/jobs/{job}")
    expect(page.get_by_role("link", name="wflow-")).to_be_visible()
    assert page.evaluate(OUT_OF_ITS_PLACE) == []
    page.get_by_role("link", name="wflow-").click()
    expect(page.locator(".facts").first).to_be_visible()
    assert page.evaluate(OUT_OF_ITS_PLACE) == []
