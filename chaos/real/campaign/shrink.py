"""Makes a failing run small: fewer kinds of faults, then fewer faults, each played several times.

Processes do not repeat themselves as a simulator does. So a smaller plan counts if it fails the
same way in one of some plays, and the smallest one is reported with how often it does.
"""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from chaos.real.campaign.draw import LAST_MS
from chaos.real.campaign.plan import Plan, Step

_NUMBERS = re.compile(r"\d+")


@define
class Search:
    """The search for a smaller plan, within a budget of plays.

    `fails` plays a plan once, and is true if it fails as the first one did. `spent` is true when no
    time is left.
    """

    fails: Callable[[Plan], bool]
    times: int
    spent: Callable[[], bool] = lambda: False
    plays: int = field(default=0, init=False)

    def smallest(self, plan: Plan) -> Plan:
        """The smallest plan that was found to fail."""
        for kind in plan.kinds:
            smaller = plan.without(kind)
            if smaller.steps and self._fails_once(smaller):
                plan = smaller
        pieces = 2
        while len(plan.steps) > 1 and not self.spent():
            size = max(1, len(plan.steps) // pieces)
            for start in range(0, len(plan.steps), size):
                rest = plan.steps[:start] + plan.steps[start + size :]
                if rest and self._fails_once(evolve(plan, steps=rest)):
                    plan, pieces = evolve(plan, steps=rest), max(2, pieces - 1)
                    break
            else:
                if size == 1:
                    break
                pieces = min(len(plan.steps), pieces * 2)
        return plan

    def how_often(self, plan: Plan) -> tuple[int, int]:
        """The number of plays in which a plan fails, and of all plays."""
        failed = played = 0
        while played < self.times and not (played and self.spent()):
            self.plays += 1
            played += 1
            failed += self.fails(plan)
        return failed, played

    def _fails_once(self, plan: Plan) -> bool:
        for _ in range(self.times):
            if self.spent():
                return False
            self.plays += 1
            if self.fails(shorter(plan)):
                return True
        return False


def shorter(plan: Plan) -> Plan:
    """The same plan, whose end comes soon after its last fault."""
    last = max(_ends(step) for step in plan.steps)
    return evolve(plan, minutes=min(plan.minutes, (last + LAST_MS) / 60_000))


def _ends(step: Step) -> int:
    return step.at_ms + step.for_ms


def signatures(verdict: dict[str, Any]) -> set[str]:
    """The accusing finds of a run, without numbers: by these a failure is known again."""
    return {_NUMBERS.sub("N", one["what"]) for one in verdict["finds"] if not one["known"]}


def shrunk(
    plan: Plan, verdict: dict[str, Any], version: str, folder: Path, times: int, budget_s: float
) -> Iterator[str]:
    """Play ever smaller plans; the smallest is kept beside the run, and told."""
    from chaos.real.campaign import campaign

    wanted, ends = signatures(verdict), time.monotonic() + budget_s
    smaller = folder.with_name(f"{folder.name}.smaller")

    def fails(one: Plan) -> bool:
        return bool(wanted & signatures(campaign.run(one, version, smaller)))

    search = Search(fails, times, lambda: time.monotonic() > ends)
    found = shorter(search.smallest(plan))
    failed, played = search.how_often(found)
    kept = folder / "smallest.json"
    kept.write_bytes(found.as_json())
    yield (
        f"{len(plan.steps)} faults became {len(found.steps)} in {search.plays} plays; "
        f"they fail {failed} of {played} times; again: highwater chaos real --replay {kept} --out …"
    )
    yield from (f"  {step.at_ms / 1000:8.3f} s  {step}" for step in found.steps)
