"""Runs a plan of faults on an appliance, and counts."""

import contextlib
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.chaos import compose_faults, places
from tests.chaos.compose_world import ComposeWorld
from tests.chaos.episodes import Finding, Run
from tests.chaos.faults import Episode, plan
from tests.chaos.world import Shape, World, read_story

NUM_WORKERS = 3
NUM_SYSTEMS = 9
"""So that no job of a worker waits for another's."""
REFERENCE_STEPS = 125
"""As many as any job of a plan has."""


def references(world, shapes):
    """Return the losses of an undisturbed job of every shape."""
    found = {}
    for shape in shapes:
        name = f"reference-{shape.num_systems}-{shape.num_shards}"
        world.release(name)
        client = world.start_client(name, shape, steps=REFERENCE_STEPS, seconds_per_batch=0.0)
        story = world.story_path(name)
        assert client.wait(600) == 0, (*read_story(story), story.with_suffix(".log").read_text())
        found[shape] = [each["loss"] for each in read_story(story) if "loss" in each]
        assert len(found[shape]) == REFERENCE_STEPS
    return found


def run_all(directory, seed, num_faults, *, patience=1.0, say=print):
    """Hurt an appliance, and others whose disk, shared memory or network is bad.

    Args:
        directory: Where everything lies.
        seed: Of the plan.
        num_faults: Faults of the plan.
        patience: By how much the promised times are stretched: 1 on a machine of the bench's own.
        say: Called with a line for each fault.
    """
    with appliance(directory / "whole", "--systems", str(NUM_SYSTEMS)) as world:
        world.patience = patience
        episodes = plan(seed, num_faults)
        reference = references(world, {Shape(), *(episode.shape for episode in episodes)})
        findings = run_plan(world, episodes, reference, say=say)
    if places.can_be_made():
        rounds = max(1, num_faults // 200)
        losses = reference[Shape()]
        for name, make in (
            ("disk", lambda where: places.full_disk(where, losses, rounds)),
            ("shm", places.tiny_shared_memory),
            ("network", lambda where: places.bad_network(where, losses, rounds)),
            ("distance", lambda where: places.distant_hosts(where, losses, rounds)),
        ):
            where = directory / name
            where.mkdir()
            found = make(where)
            findings += found
            for finding in found:
                say(f"     {finding.fault.name}: {finding.misses or 'kept'}")
    return findings


@contextlib.contextmanager
def appliance(directory, *arguments):
    """Yield a world that is up."""
    directory.mkdir()
    world = World(directory, arguments=arguments)
    world.up()
    try:
        yield world
    finally:
        world.down()


def run_on_compose(compose, engine, port, seed, num_faults, *, patience=1.0, say=print):
    """Hurt a project of docker-compose.yml, one job at a time; return what was found."""
    world = ComposeWorld(compose, engine, port)
    world.patience = patience
    episodes = compose_faults.plan(seed, num_faults)
    reference = references(world, {Shape(), *(episode.shape for episode in episodes)})
    return run_plan(world, episodes, reference, say=say, num_workers=1)


def run_plan(world, episodes, reference, *, say=print, num_workers=NUM_WORKERS):
    """Carry a plan out; return what was found."""
    lock, findings = threading.Lock(), []

    def carry_out(episode: Episode):
        begun = time.monotonic()
        try:
            found = Run(world, episode, reference[episode.shape]).carry_out()
        except Exception:  # noqa: BLE001 - outermost frame of an episode; it is counted
            found = [Finding(fault=fault) for fault in episode.faults]
            for finding in found:
                finding.misses["bench"] = traceback.format_exc()[-1500:]
        with lock:
            findings.extend(found)
            for finding in found:
                say(_line(episode, finding, time.monotonic() - begun))

    with ThreadPoolExecutor(num_workers) as threads:
        list(threads.map(carry_out, [e for e in episodes if not e.is_alone]))
    for episode in episodes:
        if episode.is_alone:
            carry_out(episode)
    return findings


def _line(episode, finding, seconds):
    kind = "detached" if episode.is_detached else "attached"
    what = f"{episode.shape.num_systems}x{episode.shape.num_shards} {kind}"
    reason = (
        "" if finding.reason_seconds is None else f" named after {finding.reason_seconds:.1f} s"
    )
    misses = "; ".join(f"{kind}: {what}" for kind, what in finding.misses.items())
    state = misses or ("late" if finding.is_late else "")
    told = f"{episode.number:4} {what:16} {finding.fault.name:44}{reason}"
    return f"{told} {state or 'kept'} ({seconds:.0f} s)"


def table(findings):
    """Return the lines of the table, and whether every promise was kept."""
    counted = [finding for finding in findings if finding.misses or not finding.is_late]
    misses = Counter(kind for finding in counted for kind in finding.misses)
    by_name = {}
    for finding in counted:
        name = " and ".join(f"{blow.target} {blow.action}" for blow in finding.fault.blows)
        if len(finding.fault.blows) > 1:
            name = "two at once"
        by_name.setdefault((name, finding.fault.promise.value), []).append(finding)
    lines = [
        "| fault | times | kept | slowest named reason | promise |",
        "|---|---:|---:|---:|---|",
    ]
    for (name, promise), group in sorted(by_name.items()):
        kept = sum(not each.misses for each in group)
        seconds = [each.reason_seconds for each in group if each.reason_seconds is not None]
        slowest = f"{max(seconds):.1f} s" if seconds else ""
        lines.append(f"| {name} | {len(group)} | {kept} | {slowest} | {promise} |")
    names = ("lost", "duplicated", "hung", "losses differ", "left over", "reason", "late reason")
    names += tuple(sorted(set(misses) - set(names)))
    summary = ", ".join(f"{misses[name]} {name}" for name in names)
    lines += ["", f"{len(counted)} faults: {summary}."]
    if len(findings) > len(counted):
        lines.append(f"{len(findings) - len(counted)} more came after the end of their job.")
    return lines, not misses
