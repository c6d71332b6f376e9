"""How a login at an identity provider begins and ends."""

from urllib.parse import quote

import pytest

from appliance.core.cluster.access import UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import UnauthenticatedError
from appliance.management.access.authorization import Access, AccessOptions
from appliance.management.access.provider_logins import GroupRole, LoginRules
from appliance.management.access.provider_options import ProviderOptions
from appliance.management.access.single_sign_on import ATTEMPT_SECONDS, SingleSignOn
from appliance.management.access.tokens import Tokens
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock

ISSUER = "https://id.example"
OPERATOR = User(uid=500, gid=500, name="ops")
LEADS = GroupRole(group="leads", role=UserRole.SESSION_ADMIN, sessions=("nlp",))
ADA = {"preferred_username": "ada", "uid": 1000, "gid": 100, "sub": "x1"}


class PlayedProvider:
    """Vouches for whoever `person` is, and remembers the attempt that asked."""

    def __init__(self):
        self.person, self.asked = dict(ADA), []

    def authorization_url(self, attempt):
        return f"{ISSUER}/authorize?state={quote(attempt.state)}"

    def claims(self, code, attempt):
        self.asked.append((code, attempt.state))
        return self.person


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def access(tmp_path, clock):
    database = Database.open_sqlite(tmp_path / "state.db")
    repository = State.over(database, clock).access
    options = AccessOptions(
        needs_token=True, operator=OPERATOR, serves_all=False, is_vouched_for=False
    )
    yield Access(repository, Tokens(repository, b"k" * 32, clock), options, clock)
    database.close()


@pytest.fixture
def provider():
    return PlayedProvider()


@pytest.fixture
def logins(access, provider, clock):
    rules = LoginRules(roles=(LEADS,))
    options = ProviderOptions(issuer=ISSUER, client_id="wafer", rules=rules)
    return SingleSignOn(options, provider, access, clock)


def state_of(begun):
    return begun.url.partition("state=")[2]


def finish(logins, begun, **changed):
    told = {"sealed": begun.sealed, "state": state_of(begun), "code": "c", "peer_uid": None}
    return logins.finish(**{**told, **changed})


def test_who_comes_back_from_the_provider_is_logged_in_and_sees_the_page(
    logins, access, provider
) -> None:
    begun = logins.begin("/queue")
    login, page = finish(logins, begun)
    assert (login.record.user, page) == ("ada", "/queue")
    assert provider.asked == [("c", state_of(begun))]
    account = access.load_account("ada")
    assert (account.uid, account.gid, account.role) == (1000, 100, UserRole.USER)


@pytest.mark.parametrize("issuer", ["", ISSUER])
def test_an_answer_may_say_that_it_is_of_the_provider_or_say_nothing(logins, issuer) -> None:
    login, _ = finish(logins, logins.begin("/"), issuer=issuer)
    assert login.record.user == "ada"


def refused(logins, begun, why, **changed):
    with pytest.raises(UnauthenticatedError, match=why):
        finish(logins, begun, **changed)


def test_an_answer_of_another_provider_is_refused_before_its_code_is_used(logins, provider) -> None:
    refused(logins, logins.begin("/"), "another identity provider", issuer="https://evil.example")
    assert provider.asked == []


def test_an_answer_to_another_question_is_refused(logins, provider) -> None:
    mine, other = logins.begin("/"), logins.begin("/")
    refused(logins, mine, "to another question", state=state_of(other))
    refused(logins, mine, "to another question", state="")
    assert provider.asked == []


def test_a_login_that_this_browser_has_not_begun_is_refused(logins) -> None:
    refused(logins, logins.begin("/"), "begun no login", sealed="nothing")


@pytest.mark.parametrize(
    ("seconds", "is_in_time"), [(ATTEMPT_SECONDS, True), (ATTEMPT_SECONDS + 1, False)]
)
def test_somebody_may_be_at_the_provider_for_ten_minutes(
    logins, clock, seconds, is_in_time
) -> None:
    begun = logins.begin("/")
    clock.advance(seconds)
    if is_in_time:
        assert finish(logins, begun)[0].record.user == "ada"
    else:
        refused(logins, begun, "begun no login in the last ten minutes")


def test_a_persons_role_follows_their_groups_at_each_login(logins, access, provider) -> None:
    def role():
        finish(logins, logins.begin("/"))
        account = access.load_account("ada")
        return account.role, tuple(account.sessions)

    assert role() == (UserRole.USER, ())
    provider.person["groups"] = ["leads"]
    assert role() == (UserRole.SESSION_ADMIN, ("nlp",))
    assert role() == (UserRole.SESSION_ADMIN, ("nlp",))
    provider.person["groups"] = []
    assert role() == (UserRole.USER, ())
