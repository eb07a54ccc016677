"""`highwater faults`: break real brokers under real clients, and write down what happened."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from attrs import asdict

from refimpl.outputs import FolderToWrite, json_option, write_json


class MissingLibraryError(click.ClickException):
    """A library that the clients or the brokers need is not installed."""

    exit_code = 2


@click.command(short_help="Break real brokers under real clients, and record both.")
@click.option("--runs", type=click.IntRange(1), default=6, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first run.")
@click.option("--faults", "each", type=click.IntRange(1), default=6, show_default=True)
@click.option("--out", type=FolderToWrite(), required=True)
@click.option("--events", type=FolderToWrite(), required=True)
@click.option(
    "--transactions",
    is_flag=True,
    help="Transactional clients of three libraries, and applications, as processes.",
)
@json_option("Write what was done in each run, and what came of it")
def faults(
    runs: int,
    seed: int,
    each: int,
    out: Path,
    events: Path,
    transactions: bool,
    json_file: Path | None,
) -> None:
    """Real clients write to three brokers that are killed, paused and cut off meanwhile.

    The clients are librdkafka's and reach the brokers by TCP; two of them are a group, whose
    members come and go, of the classic protocol and of KIP-848's by turns. Their histories go to
    --out, for `highwater check`; the steps of brokers and coordinators to --events, for `highwater
    validate`. With --transactions, producers and applications write in transactions, and are
    killed, stopped and taken over as well. Every third run writes with acks=1 and lets anybody
    lead, so records are lost, which is allowed there.
    """
    for needed in ("confluent_kafka", "kio"):
        if find_spec(needed) is None:
            raise MissingLibraryError(f"this needs {needed.replace('_', '-')}: make setup")
    from chaos.real.live.run import RunPlan, record

    total, acknowledged, steps = Counter[str](), 0, 0
    recorded: list[dict[str, Any]] = []
    broken: list[str] = []
    for number in range(seed, seed + runs):
        plan = RunPlan(number, number % 3 != 0, each, transactions=transactions)
        done = record(plan, out, events)
        total += done.faults
        acknowledged += done.acknowledged
        steps += done.steps
        recorded.append({"run": done.plan.name, **asdict(done)})
        click.echo(
            f"{done.plan.name}: {done.acknowledged} records acknowledged, {done.failed} not,"
            f" {done.steps} steps, {done.group_steps} of the group; {_counted(done.faults)}"
        )
        if transactions:
            click.echo(f"{done.plan.name}: transactional clients: {_counted(done.transactions)}")
        broken += done.not_once
        for sentence in done.not_once:
            click.echo(f"{done.plan.name}: {sentence}")
        if done.group_ended:
            click.echo(f"{done.plan.name}: the group is recorded until {done.group_ended}")
    click.echo(
        f"{runs} runs, {acknowledged:,} records acknowledged, {total.total()} faults,"
        f" {steps:,} steps of the brokers"
    )
    write_json(json_file, recorded)
    if broken:
        raise SystemExit(1)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))
