"""Faults of a campaign, played on a stage without processes: all are undone, and counted."""

from collections import Counter
from pathlib import Path
from threading import Event, Thread

import pytest
from attrs import evolve

from chaos.real.campaign import transactions
from chaos.real.campaign.disks import Disk
from chaos.real.campaign.effects import Effect
from chaos.real.campaign.explained import explained
from chaos.real.campaign.judging import Find, Judged
from chaos.real.campaign.plan import Plan, Step
from chaos.real.campaign.player import FAULTS, Player
from chaos.real.campaign.report import effects, lines
from chaos.real.campaign.running import Played
from chaos.real.campaign.shrink import Search, shorter, signatures
from chaos.real.campaign.stage import Beside, Stage
from chaos.real.campaign.vocabulary import KINDS
from tests.chaos.real.played_stage import nothing, planned, something, stage_for

OF_PROCESSES = (
    *("crash", "stop", "pause", "disk", "older_disk"),
    *("controller_crash", "controller_pause"),
)
OF_LINKS = ("requests", "cut", "slow", "lag", "expire", "isr")


def test_every_kind_can_be_played() -> None:
    assert FAULTS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", [*OF_PROCESSES, *OF_LINKS])
@pytest.mark.parametrize("who", [0, 3])
def test_a_fault_has_an_effect_and_is_undone(kind: str, who: int) -> None:
    how = {"requests": "hold Produce", "isr": "delay"}.get(kind, KINDS[kind].hows[:1] or "")
    step = Step(0, kind, how[0] if isinstance(how, tuple) else how, who, for_ms=1, value=1)
    stage = stage_for(step)
    Player(stage).play()
    assert (stage.fake.down, stage.fake.paused, stage.fake.proxies.rules) == (
        set(),
        set(),
        [],
    )
    if kind in OF_PROCESSES:
        assert len(stage.fake.done) >= 2
    else:
        assert stage.fake.proxies.given
    victim = 100 if kind.startswith("controller") else who or 2
    if kind not in OF_LINKS:
        assert all(said.endswith(f" {victim}") for said in stage.fake.done)


def test_faults_beside_each_other_do_not_stop_a_node_that_is_down() -> None:
    kinds = ("crash", "pause", "stop", "crash", "disk", "older_disk", "pause")
    stage = stage_for(*(Step(0, kind, who=1, for_ms=1, value=1) for kind in kinds))
    player = Player(stage)
    player.play()  # the fake target asserts that its nodes run when they are signalled
    assert player.broken == []
    assert Counter(said.split()[0] for said in stage.fake.done) == {
        **{"SIGKILL": 4, "SIGTERM": 2, "SIGSTOP": 2, "SIGCONT": 2, "start": 6},
        **{"empty": 1, "copy": 1, "put_back": 1},
    }


def test_an_interrupted_run_undoes_its_faults() -> None:
    begun = Event()

    def pauses(stage: Stage, step: Step) -> Effect:
        begun.set()
        return FAULTS["pause"](stage, step)

    step = Step(0, "pause", who=1, for_ms=60_000, value=1)
    stage = stage_for(step)
    real = Stage(evolve(stage.plan, minutes=1.0), stage.target, clients=stage.clients)
    running = Thread(target=Player(real, {"pause": pauses}).play)
    running.start()
    assert begun.wait(30)
    real.over.set()
    running.join(30)
    assert not running.is_alive()
    assert stage.fake.done == ["SIGSTOP 1", "SIGCONT 1"]


def test_what_a_fault_that_breaks_has_left_is_undone() -> None:
    def breaks(stage: Stage, _: Step) -> Effect:
        stage.target.end(1, 9)
        raise RuntimeError("does not start")

    stage = stage_for(Step(0, "crash"))
    player = Player(stage, {"crash": breaks})
    player.play()
    assert stage.fake.down == set()
    assert "does not start" in player.broken[0]


def test_a_disk_is_lost_alone() -> None:
    beside, alone, order = Beside(), Event(), list[str]()

    def loses_a_disk() -> None:
        with beside.nobody():
            order.append("alone")
        alone.set()

    with beside.others():
        thread = Thread(target=loses_a_disk)
        thread.start()
        assert not alone.wait(0.05)
        order.append("beside")
    thread.join(30)
    with beside.others():
        assert order == ["beside", "alone"]


def test_an_older_disk_has_what_was_copied_and_nothing_else(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "data", tmp_path / "elsewhere" / "copies")
    log = disk.data / "orders-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"early")
    early = disk.copy()
    log.write_bytes(b"early and late")
    late = disk.copy()
    (disk.data / "later-0").mkdir()
    assert disk.put_back(early) == len(b" and late")
    assert log.read_bytes() == b"early"
    assert [one.name for one in disk.data.iterdir()] == ["orders-0"]
    assert disk.put_back(late) == 0
    assert disk.empty() == len(b"early and late")
    assert not disk.data.exists()


def played(plan: Plan, *faults: str) -> Played:
    """A run whose faults did something, but for those that are named."""
    stage = stage_for(*plan.steps)
    some = {kind: nothing if kind in faults else something for kind in plan.kinds}
    player = Player(stage, some)
    player.play()
    return Played(plan, player.done, [], [], Counter(), 0, complete=True)


def test_the_report_demands_an_effect_of_every_kind() -> None:
    from chaos.real.campaign import judging

    plan = planned(Step(0, "pause"), Step(0, "pause"), Step(0, "elect"))
    assert list(judging._without_effect(played(plan))) == []  # pyright: ignore[reportPrivateUsage]
    idle = played(plan, "elect")
    (why,) = judging._without_effect(idle)  # pyright: ignore[reportPrivateUsage]
    assert why == "elect had no effect: there was nothing to do"
    assert effects(idle) == {"pause": (2, 2, 6), "elect": (1, 0, 0)}
    told = "\n".join(lines(idle, Judged(unjudged=[why])))
    assert "NONE: there was nothing to do" in told
    assert "could not be judged: elect had no effect" in told


@pytest.mark.parametrize(
    ("finds", "unjudged", "code"),
    [
        ([], [], 0),
        ([Find("validate", "orders:0: known", "missed-epoch")], [], 0),
        ([], ["not complete"], 2),
        ([Find("check", "L1: a record is lost")], [], 1),
        ([Find("the end", "not whole")], ["not complete"], 1),
    ],
)
def test_exit_codes(finds: list[Find], unjudged: list[str], code: int) -> None:
    assert Judged(finds, unjudged).exit_code == code


MATTERS = Step(20, "elect", value=2)
OTHERS = [Step(at, kind) for at, kind in enumerate(("crash", "pause", "elect", "lag", "cut") * 4)]


def test_the_shrinker_finds_the_one_step_that_matters() -> None:
    search = Search(lambda plan: MATTERS in plan.steps, times=1)
    assert search.smallest(planned(*OTHERS, MATTERS)).steps == (MATTERS,)
    assert search.plays < 30


def test_the_shrinker_finds_two_steps_and_plays_what_fails_seldom_several_times() -> None:
    turns = Counter[str]()

    def fails(plan: Plan) -> bool:
        turns["all"] += 1
        return {MATTERS, OTHERS[7]} <= {*plan.steps} and turns["all"] % 2 == 0

    search = Search(fails, times=3)
    assert set(search.smallest(planned(*OTHERS, MATTERS)).steps) == {MATTERS, OTHERS[7]}
    failed, of = search.how_often(planned(MATTERS, OTHERS[7]))
    assert of == 3
    assert failed in (1, 2)


def test_the_shrinker_keeps_to_its_budget() -> None:
    search = Search(lambda _: True, times=1, spent=lambda: search.plays >= 2)
    assert len(search.smallest(planned(*OTHERS)).steps) > 1
    assert search.plays == 2


def test_a_smaller_plan_ends_soon_after_its_last_fault() -> None:
    plan = evolve(planned(Step(1_000, "pause", for_ms=3_000)), minutes=5.0)
    assert shorter(plan).minutes == pytest.approx(0.2)


def test_a_failure_is_known_again_by_its_words_without_numbers() -> None:
    first = {"finds": [{"what": "orders:0: step 7: no", "known": ""}]}
    again = {"finds": [{"what": "orders:1: step 90: no", "known": ""}]}
    known = {"finds": [{"what": "orders:1: step 90: no", "known": "missed-epoch"}]}
    assert signatures(first) == signatures(again)
    assert signatures(known) == set()


def test_what_does_not_end_is_explained_by_a_line_about_that_partition(tmp_path: Path) -> None:
    log = tmp_path / "cluster" / "node-2" / "output.log"
    log.parent.mkdir(parents=True)
    dropped = "these partitions are likely deleted already and hence can be skipped"
    log.write_text(f"Couldn't find leader endpoint for partitions Set(orders-1, a-0), {dropped}\n")
    ends = [f"a transaction in {one} does not end: 3 of 5 is stable" for one in ("orders:1", "b:1")]
    follows = "transactional clients do not go on: app0"
    names = dict(explained([*ends, follows, "not whole"], tmp_path))
    assert list(names.values()) == ["marker-dropped", "", "marker-dropped", ""]
    assert set(dict(explained([follows], tmp_path)).values()) == {""}


def test_a_transaction_that_does_not_end_is_named_by_its_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listed(_: int, topic: str, partition: int, query: int, isolation: int = 0) -> int:
        assert query == transactions.LATEST
        return 3 if isolation and (topic, partition) == ("orders", 1) else 5

    monkeypatch.setattr(transactions, "listed", listed)
    monkeypatch.setattr(transactions, "ENDS_S", 0)
    stage = stage_for()
    clients = stage.plan.clients
    stage.plan = evolve(stage.plan, clients=evolve(clients, transactional=("confluent",)))
    stage.over.set()
    assert transactions.open_transactions(stage) == [
        "a transaction in orders:1 does not end: 3 of 5 is stable"
    ]
    stage.plan = evolve(stage.plan, clients=evolve(clients, transactional=()))
    assert transactions.open_transactions(stage) == []
