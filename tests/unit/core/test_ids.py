"""How ids are drawn."""

import re
from collections import Counter

from appliance.core.ids import (
    AUTHORITY_SUFFIX,
    new_array_id,
    new_authority,
    new_job_id,
    new_workflow_id,
)

_MANY = 2000


def test_ids_are_a_prefix_and_22_letters_and_digits():
    for prefix, draw in (
        ("wsjob", new_job_id),
        ("wflow", new_workflow_id),
        ("array", new_array_id),
    ):
        assert re.fullmatch(rf"{prefix}-[a-z0-9]{{22}}", draw())


def test_the_secret_of_an_authority_fills_the_longest_label_of_a_dns_name():
    job = new_job_id()
    label, _, rest = new_authority(job).partition(".")
    assert re.fullmatch(rf"{job}-coordinator-0-[a-z0-9]{{20}}", label)
    assert len(label) == 63
    assert rest == AUTHORITY_SUFFIX


def test_no_two_ids_are_the_same_and_no_character_is_rare():
    ids = {new_job_id() for _ in range(_MANY)}
    assert len(ids) == _MANY
    found = Counter("".join(job.removeprefix("wsjob-") for job in ids))
    assert len(found) == 36
    # 1,222 of each are expected, with a deviation of 34: ten of those happen to nobody.
    assert all(880 < number < 1560 for number in found.values())
