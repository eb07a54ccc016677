"""Bugs of clients and coordinators that the checks of traces find in simulated client histories.

`python -m tests.chaos.check_bugs` plays every bug in groups of the protocols that can have it, each
beside the same seed without it, and prints which checks found it; `--find` looks for seeds, and
`--write` puts the table into docs/chaos.md. The oracles of the group are not heard here: what is
judged is only what clients did and saw.
"""

import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import field, frozen

import traces
from chaos.oracles.violation import Violation
from chaos.recording import write_history
from chaos.sim.settings import Settings
from chaos.sim.simulation import Watcher
from chaos.simulator import Run, build
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from tests.chaos.oracle_sites import silent, sites

PAGE = Path(__file__).resolve().parents[2] / "docs" / "chaos.md"
BEGIN, END = "<!-- check bugs -->", "<!-- end of check bugs -->"
CALM: dict[str, Any] = {
    **{"files": False, "store": False, "unclean": False, "lossy": False, "follower_reads": False},
    **{"transactions": False, "share_members": 0, "static_members": False, "reconfigures": False},
    **{"drop": 0.0, "duplicate": 0.0, "stray": 0.0, "jitter_ms": 3, "fault_ms": 2500},
    **{"acks": ("all",), "idempotence": True, "consumers": 2, "batch_records": 2},
    "faults": ("crash", "elect", "member_crash", "member_leave", "member_pause"),
}
"""A cluster that loses nothing, on a network on which nothing is doubled."""
UNHEARD = "ProgressOracle._not_committed: AtLeastOnce"


@frozen
class Bug:
    """An edit of a function of a client or of a coordinator.

    `checks` are those that have to find it, and `seeds`, by protocol, a seed in which they do;
    `said` is the verdict, and `settings` what else the run is to be.
    """

    name: str
    checks: tuple[str, ...]
    function: str
    old: str
    new: str
    seeds: dict[str, int]
    settings: dict[str, Any] = field(factory=dict[str, Any])
    said: dict[str, str] = field(factory=dict[str, str])

    @contextmanager
    def there(self) -> Generator[None]:
        """The bug, for as long as the block lasts."""
        function = function_at(self.function)
        with patched({function: compiled(function, edited(tree_of(function), self.old, self.new))}):
            yield

    def settings_of(self, protocol: str, seed: int) -> Settings:
        """The run in which it is looked for."""
        return Settings.draw(seed, **{**CALM, "group_protocol": protocol, **self.settings})

    def found(self, protocol: str, seed: int, *, there: bool = True) -> dict[str, str]:
        """The verdict of each check on the history of a run, with the bug or without."""
        with ExitStack() as stack:
            if there:
                stack.enter_context(self.there())
            stack.enter_context(patched(silent(sites()[UNHEARD])))
            folder = Path(stack.enter_context(TemporaryDirectory()))
            run = deaf(build(self.settings_of(protocol, seed), history=True)).go()
            judged = traces.check(traces.load(write_history(run, folder)))
        return {
            name: "undecided" if " found, " in str(one.reason) else one.verdict
            for name, one in judged.verdicts.items()
        }

    def expected(self, check: str) -> str:
        """The verdict that this check must give."""
        return self.said.get(check, "violated")


def deaf(run: Run) -> Run:
    """The run, in which what the group's oracle says is not heard."""
    for watchers in run.simulation.watchers.values():
        watchers[:] = [
            _unheard(one) if getattr(one, "__self__", None) is run.group else one
            for one in watchers
        ]
    return run


def _unheard(watcher: Watcher) -> Watcher:
    def ask(who: int, seen: Any) -> None:
        try:
            watcher(who, seen)
        except Violation:
            return  # the history is to tell

    return ask


MEMBER = "refimpl.machines.group:CommittingMember"
CONSUMER, CLASSIC = "chaos.clients.consumer:Consumer", "chaos.clients.classic_member:ClassicMember"
SENT = "return OffsetCommit(self.id, self.generation, offset)"
OFFSET = "value.offset"
BUGS = (
    Bug(
        "the leader's assignor gives a partition to every member",
        ("G1",),
        f"{CLASSIC}._sync",
        "write_assignment(parts)",
        "write_assignment(sorted({*parts, (TOPIC, 0)}))",
        {"classic": 0},
    ),
    Bug(
        "a partition is assigned while its last owner still has it",
        ("G2", "G9"),
        "refimpl.machines.consumer_group:ConsumerGroup.is_free",
        "not any("
        "one.holds(partition) for one in self.members.values() if one.member_id != member_id)",
        "True",
        {"consumer": 0},
        {"commit_when": "before", "consumers": 3},
        {"G2": "undecided"},
    ),
    Bug(
        "the coordinator takes commits of any generation",
        ("G4",),
        "refimpl.groups.offsets:Offsets.commit",
        "self._check_commit(now, request, by)",
        "{}",
        {"classic": 14},
    ),
    Bug(
        "a member commits what it had committed before",
        ("G5",),
        f"{MEMBER}.send_commit",
        SENT,
        "return OffsetCommit(self.id, self.generation, offset // 2 if offset % 5 == 0 else offset)",
        {"classic": 1, "consumer": 0},
    ),
    Bug(
        "a member commits beyond what it was handed",
        ("G6",),
        f"{MEMBER}.send_commit",
        SENT,
        "return OffsetCommit(self.id, self.generation, offset + 1)",
        {"classic": 0, "consumer": 0},
    ),
    Bug(
        "the coordinator answers an older offset than is committed",
        ("G7", "G9"),
        "refimpl.groups.offsets:_fetched",
        OFFSET,
        "max(value.offset - 1, 0)",
        {"classic": 2, "consumer": 0},
        {"commit_when": "before"},
    ),
    Bug(
        "the coordinator answers a later offset than is committed",
        ("G7", "G8"),
        "refimpl.groups.offsets:_fetched",
        OFFSET,
        "value.offset + 2",
        {"classic": 0, "consumer": 0},
        {"commit_when": "after"},
    ),
    Bug(
        "a member begins behind the offset that it was answered",
        ("G10",),
        "chaos.clients.group_member:GroupMember._offsets_fetched",
        "self._begin(partition, committed)",
        "self._begin(partition, committed + 1)",
        {"classic": 0, "consumer": 4},
    ),
    Bug(
        "a member commits what it was handed before it is processed",
        ("G8",),
        f"{MEMBER}.send_commit",
        "self.done if self.commit_when == 'after' else self.position",
        "self.position",
        {"classic": 0, "consumer": 1},
        {"commit_when": "after"},
    ),
    Bug(
        "a commit is answered before it is replicated",
        ("G7", "G9"),
        "refimpl.coordinator.runtime:Coordinator._answer",
        "not waits or self.log.high_watermark >= self.written",
        "True",
        {"classic": 7, "consumer": 2},
        {"commit_when": "before"},
    ),
    Bug(
        "a member skips a record that it was given",
        ("C1",),
        f"{CONSUMER}._poll",
        "offset, record = part.current = part.buffer.popleft()",
        """
if len(part.buffer) > 1 and part.member.position % 7 == 3:
    part.buffer.popleft()
    part.member.position = part.member.done = part.member.position + 1
offset, record = part.current = part.buffer.popleft()
""",
        {"classic": 0, "consumer": 0},
        {"commit_when": "after"},
    ),
    Bug(
        "a member is handed a record again",
        ("C2",),
        f"{CONSUMER}._process",
        "part.current = None",
        """
part.current = None
if self.simulation.timeline.now % 7 == 3:
    part.buffer.appendleft((offset, record))
    part.member.position = part.member.done = offset
""",
        {"classic": 0, "consumer": 0},
        {"commit_when": "after"},
    ),
    Bug(
        "a member is handed records of a partition that is no longer its own",
        ("C4",),
        f"{CONSUMER}._records",
        "part.asked != response.correlation_id or part.name.partition not in self.owned",
        "False",
        {"classic": 5, "consumer": 17},
    ),
    Bug(
        "a member resets its position after any error of a fetch",
        ("C6",),
        f"{CONSUMER}._records",
        'fetched.error == "OFFSET_OUT_OF_RANGE"',
        "fetched.error is not None",
        {"classic": 15, "consumer": 15},
        {"faults": ("elect", "crash")},
    ),
)


def played(bug: Bug, protocol: str, seed: int) -> dict[str, str] | None:
    """The verdict of each check that the bug changes; None unless the bug's own checks find it.

    None also if a check is violated without the bug.
    """
    there, without = (bug.found(protocol, seed, there=there) for there in (True, False))
    found = {check: said for check, said in there.items() if said != without[check]}
    as_wanted = all(found.get(check) == bug.expected(check) for check in bug.checks)
    return found if as_wanted and "violated" not in without.values() else None


def table() -> str:
    """A table of bugs, the checks that find each, and the seed in which they do."""
    rows = ["| bug | protocol | seed | found by |", "|---|---|---|---|"]
    for bug in BUGS:
        for protocol, seed in bug.seeds.items():
            found = played(bug, protocol, seed)
            if found is None:
                raise SystemExit(f"{bug.name}, {protocol}: not found in seed {seed}")
            words = [
                name if said == "violated" else f"{name} ({said})"
                for name, said in found.items()
                if said in ("violated", "undecided") or name in bug.checks
            ]
            rows.append(f"| {bug.name} | {protocol} | {seed} | {', '.join(words)} |")
    return "\n".join(rows)


def find() -> None:
    """Print the first seed in which each bug is found."""
    for bug in BUGS:
        for protocol in bug.seeds:
            seeds = (seed for seed in range(40) if played(bug, protocol, seed))
            print(f"{bug.name}, {protocol}: {next(seeds, None)}", flush=True)


def main(arguments: list[str]) -> None:
    """Print or write the table, or look for seeds."""
    if arguments == ["--find"]:
        find()
        return
    text = table()
    print(text)
    if arguments == ["--write"]:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main(sys.argv[1:])
