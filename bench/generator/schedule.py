"""Which lie is told in which generation."""

from collections.abc import Iterable

import numpy as np
from attrs import define

from bench.generator.lies import LIES, Lie
from bench.generator.plan import Plan
from bench.generator.scenes import SPOTS

Due = list[tuple[int, Lie]]  # numbered, so that no two lies share a name


@define
class NoPlace(Exception):
    """The refusal of a plan with more lies than its trace has places for."""

    lie: str

    def __str__(self) -> str:
        return (
            f"no partition is left for the lie {self.lie}: ask for fewer lies, or for more messages"
        )


def schedule(plan: Plan, random: np.random.Generator) -> list[Due]:
    """The lies of each generation; where there is no place left, one is told in the next."""
    due: list[Due] = [[] for _ in range(plan.chunks)]
    number = 0
    for one in LIES.values():
        if one.scene and not plan.scenes:
            continue
        for _ in range(min(plan.lies, 1) if one.once else plan.lies):
            free = _when(plan, one, due)
            due[int(random.choice(free))].append((number, one))
            number += 1
    return due


def _when(plan: Plan, one: Lie, due: list[Due]) -> list[int]:
    """The generations in which a lie may be told; a scene has room for a few at a time."""
    end = plan.chunks // (2 if one.rare else 1)  # what is rare may have to wait
    some = range(one.first, end if one.last is None else one.last + 1)
    free = [n for n in some if not one.scene or _told_there(one.scene, due[n]) < SPOTS]
    if not free:
        raise NoPlace(one.name)
    return free


def _told_there(scene: str, lies: Iterable[tuple[int, Lie]]) -> int:
    return sum(one.scene == scene for _, one in lies)


def rare_first(due: tuple[int, Lie]) -> tuple[bool, int]:
    """The order in which lies choose their places."""
    number, one = due
    return not one.rare, number
