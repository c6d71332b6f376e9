"""The wafer's page: the grid to scale, with axes, and every session's own picture."""

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Opener, finished_job

pytestmark = pytest.mark.browser

GRID = (750, 994)
"""Columns and rows of a CS-2's PEs."""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the root URL of an appliance, and a job that trained and evaluated twice."""
    arguments = ("--model", "gpt_adamw", "--steps", "2", "--train-eval-train-eval")
    with finished_job(tmp_path_factory, *arguments) as finished:
        yield finished


@pytest.fixture
def page(sessions: tuple[str, str], opener: Opener) -> Iterator[Page]:
    """Return the wafer's page."""
    root, job = sessions
    page = opener(root).open(f"/jobs/{job}/wafer")
    yield page
    page.goto("about:blank")


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_the_grid_is_drawn_to_scale_with_its_axes(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for title in ("Who works", "What each PE holds"):
        card = page.get_by_role("region", name=re.compile(title))
        box = card.get_by_role("img").bounding_box()
        assert box is not None
        assert box["width"] / box["height"] == pytest.approx(GRID[0] / GRID[1], rel=0.01)
        columns, rows = card.locator(".axis.across"), card.locator(".axis.down")
        expect(columns).to_contain_text("columns: features")
        expect(rows).to_contain_text("rows: tokens")
        for axis, last, along in ((columns, GRID[0], "width"), (rows, GRID[1], "height")):
            numbers = axis.locator("span").all_text_contents()
            assert (numbers[0], numbers[-1]) == ("0", str(last))
            drawn = axis.bounding_box()
            assert drawn is not None
            assert drawn[along] == pytest.approx(box[along], abs=1)


def test_kernels_are_named_and_the_time_between_layer_steps_is_said(page: Page) -> None:
    steps = page.get_by_role("combobox", name="Layer step")
    title = steps.locator("option").filter(has_text="blocks.0.fwd").first.text_content()
    steps.select_option(label=title)
    kernels = page.get_by_role("region", name="What lies where").get_by_role("row")
    expect(kernels.filter(has_text=re.compile(r"\d+ x, mostly matmul")).first).to_be_visible()
    time = page.get_by_role("region", name="Where a step's time goes")
    between = time.get_by_role("row").filter(has_text="Between layer steps")
    expect(between).to_contain_text(re.compile(r"[1-9][0-9.]* (ms|\u00b5s)"))
    expect(between).to_contain_text("kernels change, buffers drain")


def test_a_session_is_chosen_and_kept_in_the_address(page: Page) -> None:
    chosen = page.get_by_role("combobox", name="Session")
    backward = page.locator(".legend").get_by_text("backward", exact=True)
    expect(chosen).to_have_value("4")
    expect(page.get_by_role("img", name=re.compile("Who works"))).to_be_visible()
    expect(backward).to_have_count(0)  # it evaluates
    chosen.select_option("3")
    expect(backward).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?session=3$"))
    page.reload()
    expect(chosen).to_have_value("3")
    expect(backward).to_be_visible()
    names = page.get_by_role("option", name=re.compile(r"^Session \d"))
    expect(names).to_have_text(
        [
            f"Session {number}: {kind}, step 2 of 2"
            for number, kind in enumerate(("training", "evaluation") * 2, 1)
        ]
    )


def test_a_session_keeps_its_readings_when_others_follow(
    sessions: tuple[str, str], page: Page
) -> None:
    root, job = sessions
    with urllib.request.urlopen(f"{root}/api/v1/jobs/{job}/sessions") as answer:
        first = json.load(answer)["items"][0]
    with urllib.request.urlopen(f"{root}/api/v1/jobs/{job}/wafer?session=1") as answer:
        seconds = json.load(answer)["simulated_step_seconds"]
    assert first["readings"]["simulated_step_seconds"] == pytest.approx(seconds, rel=1e-6)
    page.get_by_role("combobox", name="Session").select_option("1")
    total = page.get_by_text(re.compile(r"^Together .*, the simulated step"))
    words = f"{1e6 * seconds:.3g} \u00b5s" if seconds < 1e-3 else f"{1e3 * seconds:.3g} ms"
    expect(total).to_contain_text(f"Together {words}")
