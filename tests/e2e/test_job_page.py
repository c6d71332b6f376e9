"""The page of a job: evaluations apart from training, and what masks of weights save."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Opener, finished_job

pytestmark = pytest.mark.browser


def test_evaluation_and_training_have_charts_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, opener: Opener
) -> None:
    arguments = ("--model", "gpt_adamw", "--steps", "2", "--train-eval-train-eval")
    with finished_job(tmp_path_factory, *arguments) as (root, job):
        page = opener(root).open(f"/jobs/{job}")
        expect(page.get_by_role("heading", name="Training and evaluation")).to_be_visible()
        headings = page.get_by_role("heading", name=re.compile("loss"))
        expect(headings.filter(has_text="evaluation: ").first).to_be_visible()
        expect(headings.filter(has_not_text="evaluation: ").first).to_be_visible()
        expect(page.get_by_text("Ran for", exact=True)).to_be_visible()
        expect(page.get_by_text("session 4: step 2 of 2", exact=True)).to_be_visible()
        check_profiles(page)
        check_that_charts_turn_dark(page)
        page.close()


def check_profiles(page: Page) -> None:
    """Choose sessions: the profile of a training has a backward pass, an evaluation has none."""
    profile = page.get_by_role("region", name="Simulated time by module")
    passes = profile.get_by_role("cell", name="bwd", exact=True)
    chosen = profile.get_by_role("combobox", name="Profile of")
    expect(chosen).to_have_value("4")
    expect(profile.get_by_role("cell", name="fwd", exact=True).first).to_be_visible()
    expect(passes).to_have_count(0)
    chosen.select_option("3")
    expect(passes.first).to_be_visible()
    trace = profile.get_by_role("link", name="Chrome trace")
    expect(trace).to_have_attribute("href", re.compile(r"/profile\?session=3$"))


def check_that_charts_turn_dark(page: Page) -> None:
    """Switch the system's colours under an open page: its charts are the reloaded page's."""
    drawn = "document.querySelector('.chart canvas')?.toDataURL()"
    light = page.evaluate(drawn)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"light => {drawn} !== light", arg=light)
    dark = page.evaluate(drawn)
    page.reload()
    page.wait_for_function(f"dark => {drawn} === dark", arg=dark)


def test_masked_weights_say_what_they_save_and_what_stays_whole(
    tmp_path_factory: pytest.TempPathFactory, opener: Opener
) -> None:
    with finished_job(tmp_path_factory, "--model", "sparse_gpt", "--steps", "2") as (root, job):
        page = opener(root).open(f"/jobs/{job}")
        expect(page.get_by_role("heading", name="Masked weights", exact=True)).to_be_visible()
        density = "41.7 % of 6.14 k elements"
        for words in ("8 of 8", density, "Saved each step", "Simulated speed-up"):
            expect(page.get_by_text(words).first).to_be_visible()
        expect(page.get_by_text("6 weights: the program changes its mask")).to_be_visible()
        page.close()
