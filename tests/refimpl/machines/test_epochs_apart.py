"""Logs that parted several leader epochs ago: every pair of short ones becomes equal.

Two replicas lead in turn, and each writes what the other one may copy. Four epochs are needed: in
the scopes with three, one round of truncation brings any two logs together.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import LeaderAndIsr
from refimpl.machines.replica import Replica

BOTH = frozenset({1, 2})
ROUNDS = 12
#: In an epoch: who leads, how many records are written, and if the other one copies up to the first
TURNS = [(who, written, copied) for who in (0, 1) for written in (1, 2) for copied in (0, 1)]
CUT = "self._cut(end if ours == UNDEFINED else min(end, ours.end))"
#: The bound that each known bug needs: leader epochs, the last of which has no record yet
BUGS = {
    "the follower cuts where the leader says": ("self._cut(end)", 3),
    "it believes to have the epoch that the leader named": (
        f"{CUT}\nif epoch >= 0:\n    self.log.assign_epoch(epoch)",
        4,
    ),
}
EPOCHS = (2, 3, 4)


def histories(epochs: int) -> Iterator[tuple[list[int], list[int]]]:
    """The logs of both replicas, as epochs of records, before the last epoch begins."""
    for turns in product(TURNS, repeat=epochs - 1):
        logs: tuple[list[int], list[int]] = ([], [])
        for epoch, (who, written, copied) in enumerate(turns, 1):
            logs[who].extend([epoch] * written)
            if copied:
                logs[1 - who][:] = logs[who][: len(logs[who]) - written + copied]
        yield logs


def converges(ours: list[int], theirs: list[int], epoch: int) -> bool:
    """True if the second replica's log becomes that of the first, which leads and writes on."""
    leader = Replica(1, Log([Record(e, None) for e in ours]))
    follower = Replica(2, Log([Record(e, None) for e in theirs]))
    for one in (leader, follower):
        one.told(LeaderAndIsr(epoch, 1, BOTH, epoch))
    leader.write("a")
    for _ in range(ROUNDS):
        follower.take_answer(leader.answer_fetch(follower.fetch_request(), 2))
    return [one.epoch for one in follower.log.records] == [*ours, epoch]


def parted(epochs: int) -> list[tuple[list[int], list[int]]]:
    """The histories whose logs stay different."""
    return [logs for logs in histories(epochs) if not converges(*logs, epochs)]


@pytest.mark.parametrize("epochs", EPOCHS)
def test_a_follower_gets_its_leaders_log_however_far_they_are_apart(epochs: int) -> None:
    assert parted(epochs) == []


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_needs_so_many_epochs_and_is_seen_with_them(name: str) -> None:
    new, needed = BUGS[name]
    function = function_at("refimpl.machines.replica:Replica.take_answer")
    with patched({function: compiled(function, edited(tree_of(function), CUT, new))}):
        seen = [epochs for epochs in EPOCHS if parted(epochs)]
    assert seen == [epochs for epochs in EPOCHS if epochs >= needed]
