"""One run of a campaign: a cluster, its clients, the faults of a plan, and the recording."""

import logging
import time
from collections import Counter
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

from chaos.real.campaign.clients import RunClients, administrator, of_admin
from chaos.real.campaign.kafka_target import kafka
from chaos.real.campaign.operations import made
from chaos.real.campaign.own_target import highwater
from chaos.real.campaign.plan import Plan
from chaos.real.campaign.player import Done, Player
from chaos.real.campaign.stage import Stage
from chaos.real.campaign.target import Target, bootstrap
from chaos.real.campaign.transactions import open_transactions
from chaos.real.campaign.vocabulary import KAFKA

READY_S = 60.0


@frozen
class Played:
    """The faults of a run, and what went wrong in it beside the promises."""

    plan: Plan
    done: list[Done]
    #: Transactions, groups and nodes that do not come to an end after all faults
    stuck: list[str]
    #: Faults and clients of ours that broke
    broken: list[str]
    counts: Counter[str]
    began_ns: int
    complete: bool


def target_of(plan: Plan, version: str, folder: Path) -> AbstractContextManager[Target]:
    """The cluster that a plan is for."""
    cluster = folder / "cluster"
    if plan.target == KAFKA:
        return kafka(cluster, version, plan.brokers, folder / "steps")
    return highwater(cluster, plan.brokers)


def play(plan: Plan, version: str, folder: Path) -> Played:
    """Play a plan; the clients' recording is in `folder`/run, the agents' steps beside it.

    A run that is interrupted ends its processes; what was recorded stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # That a broker is down is no news here.
    logging.getLogger("chaos.real.proxy").setLevel(logging.ERROR)
    (folder / "plan.json").write_bytes(plan.as_json())
    with target_of(plan, version, folder) as target:
        return _on(target, plan, folder / "run")


def _on(target: Target, plan: Plan, run: Path) -> Played:
    direct = bootstrap(target)
    plain: Any = import_module("confluent_kafka.admin").AdminClient(of_admin(direct))
    stage = Stage(plan, target, administrator(direct, run), plain)
    clients = stage.clients = RunClients(plan, target.proxies.bootstrap, direct, run)
    player, stuck = Player(stage), list[str]()
    began_ns = time.monotonic_ns()
    try:
        _make_topics(stage)
        clients.start()
        try:
            player.play()
        except RuntimeError as broke:
            player.broken.append(str(broke))
            stage.over.clear()
            player.heal()
        stuck += [lacking] if (lacking := player.settle()) else []
        try:
            stuck += clients.settle(stage)
        except RuntimeError as broke:  # a transactional client of ours
            player.broken.append(str(broke))
        stuck += open_transactions(stage)
        stage.admin.close()
    finally:
        clients.kill()
    done = sorted(player.done, key=lambda one: one.at_ns)
    faults = [one.as_json() for one in done]
    run.joinpath("meta.json").write_bytes(orjson.dumps({"faults": faults}))
    complete = not _scan(run, direct)
    counts = clients.counts()
    return Played(plan, done, stuck, player.broken, counts, began_ns, complete)


def _make_topics(stage: Stage) -> None:
    for name, topic in stage.topics.items():
        if not stage.until(READY_S, lambda name=name, topic=topic: made(stage, name, topic)):
            raise RuntimeError(f"the topic {name} was not made within {READY_S:.0f} s")
    if not stage.until(READY_S, stage.whole):
        raise RuntimeError(f"not whole at the beginning: {stage.lacking()}")


def _scan(run: Path, direct: str) -> int:
    """End the recording by reading all that the logs hold; its exit code."""
    record_scan: Any = import_module("traces.record.cli").record_scan
    try:
        record_scan.main([str(run), "--bootstrap", direct], standalone_mode=False)
    except SystemExit as ended:
        return int(ended.code or 0)
    except import_module("click").exceptions.Exit as ended:
        return ended.exit_code
    return 0
