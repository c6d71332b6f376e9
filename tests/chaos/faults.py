"""What is done to the system, and what it promises for each fault. Pure: a seed makes the plan."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.chaos.actions import Action
from tests.chaos.world import LEASE_SECONDS, Shape

ROLES = ("coordinator", "weight", "broadcastreduce", "chief", "activation", "worker", "streamer")


class Promise(StrEnum):
    """What becomes of the job that a fault meets."""

    GOES_ON = "the job goes on, its losses stay the same"
    FAILS = "the job fails, named after what was lost"
    CANCELLED = "the job is cancelled once its lease has run out"
    RESTARTS = "the run is started again and ends with the same losses"


@dataclass(frozen=True, kw_only=True)
class Blow:
    """One thing done to one target.

    Attributes:
        action: What.
        target: A role, `streamer`, `fork server`, `management`, `client`, `driver` or `clock`; of
            several nodes `node`, `agent`, `fork server` or `network` with `of ROLE`.
        seconds: How long it stays stopped or cut; by how much a clock is set.
    """

    action: Action
    target: str
    seconds: float = 0.0

    @property
    def is_final(self) -> bool:
        """Whether the job cannot go on after it."""
        is_harmless = self.target == "management"  # jobs go on
        return self.action in (Action.KILL, Action.LIMIT) and not is_harmless

    @property
    def is_undone(self) -> bool:
        """Whether what is done lasts for its seconds, and is then undone."""
        return self.action in (Action.STOP, Action.CUT, Action.LOSE)

    def __str__(self) -> str:
        if self.is_undone:
            return f"{self.target} {self.action.value} {self.seconds:g} s"
        if self.action is Action.SET:
            return f"{self.target} set by {self.seconds / 3600:+g} h"
        return f"{self.target} {self.action.value}"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens at one moment: one blow, or two at once.

    Attributes:
        blows: What is done, at the same moment.
        promise: What becomes of the job.
    """

    blows: tuple[Blow, ...]
    promise: Promise

    @property
    def name(self) -> str:
        """As the table has it."""
        return " and ".join(map(str, self.blows))

    @property
    def is_final(self) -> bool:
        """Whether nothing more can be done to the job."""
        return self.promise in (Promise.FAILS, Promise.CANCELLED)

    @property
    def is_alone(self) -> bool:
        """Whether it would meet other jobs, too."""
        return any(blow.target == "fork server" and blow.is_final for blow in self.blows)

    @property
    def is_common(self) -> bool:
        """Whether it touches what other jobs need for a while."""
        return any(blow.target in ("fork server", "management", "clock") for blow in self.blows)

    @property
    def takes_management(self) -> bool:
        """Whether management has to be started again."""
        return any(b.target == "management" and b.action is Action.KILL for b in self.blows)

    @property
    def freezes_seconds(self) -> float:
        """How long a pod is silent through it."""
        pods = [blow.seconds for blow in self.blows if blow.action is Action.STOP]
        return max(pods, default=0.0)


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One job and what is done to it.

    Attributes:
        number: Its number.
        shape: What the job needs.
        faults: What is done, in order; only the last may be final.
        pauses: Seconds before each.
        is_detached: Whether the appliance runs the client.
        is_early: Whether the first fault meets a job that is about to start.
    """

    number: int
    shape: Shape
    faults: tuple[Fault, ...]
    pauses: tuple[float, ...]
    is_detached: bool = False
    is_early: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether no other job may run beside it."""
        return any(fault.is_alone for fault in self.faults)


def stopped(target: str, seconds: float) -> Fault:
    """Return the fault that stops something for a while."""
    blow = Blow(action=Action.STOP, target=target, seconds=seconds)
    return Fault(blows=(blow,), promise=Promise.GOES_ON)


def killed(target: str, promise: Promise = Promise.FAILS) -> Fault:
    """Return the fault that kills something."""
    return Fault(blows=(Blow(action=Action.KILL, target=target),), promise=promise)


def limited(role: str) -> Fault:
    """Return the fault that leaves a pod no more memory than it has."""
    blow = Blow(action=Action.LIMIT, target=role)
    return Fault(blows=(blow,), promise=Promise.FAILS)


def clock_set(hours: float) -> Fault:
    """Return the fault that sets the wall clock."""
    blow = Blow(action=Action.SET, target="clock", seconds=hours * 3600)
    return Fault(blows=(blow,), promise=Promise.GOES_ON)


def both(one: Fault, other: Fault) -> Fault:
    """Return two faults at once; what is worse is what is promised."""
    order = (Promise.CANCELLED, Promise.FAILS, Promise.RESTARTS, Promise.GOES_ON)
    promise = min(one.promise, other.promise, key=order.index)
    return Fault(blows=one.blows + other.blows, promise=promise)


def transient_faults(chance: random.Random) -> list[Fault]:
    """Return every kind of fault that a job survives, once."""
    pods = [stopped(role, round(chance.uniform(0.2, 2.5), 1)) for role in ROLES]
    long = [stopped(role, 7.5) for role in chance.sample(ROLES[:6], 2)]
    common = [
        stopped("management", 3.0),
        stopped("management", LEASE_SECONDS + 3.0),
        stopped("fork server", 2.0),
        stopped("client", 3.0),
        killed("management", Promise.GOES_ON),
        clock_set(2),
        clock_set(-2),
    ]
    one, other = chance.sample(pods, 2)
    pairs = [both(one, other), both(one, killed("management", Promise.GOES_ON))]
    return [*pods, *long, *common, *pairs]


def final_faults(chance: random.Random) -> list[Fault]:
    """Return every kind of fault that ends a job, once."""
    pods = [killed(role) for role in ROLES]
    one, other = chance.sample(pods[:6], 2)
    return [
        *pods,
        killed("client", Promise.CANCELLED),
        killed("fork server"),
        limited(chance.choice(ROLES[:6])),
        both(one, other),
        both(chance.choice(pods[:6]), killed("management", Promise.GOES_ON)),
        both(chance.choice(pods[:6]), stopped(chance.choice(ROLES[:6]), 2.0)),
    ]


def detached_faults(chance: random.Random) -> list[Fault]:
    """Return faults of runs that the appliance starts again."""
    targets = chance.sample([*ROLES[:6], "driver"], 3)
    return [killed(target, Promise.RESTARTS) for target in targets]


def plan(seed: int, num_faults: int) -> list[Episode]:
    """Return episodes with so many faults in all."""
    chance = random.Random(seed)
    shapes = [Shape(num_systems=1), Shape(num_systems=2), Shape(num_systems=3, num_shards=2)]
    transient: list[Fault] = []
    final: list[Fault] = []
    episodes: list[Episode] = []
    left = num_faults
    while left > 0:
        if not transient:
            transient = chance.sample(made := transient_faults(chance), len(made))
        faults = [transient.pop() for _ in range(min(chance.choice((1, 2, 3)), len(transient)))]
        if chance.random() < 0.75:
            if not final:
                final = chance.sample(made := final_faults(chance), len(made))
            faults.append(final.pop())
        faults = faults[:left]
        left -= len(faults)
        episodes.append(episode_of(chance, len(episodes), chance.choice(shapes), faults))
        if left > 0 and len(episodes) % 8 == 0:
            faults = [chance.choice(detached_faults(chance))]
            left -= 1
            detached = episode_of(chance, len(episodes), shapes[0], faults)
            episodes.append(replace(detached, is_detached=True))
    return episodes


def episode_of(
    chance: random.Random, number: int, shape: Shape, faults: Sequence[Fault]
) -> Episode:
    """Return an episode with chance pauses."""
    return Episode(
        number=number,
        shape=shape,
        faults=tuple(faults),
        pauses=tuple(round(chance.uniform(0.0, 0.6), 2) for _ in faults),
        is_early=chance.random() < 0.15,
    )
