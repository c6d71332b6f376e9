"""Which namespace the jobs of a session are in. Pure.

A session that the settings name has a namespace to itself; all other sessions share management's
own. So a namespace says which session a wsjob is of, and a session where its jobs are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.core.errors import UserError

PROPERTY = "namespace"
"""Property of a session by which csctl, REST and the dashboard show its namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNamespaces:
    """The namespaces of one appliance.

    Attributes:
        own: Management's own.
        mapped: The others, by session.
    """

    own: str
    mapped: Mapping[str, str] = field(default_factory=dict)

    def of_session(self, session: str) -> str:
        """Return the namespace of a session's jobs."""
        return self.mapped.get(session, self.own)

    def session_in(self, namespace: str) -> str:
        """Return the session that a namespace is for; empty for one that is for several."""
        return next((name for name, its in self.mapped.items() if its == namespace), "")

    def require(self, session: str, namespace: str) -> None:
        """Hold a wsjob's session to be the one, or one of those, of its namespace.

        Raises:
            UserError: It is another namespace's.
        """
        if (home := self.of_session(session)) == namespace:
            return
        raise UserError(
            f"Namespace {namespace} does not hold jobs of session {session!r}, whose jobs are in "
            f"namespace {home}.",
            hint=f"Create the wsjob in namespace {home}, or name another session.",
        )
