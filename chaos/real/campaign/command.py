"""`highwater chaos real`: break the processes of a real cluster by seed, and judge both sides."""

import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click

from refimpl.outputs import FolderToWrite

BAD_INPUT, INTERRUPTED = 2, 130


class Refused(click.ClickException):
    """A mistake of the user, or a tool that is missing."""

    exit_code = BAD_INPUT


class Seeds(click.ParamType[range]):
    """`A-B` or `A..B`, both ends included."""

    name = "A-B"

    def convert(self, value: Any, param: Any, ctx: Any) -> range:
        """A range. Fails with a usage error."""
        if isinstance(value, range):
            return value
        first, _, last = str(value).replace("..", "-").partition("-")
        if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first):
            self.fail(f"expected two seeds as in 1-20, found {value!r}", param, ctx)
        return range(int(first), int(last) + 1)


@click.command("real", short_help="Break real broker processes by seed, and judge both sides.")
@click.option("--target", type=click.Choice(["kafka", "highwater"]), default="kafka",
              show_default=True, help="Apache Kafka's brokers, or ours.")  # fmt: skip
@click.option("--version", default="4.3.1", show_default=True, help="Of Apache Kafka, by Maven.")
@click.option("--minutes", type=click.FloatRange(0.2), default=3.0, show_default=True)
@click.option("--seed", type=click.IntRange(0), help="One seed.")
@click.option("--seeds", type=Seeds(), help="Several; those that DIR has are not played again.")
@click.option("--replay", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="FILE", help="A plan.json, in place of a seed's.")  # fmt: skip
@click.option("--out", type=FolderToWrite(), metavar="DIR", help="Recordings and reports.")
@click.option("--without", multiple=True, metavar="FAULT", help="Leave this kind of fault out.")
@click.option("--only", multiple=True, metavar="FAULT", help="Have this kind of fault alone.")
@click.option("--plan", "plan_only", is_flag=True, help="Print the plan, and play nothing.")
@click.option("--shrink", "smaller", is_flag=True, help="Make a run that found something small.")
@click.option("--times", type=click.IntRange(1), default=3, show_default=True,
              help="With --shrink: play each smaller plan so often.")  # fmt: skip
@click.option("--budget", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True,
              help="With --shrink: minutes.")  # fmt: skip
def real(
    target: str,
    version: str,
    minutes: float,
    seed: int | None,
    seeds: range | None,
    replay: Path | None,
    out: Path | None,
    without: tuple[str, ...],
    only: tuple[str, ...],
    plan_only: bool,
    smaller: bool,
    times: int,
    budget: float,
) -> None:
    """Break the processes of a real cluster by seed, and judge clients and brokers.

    A seed draws the settings of three brokers, topics and recorded clients, and the faults: their
    kinds, rates, times and victims (--plan prints it). They are played on processes; then
    everything is healed and read once more. `check` judges what the clients saw, and for Kafka
    `validate --kafka` judges the steps of the replication protocol.

    Exit code 0: nothing is violated, and a row of properties/kafka/known.toml explains each
    rejection; 1: something was found; 2: a run could not be judged, or bad input.
    """
    if sum(choice is not None for choice in (seed, seeds, replay)) != 1:
        raise click.UsageError("choose one of --seed, --seeds and --replay")
    _known_kinds((*without, *only))
    drawn = list(_plans(target, minutes, seed, seeds, replay, without, only))
    if plan_only:
        for plan in drawn:
            click.echo(plan.text(), nl=False)
        return
    if out is None:
        raise click.UsageError("--out DIR is for the recordings; without it there is only --plan")
    _needed()
    verdicts = _played(drawn, version, out, smaller, times, budget)
    codes = {one["exit_code"] for one in verdicts}
    sys.exit(1 if 1 in codes else max(codes))


def _known_kinds(named: tuple[str, ...]) -> None:
    from chaos.real.campaign.vocabulary import KINDS

    if unknown := [kind for kind in named if kind not in KINDS]:
        raise Refused(f"expected a fault among {', '.join(KINDS)}, found {unknown[0]!r}")


def _plans(
    target: str,
    minutes: float,
    seed: int | None,
    seeds: range | None,
    replay: Path | None,
    without: tuple[str, ...],
    only: tuple[str, ...],
) -> Iterator[Any]:
    from chaos.real.campaign.draw import draw
    from chaos.real.campaign.plan import BadPlan, read_plan

    if replay is not None:
        try:
            yield read_plan(replay.read_bytes()).without(*without)
        except BadPlan as wrong:
            raise Refused(f"{replay}: {wrong}") from None
        return
    for one in seeds or [seed or 0]:
        plan = draw(one, minutes, target, without, only)
        if not plan.steps:
            raise Refused(f"{target} has none of these faults: nothing would be broken")
        yield plan


def _needed() -> None:
    for needed in ("confluent_kafka", "kio"):
        if find_spec(needed) is None:
            raise Refused(f"this needs {needed.replace('_', '-')}: make setup")


def _played(
    plans: list[Any], version: str, out: Path, smaller: bool, times: int, budget: float
) -> list[dict[str, Any]]:
    from chaos.real.campaign import campaign
    from chaos.real.campaign.kafka_jars import UnknownReleaseError
    from chaos.real.kafka.judge import NoMavenError

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: all ends in good order
    verdicts = list[dict[str, Any]]()
    for plan in plans:
        folder = out / f"{plan.target}-{plan.seed}"
        verdict = campaign.verdict_of(folder)
        if verdict is None:
            try:
                verdict = campaign.run(plan, version, folder)
            except KeyboardInterrupt:
                _interrupted(folder)
            except (UnknownReleaseError, NoMavenError) as missing:
                raise Refused(str(missing)) from None
            click.echo("\n".join(verdict["summary"]))
        else:
            click.echo(f"seed {plan.seed}: {verdict['said']}")
        verdicts.append(verdict)
        if smaller and verdict["exit_code"] == 1:
            from chaos.real.campaign.shrink import shrunk

            for line in shrunk(plan, verdict, version, folder, times, budget * 60):
                click.echo(line)
    if len(plans) > 1:
        click.echo("\n".join(campaign.overview(verdicts)))
    return verdicts


def _interrupted(folder: Path) -> NoReturn:
    """End at once: all processes have ended, and journals are on disk.

    librdkafka's clients of threads that go on may hold up the end of an interpreter for ever.
    """
    click.echo(f"interrupted; what was recorded is in {folder}", err=True)
    sys.stdout.flush()
    os._exit(INTERRUPTED)
