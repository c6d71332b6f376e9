"""Which functions can call each other in a circle."""

from collections.abc import Iterator

from appliance.csl.program import Call, CodeClass, Map


def _callees(source: CodeClass, number: int) -> Iterator[int]:
    for block in source.functions[number].blocks:
        for instruction in block.instructions:
            if isinstance(instruction, Call | Map):
                yield instruction.function


def cycles_of(source: CodeClass) -> list[int | None]:
    """Return for each function the number of its circle of calls, None if it is in none."""
    graph = [sorted(set(_callees(source, number))) for number in range(len(source.functions))]
    reached = [_reachable(graph, number) for number in range(len(graph))]
    groups: list[int | None] = [None] * len(graph)
    for number, targets in enumerate(reached):
        if number in targets:
            groups[number] = min(other for other in targets if number in reached[other])
    return groups


def _reachable(graph: list[list[int]], start: int) -> set[int]:
    found: set[int] = set()
    waiting = list(graph[start])
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting.extend(graph[number])
    return found
