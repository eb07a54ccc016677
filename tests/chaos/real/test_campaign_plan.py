"""Plans of `highwater chaos real`: a function of the seed, which meets every kind of fault."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.cli import chaos
from chaos.real.campaign.draw import draw
from chaos.real.campaign.plan import BadPlan, Plan, read_plan
from chaos.real.campaign.vocabulary import KINDS, OF_CLIENTS, REQUESTS, TARGETS
from chaos.real.proxy.words import rule_of

SEEDS = range(200)


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [draw(seed, 3, "kafka") for seed in SEEDS]


def printed(seed: int, hashes: str) -> bytes:
    """The plan as another process prints it."""
    arguments = ("chaos", "real", "--seed", str(seed), "--plan")
    command = [sys.executable, "-m", "refimpl", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": hashes}
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


def test_a_seed_has_one_plan_byte_for_byte() -> None:
    assert printed(7, "1") == printed(7, "2") == draw(7, 3, "kafka").text().encode()
    assert draw(7, 3, "kafka").text() != draw(8, 3, "kafka").text()


@pytest.mark.parametrize("target", TARGETS)
def test_two_hundred_seeds_draw_every_kind_of_fault_and_every_way_of_it(target: str) -> None:
    steps = [step for seed in SEEDS for step in draw(seed, 3, target).steps]
    drawn = {(step.kind, step.how) for step in steps}
    possible = {name: kind for name, kind in KINDS.items() if target in kind.targets}
    assert {kind for kind, _ in drawn} == possible.keys()
    expected = {(name, how) for name, kind in possible.items() for how in kind.hows}
    expected |= {("requests", rule) for rules in REQUESTS.values() for rule in rules}
    assert drawn == expected
    assert {step.who for step in steps if step.kind == "crash"} == {0, 1, 2, 3}


def test_every_rule_of_the_vocabulary_is_one_of_the_proxy() -> None:
    for rules in REQUESTS.values():
        for words in rules:
            rule_of(words + " by_ms=1" * words.startswith("delay"))


def test_seeds_differ_in_their_kinds_topics_groups_and_settings(plans: list[Plan]) -> None:
    assert len({tuple(plan.kinds) for plan in plans}) > 150
    for setting in ("broker.session.timeout.ms", "replica.lag.time.max.ms"):
        assert len({plan.brokers[setting] for plan in plans}) == 3
    orders = [plan.topics["orders"].configs for plan in plans]
    assert {one["min.insync.replicas"] for one in orders} == {"1", "2"}
    assert any("unclean.leader.election.enable" in one for one in orders)
    groups = [group for plan in plans for group in plan.clients.groups]
    assert {(group.protocol, group.static) for group in groups} == {
        (protocol, static) for protocol in ("classic", "consumer") for static in (True, False)
    }


def test_no_fault_of_clients_is_drawn_where_there_is_no_such_client(plans: list[Plan]) -> None:
    for plan in plans:
        names = {group.name for group in plan.clients.groups}
        for step in plan.steps:
            assert step.kind not in OF_CLIENTS or plan.clients.transactional
            assert step.topic in plan.topics
            assert not step.group or step.group in names


def test_a_fault_that_is_left_out_leaves_the_others_as_they_are() -> None:
    whole = draw(1, 3, "kafka")
    assert len(whole.kinds) > 2
    gone = whole.kinds[0]
    rest = draw(1, 3, "kafka", without=[gone])
    assert rest.steps == tuple(step for step in whole.steps if step.kind != gone)


@pytest.mark.parametrize("kind", [name for name in KINDS if name not in OF_CLIENTS])
def test_one_kind_alone_happens_at_least_once(kind: str) -> None:
    for seed in range(5):
        assert draw(seed, 0.5, "kafka", only=[kind]).kinds == [kind]


def test_a_plan_is_read_from_its_file(plans: list[Plan]) -> None:
    for plan in plans[:20]:
        assert read_plan(plan.as_json()) == plan
        assert read_plan(plan.as_json()).text() == plan.text()


def test_a_mistaken_plan_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    content = draw(1, 3, "kafka").as_json()
    for wrong, why in (
        (b"{", "expected a plan"),
        (content.replace(b'"seed"', b'"sead"'), "sead"),
        (content.replace(b'"kind": "', b'"kind": "no'), "steps: kind: expected one of crash"),
        (content.replace(b'"clients"', b'"others"'), "expected the field 'clients'"),
    ):
        file.write_bytes(wrong)
        done = CliRunner().invoke(chaos, ["real", "--replay", str(file), "--plan"])
        assert done.exit_code == 2
        assert why in done.output
        with pytest.raises(BadPlan):
            read_plan(wrong)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "choose one of --seed, --seeds and --replay"),
        (("--seed", "1", "--seeds", "1-2"), "choose one"),
        (("--seed", "1"), "--out DIR"),
        (("--seeds", "3-1"), "expected two seeds as in 1-20, found '3-1'"),
        (("--seed", "1", "--only", "flood"), "found 'flood'"),
        (("--seed", "1", "--target", "highwater", "--only", "lag"), "none of these faults"),
        (("--seed", "1", "--out", "x", "--version", "four"), "expected a release such as 4.3.1"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(chaos, ["real", *arguments])
    assert done.exit_code == 2
    assert why in done.output
    assert "Traceback" not in done.output
