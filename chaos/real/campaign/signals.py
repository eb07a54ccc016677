"""Faults of processes: killed, asked to end, paused, started on an empty or older disk."""

import signal
import time
from collections.abc import Callable

from chaos.real.campaign.effects import Effect
from chaos.real.campaign.plan import CONTROLLER, Step
from chaos.real.campaign.stage import Stage

WHOLE_S = 120.0
AGAIN_S = 90.0


def crash(stage: Stage, step: Step) -> Effect:
    """SIGKILL, and start it again."""
    return _down(stage, step, stage.victim(step), signal.SIGKILL)


def stop(stage: Stage, step: Step) -> Effect:
    """SIGTERM, which is a controlled shutdown, and start it again."""
    return _down(stage, step, stage.victim(step), signal.SIGTERM)


def pause(stage: Stage, step: Step) -> Effect:
    """SIGSTOP, and SIGCONT."""
    return _paused(stage, step, stage.victim(step))


def controller_crash(stage: Stage, step: Step) -> Effect:
    """The controller is killed, and starts again."""
    return _down(stage, step, CONTROLLER, signal.SIGKILL)


def controller_pause(stage: Stage, step: Step) -> Effect:
    """The controller is stopped for a while."""
    return _paused(stage, step, CONTROLLER)


def disk(stage: Stage, step: Step) -> Effect:
    """A broker loses its disk, while all others have everything, and nothing else is broken.

    More than this no promise survives: an acknowledged record must have a copy left.
    """
    return _loses(stage, lambda: stage.victim(step), stage.target.empty)


def older_disk(stage: Stage, step: Step) -> Effect:
    """A broker ends in good order, its disk is copied, and later it starts with that copy.

    It loses what came since, under the same condition as with an empty disk.
    """
    node = stage.victim(step)
    with stage.beside.others(), stage.node(node):
        stage.target.end(node, signal.SIGTERM)
        copy = stage.target.copy(node)
        if not stage.over.is_set():
            stage.target.start(node)
    stage.wait(step.for_ms)
    return _loses(stage, lambda: node, lambda _: stage.target.put_back(node, copy))


def _loses(stage: Stage, victim: Callable[[], int], lose: Callable[[int], int]) -> Effect:
    with stage.beside.nobody():
        if not stage.until(WHOLE_S, stage.whole):
            return Effect.none(f"the cluster was not whole: {stage.lacking()}")
        node = victim()
        with stage.node(node):
            stage.target.end(node, signal.SIGKILL)
            lost = lose(node)
            stage.target.start(node)
        stage.until(AGAIN_S, stage.whole)
    return Effect(lost, "no log was longer" * (not lost), f"broker {node}")


def _down(stage: Stage, step: Step, node: int, number: int) -> Effect:
    with stage.beside.others(), stage.node(node):
        began = time.monotonic()
        stage.target.end(node, number)
        stage.wait(step.for_ms)
        if not stage.over.is_set():  # an interrupted run starts nobody
            stage.target.start(node)
    return Effect(_since(began), "", _named(node))


def _paused(stage: Stage, step: Step, node: int) -> Effect:
    with stage.beside.others(), stage.node(node):
        began = time.monotonic()
        stage.target.signal(node, signal.SIGSTOP)
        try:
            stage.wait(step.for_ms)
        finally:
            stage.target.signal(node, signal.SIGCONT)
    return Effect(_since(began), "", _named(node))


def _named(node: int) -> str:
    return "the controller" if node == CONTROLLER else f"broker {node}"


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
