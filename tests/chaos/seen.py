"""A simulation of which nothing is there but watchers and what they are shown."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.oracles.violation import Violation


@define
class Seen:
    """Stands for a simulation: who watches, and what is observed."""

    watchers: dict[type, list[Callable[[int, Any], None]]] = field(factory=dict[type, Any])
    settings: Any = None
    timeline: Any = field(factory=lambda: SimpleNamespace(now=0))
    network: Any = None

    def watch(self, kind: type, watcher: Callable[[int, Any], None]) -> None:
        self.watchers.setdefault(kind, []).append(watcher)

    def observe(self, who: int, seen: Any) -> None:
        for watcher in self.watchers[type(seen)]:
            watcher(who, seen)


def reported(oracle: str) -> Any:
    return pytest.raises(Violation, match=oracle)
