"""Plays a plan on a stage: each fault at its time, undone after its time, its effect counted."""

import time
import traceback
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from attrs import define, field, frozen

from chaos.real.campaign import clients, links, operations, signals
from chaos.real.campaign.effects import Effect
from chaos.real.campaign.plan import BROKERS, Step
from chaos.real.campaign.stage import Stage
from chaos.real.campaign.vocabulary import KINDS

Fault = Callable[[Stage, Step], Effect]
LOOK_S = 0.5
JOIN_S = 300.0
WHOLE_S = 150.0

FAULTS: Mapping[str, Fault] = {
    "crash": signals.crash,
    "stop": signals.stop,
    "pause": signals.pause,
    "disk": signals.disk,
    "controller_crash": signals.controller_crash,
    "controller_pause": signals.controller_pause,
    "requests": links.requests,
    "cut": links.cut,
    "slow": links.slow,
    "lag": links.lag,
    "expire": links.expire,
    "isr": links.isr,
    "elect": operations.elect,
    "reassign": operations.reassign,
    "add_partition": operations.add_partition,
    "recreate": operations.recreate,
    "delete_records": operations.delete_records,
    "configure": operations.configure,
    "client_crash": clients.client,
    "client_pause": clients.client,
    "client_takeover": clients.client,
    "member_leave": clients.member,
    "member_restart": clients.member,
    "transaction_version": operations.feature,
    "elr_version": operations.feature,
    "older_disk": signals.older_disk,
}


@frozen
class Done:
    """A fault that was played: its time by the host's clock, and its effect."""

    step: Step
    at_ns: int
    until_ns: int
    effect: Effect

    @property
    def unit(self) -> str:
        """The unit of the effect."""
        return KINDS[self.step.kind].effect

    def as_json(self) -> dict[str, Any]:
        """For programs, and for a report that shades its time."""
        about = f" ({self.effect.about})" if self.effect.about else ""
        return {
            "what": f"{self.step}{about}",
            "at_ns": self.at_ns,
            "until_ns": self.until_ns,
            "kind": self.step.kind,
            "effect": self.effect.amount,
            "unit": self.unit,
            "why": self.effect.why,
        }


@define(eq=False)
class Player:
    """The faults of a plan while they are played."""

    stage: Stage
    faults: Mapping[str, Fault] = FAULTS
    done: list[Done] = field(factory=list[Done])
    #: Faults that could not be played, and why
    broken: list[str] = field(factory=list[str])

    def play(self) -> None:
        """Begin each fault at its time, wait for the run's end, and undo everything."""
        began, threads = time.monotonic(), list[Thread]()
        try:
            for step in self.stage.plan.steps:
                self._wait_until(began + step.at_ms / 1000)
                if self.stage.over.is_set():
                    break
                thread = Thread(target=self._happens, args=(step,), daemon=True)
                threads.append(thread)
                thread.start()
            self._wait_until(began + self.stage.plan.minutes * 60)
        except BaseException:
            self.stage.over.set()
            raise
        finally:
            for thread in threads:
                thread.join(JOIN_S)
            if any(thread.is_alive() for thread in threads):
                self.broken.append(f"a fault does not end within {JOIN_S:.0f} s")
            self.heal()

    def heal(self) -> None:
        """End all rules, and start whoever is down; what faults have not undone themselves."""
        self.stage.target.proxies.lift()
        for node in BROKERS:
            if not self.stage.target.running(node) and not self.stage.over.is_set():
                self.stage.target.start(node)

    def settle(self) -> str:
        """Wait until the cluster is whole; what is missing, or nothing."""
        whole = self.stage.until(WHOLE_S, self.stage.whole)
        return "" if whole else f"not whole within {WHOLE_S:.0f} s: {self.stage.lacking()}"

    def _happens(self, step: Step) -> None:
        at_ns = time.monotonic_ns()
        try:
            effect = self.faults[step.kind](self.stage, step)
        except Exception as failure:  # of a broker that does not start, or of ours
            self.broken.append(f"{step}: {failure!r}")
            traceback.print_exc()
            effect = Effect.none(repr(failure))
        self.done.append(Done(step, at_ns, time.monotonic_ns(), effect))

    def _wait_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0 and not self.stage.over.is_set():
            self.stage.wait(1000 * min(LOOK_S, left))
            self.stage.clients.look()
