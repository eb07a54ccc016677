"""Cycles of transactions that read from each other: Adya's G1c, and with real time as edges.

The kernels leave one edge per pair of units (transactions, or calls where there are none): the
first sent what the second read. A unit can lie on a cycle of such edges only if it both sends and
reads, so only edges that touch such a unit are there; without any there is nothing to do, and the
check for reads of the future (L10) has already found every cycle with real time.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from attrs import define, field

from traces.model.schema import NONE

Node = tuple[str, int, int]
EdgeEvent = Mapping[str, Any]
Graph = dict[Node, list[Node]]


@define
class Reads:
    """Reads of one transaction from another."""

    graph: Graph = field(factory=dict[Node, list[Node]])
    events: dict[tuple[Node, Node], list[EdgeEvent]] = field(
        factory=dict[tuple[Node, Node], list[EdgeEvent]]
    )
    times: dict[Node, tuple[int, int]] = field(factory=dict[Node, tuple[int, int]])

    def add(self, edge: list[EdgeEvent]) -> None:
        """The sender's event and the reader's."""
        one, two = (("unit", e["process"], e["unit"]) for e in edge)
        if (one, two) not in self.events:
            self.graph.setdefault(one, []).append(two)
            self.graph.setdefault(two, [])
            self.events[one, two] = edge
        for node, event in zip((one, two), edge, strict=True):
            self.times[node] = event["inv"], event["ret"]

    def cycle(self) -> list[EdgeEvent]:
        """The events (four at most) of a cycle of reads, or nothing."""
        return self._witness(self.graph)

    def cycle_in_time(self) -> list[EdgeEvent]:
        """As `cycle`, where *returned before it began* is an edge, too.

        Time is a chain of instants: a unit leads to the first instant after its return, and the
        instant of its beginning leads to it. So edges are few, not one per ordered pair.
        """
        graph = {node: list(after) for node, after in self.graph.items()}
        instants = sorted({t for span in self.times.values() for t in span if t != NONE})
        chain: list[Node] = [("instant", 0, i) for i in range(len(instants))]
        graph |= {node: chain[i + 1 : i + 2] for i, node in enumerate(chain)}
        for node, (began, returned) in self.times.items():
            after = bisect_right(instants, returned)
            if returned != NONE and after < len(instants):
                graph[node].append(chain[after])
            if began != NONE:
                graph[chain[bisect_right(instants, began) - 1]].append(node)
        return self._witness(graph)

    def _witness(self, graph: Graph) -> list[EdgeEvent]:
        for component in components(graph):
            for edge, events in self.events.items():
                if edge[0] in component and edge[1] in component:
                    path = [*_path(graph, component, edge[1], edge[0]), edge[1]]
                    return self._along(path, events)
        return []

    def _along(self, path: list[Node], first: list[EdgeEvent]) -> list[EdgeEvent]:
        """The sender and the reader of each read on the way round, until there are four."""
        out = [*first]
        for pair in pairwise(path):
            if pair in self.events and self.events[pair] is not first:
                out += self.events[pair]
        return out[:4]


def components(graph: Graph) -> Iterator[set[Node]]:
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, successors = work[-1]
            for after in successors:
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, iter(graph[after])))
                    break
                if after in on_stack:
                    low[node] = min(low[node], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    yield from _popped(node, stack, on_stack)


def _popped(node: Node, stack: list[Node], on_stack: set[Node]) -> Iterator[set[Node]]:
    component: set[Node] = set()
    while node not in component:
        component.add(last := stack.pop())
        on_stack.discard(last)
    if len(component) > 1:
        yield component


def _path(graph: Graph, inside: Iterable[Node], start: Node, goal: Node) -> list[Node]:
    """A shortest way from start to goal that stays inside."""
    allowed = set(inside)
    came: dict[Node, Node] = {start: start}
    queue = deque([start])
    while queue and goal not in came:
        node = queue.popleft()
        for after in graph[node]:
            if after in allowed and after not in came:
                came[after] = node
                queue.append(after)
    path = [goal]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]
