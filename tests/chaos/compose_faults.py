"""What is done to the appliance of docker-compose.yml: the faults of pods, and those of nodes."""

import random
from dataclasses import replace

from tests.chaos.faults import (
    ROLES,
    Action,
    Blow,
    Episode,
    Fault,
    Promise,
    both,
    episode_of,
    killed,
    limited,
    stopped,
)
from tests.chaos.world import Shape

NODE_ROLES = ROLES[:6]
_SHAPES = (Shape(num_systems=1), Shape(num_systems=2))


def _on_network(action: Action, role: str, seconds: float) -> Fault:
    blow = Blow(action=action, target=f"network of {role}", seconds=seconds)
    return Fault(blows=(blow,), promise=Promise.GOES_ON)


def transient_faults(chance: random.Random) -> list[Fault]:
    """Return every kind of fault that a job survives, once."""
    one, other, third, fourth, fifth = chance.sample(NODE_ROLES, 5)
    return [
        stopped(one, round(chance.uniform(0.2, 2.5), 1)),
        stopped(f"agent of {other}", 3.0),
        stopped(f"node of {third}", 8.0),
        _on_network(Action.CUT, fourth, 3.0),
        _on_network(Action.LOSE, fifth, 4.0),
        stopped("management", 5.0),
        stopped("client", 3.0),
        killed("management", Promise.GOES_ON),
        both(stopped(other, 1.5), killed("management", Promise.GOES_ON)),
        both(stopped(third, 2.0), _on_network(Action.CUT, one, 3.0)),
    ]


def final_faults(chance: random.Random) -> list[Fault]:
    """Return every kind of fault that ends a job, once."""
    pods = [killed(role) for role in chance.sample(ROLES, 4)]
    one, other, third = chance.sample(NODE_ROLES, 3)
    return [
        *pods,
        killed("client", Promise.CANCELLED),
        killed(f"node of {one}"),
        killed(f"agent of {other}"),
        killed(f"fork server of {third}"),
        limited(chance.choice(NODE_ROLES)),
        both(killed(one), stopped(other, 2.0)),
    ]


def plan(seed: int, num_faults: int) -> list[Episode]:
    """Return episodes with so many faults in all; the last of each but some ends its job.

    Every fifth is a detached run, which is started again.
    """
    chance = random.Random(seed)
    transient: list[Fault] = []
    final: list[Fault] = []
    episodes: list[Episode] = []
    left = num_faults
    while left > 0:
        if left > 1 and len(episodes) % 5 == 2:
            role = chance.choice([*NODE_ROLES[:5], "driver"])
            again = (killed(role, Promise.RESTARTS),)
            made = episode_of(chance, len(episodes), _SHAPES[0], again)
            episodes.append(replace(made, is_detached=True, is_early=False))
            left -= 1
            continue
        if not transient:
            transient = chance.sample(made := transient_faults(chance), len(made))
        if not final:
            final = chance.sample(made := final_faults(chance), len(made))
        faults = [transient.pop(), *([final.pop()] if chance.random() < 0.8 else [])][:left]
        episodes.append(episode_of(chance, len(episodes), chance.choice(_SHAPES), faults))
        left -= len(faults)
    return episodes
