"""The schedule of anomalies: the generation in which each is injected."""

from collections.abc import Iterable, Mapping

import numpy as np
from attrs import define

from traces.generate.anomalies import IN_ROWS, InRows
from traces.generate.plan import ROWS_PER_MESSAGE, Plan
from traces.generate.scenarios import SCENARIO_PARTITIONS

Due = list[tuple[int, InRows]]  # numbered, so that no two anomalies share a name


@define
class NoRoom(Exception):
    """The refusal of a plan with more anomalies than its trace has tps for."""

    anomaly: str

    def __str__(self) -> str:
        return (
            f"no partition is left for the anomaly {self.anomaly}: "
            "ask for fewer anomalies, or for more rows"
        )


def plan_of(
    rows: int,
    seed: int = 7,
    anomalies: int | Mapping[str, int] = 2,
    scenarios: bool | None = None,
) -> Plan:
    """A trace of about this many rows, with so many anomalies of each kind, or of these kinds.

    It has the topics of the scenarios if it has anomalies, unless that is said.
    """
    if isinstance(anomalies, int):
        anomalies = dict.fromkeys(IN_ROWS, anomalies)
    if scenarios is None:
        scenarios = any(anomalies.values())
    return Plan(int(rows / ROWS_PER_MESSAGE), seed, dict(anomalies), scenarios)


def schedule(plan: Plan, random: np.random.Generator) -> list[Due]:
    """The anomalies of each generation; where no partition is left, one is injected in the next."""
    due: list[Due] = [[] for _ in range(plan.chunks)]
    number = 0
    for one in IN_ROWS.values():
        wanted = plan.anomalies.get(one.name, 0)
        if one.scenario and not plan.scenarios:
            continue
        for _ in range(min(wanted, 1) if one.once else wanted):
            free = _when(plan, one, due)
            due[int(random.choice(free))].append((number, one))
            number += 1
    return due


def _when(plan: Plan, one: InRows, due: list[Due]) -> list[int]:
    """The generations in which an anomaly may be injected; a scenario has room for a few each."""
    end = plan.chunks // (2 if one.rare else 1)  # what is rare may have to wait
    some = range(one.first, end if one.last is None else one.last + 1)
    free = [
        n
        for n in some
        if not one.scenario or _in_scenario(one.scenario, due[n]) < SCENARIO_PARTITIONS
    ]
    if not free:
        raise NoRoom(one.name)
    return free


def _in_scenario(scenario: str, anomalies: Iterable[tuple[int, InRows]]) -> int:
    return sum(one.scenario == scenario for _, one in anomalies)


def rare_first(due: tuple[int, InRows]) -> tuple[bool, int]:
    """The order in which anomalies choose their tps."""
    number, one = due
    return not one.rare, number
