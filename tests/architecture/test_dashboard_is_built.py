"""The committed pages are built from the committed sources and load nothing from elsewhere."""

import re

from appliance.dashboard.digest import DIGEST, source_digest
from appliance.dashboard.pages import STATIC


def test_the_built_pages_are_those_of_the_sources() -> None:
    assert DIGEST.read_text().strip() == source_digest(), "run `make dashboard`"


def test_the_page_loads_only_what_is_beside_it() -> None:
    page = (STATIC / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert loaded
    for path in loaded:
        assert path.startswith("/assets/")
        assert (STATIC / path.removeprefix("/assets/")).exists(), path
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
