"""The steps of the no-loss recipe, and what is set where one of them is left out."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from attrs import field, frozen

REPLICAS = 3


@frozen
class Settings:
    """Of one run: the topic's, the producer's, the consumer's, and the application's habits."""

    replicas: int = REPLICAS
    min_isr: int = REPLICAS - 1
    unclean: bool = False
    acks: str = "all"
    idempotence: bool = True
    retries: int = 1_000_000
    callback: bool = True
    commit_first: bool = False
    reset: str = "earliest"

    @property
    def topic(self) -> dict[str, Any]:
        """What the topic is made with."""
        return {
            "replicas": self.replicas,
            "min_insync_replicas": self.min_isr,
            "unclean_leader_election_enable": self.unclean,
        }

    @property
    def producer(self) -> dict[str, Any]:
        """What the producer is made with."""
        return {
            "acks": self.acks,
            "enable_idempotence": self.idempotence,
            "retries": self.retries,
        }


@frozen
class Step:
    """A step of the recipe: its name, how it reads where it is left out, and what that sets."""

    name: str
    left_out: str
    changes: Mapping[str, Any] = field(factory=dict[str, Any])


STEPS: Mapping[str, Step] = {
    step.name: step
    for step in (
        Step("callback", "nobody reads what `on_delivery` says", {"callback": False}),
        Step("acks", "`acks=1`", {"acks": "1", "idempotence": False}),
        Step("idempotence", "`enable.idempotence=false`", {"idempotence": False}),
        Step("retries", "`retries=0`", {"retries": 0, "idempotence": False}),
        Step("replication", "one replica", {"replicas": 1, "min_isr": 1}),
        Step("min.insync", "`min.insync.replicas=1`", {"min_isr": 1}),
        Step("unclean off", "`unclean.leader.election.enable=true`", {"unclean": True}),
        Step("commit after", "commit, then process", {"commit_first": True}),
        Step("reset", "`auto.offset.reset=latest`", {"reset": "latest"}),
    )
}

Row = tuple[str, ...]
"""The steps that are left out: none, one, or two."""


def rows() -> list[Row]:
    """The recipe, each step, and each pair of steps."""
    return [row for count in (0, 1, 2) for row in combinations(STEPS, count)]


def settings_of(row: Iterable[str]) -> Settings:
    """The recipe without these steps."""
    changes = [STEPS[name].changes for name in row]
    return Settings(**{name: value for one in changes for name, value in one.items()})
