"""What users write after which a run is to start."""

import json

import pytest

from appliance.core.dependencies import Dependency, Outcome, parse_conditions
from appliance.core.errors import UserError


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["gpt"], ["ok:gpt"]),
        (["nlp/wsjob-1"], ["ok:nlp/wsjob-1"]),
        (["ok:gpt"], ["ok:gpt"]),
        (["afterok:gpt"], ["ok:gpt"]),
        (["any:gpt"], ["any:gpt"]),
        (["afterany:gpt"], ["any:gpt"]),
        (["AfterAny:gpt"], ["any:gpt"]),
        (["notok:gpt"], ["notok:gpt"]),
        (["afternotok:gpt"], ["notok:gpt"]),
        (["afterok:a:b:c"], ["ok:a", "ok:b", "ok:c"]),
        (["afterok:a,afterany:b"], ["ok:a", "any:b"]),
        (["afterok:a, afterany:b", "c"], ["ok:a", "any:b", "ok:c"]),
        (["a", "ok:a", "afterok:a:a"], ["ok:a"]),
        (["any"], ["ok:any"]),  # a run may be called so
    ],
)
def test_conditions_are_written_as_for_slurm(texts, found):
    assert [each.text for each in parse_conditions(texts)] == found
    assert [each.text for each in parse_conditions(found)] == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names nothing"),
        (",", "names nothing"),
        ("a,", "names nothing"),
        ("ok:", "names nothing"),
        ("afterok:a:", "names nothing"),
        ("afterok::a", "names nothing"),
        (":a", "not understood"),
        ("a:b", "not understood at 'a'"),
        ("afternot:a", "not understood"),
        ("afterok:a?afterany:b", "one or the other"),
        ("after:a", "follow ends, not starts"),
        ("after:a+10", "follow ends, not starts"),
        ("aftercorr:a", "not their indices one by one"),
        ("singleton", "name the run"),
        ("afterburstbuffer:a", "burst buffers"),
    ],
)
def test_what_is_not_possible_is_refused_with_what_is(text, why):
    with pytest.raises(UserError, match=why) as caught:
        parse_conditions([text])
    assert "afternotok:NAME" in caught.value.hint


def test_what_is_waited_for_outlives_a_restart_and_an_update():
    wanted = Dependency(jobs=("wsjob-a", "wsjob-b"), outcome=Outcome.FAILURE)
    assert Dependency.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    assert Dependency.from_json("wsjob-a") == Dependency(jobs=("wsjob-a",))
