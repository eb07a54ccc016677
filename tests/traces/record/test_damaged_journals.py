"""Whatever a disk does to a journal, what was not written is not read, and nobody is accused."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

import pytest
from attrs import define, field

from tests.traces.judging import judged, said
from tests.traces.record.healthy import VICTIMS, Healthy
from traces.record import settle
from traces.record.entries import DamagedError, Entries, Line, entries

PAGE = 4096
SEED = 20261128


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr("traces.record.journal.WINDOW", 2 * PAGE)
    monkeypatch.setattr("os.fsync", id)  # of thousands of journals


def recorded(folder: Path, rounds: int) -> Healthy:
    run = Healthy(folder / "run")
    run.record(rounds)
    return run


def test_the_run_is_healthy_and_is_judged(tmp_path: Path) -> None:
    one = judged(recorded(tmp_path, 3).settled)
    assert not said(one, "violated")
    assert {"L1", "L3", "L4", "L5", "L9", "P1", "T1", "C1", "G5", "G8"} <= said(one, "holds")


@define
class Damaged:
    """One journal of a run, damaged in many ways, and what came of each."""

    run: Healthy
    victim: str
    raw: bytes = field(init=False)
    whole: list[bytes] = field(init=False)
    seen: set[bytes | None] = field(factory=set[bytes | None])

    def __attrs_post_init__(self) -> None:
        self.raw = (self.run.journals / f"{self.victim}.journal").read_bytes()
        self.whole = (self.run.settled / f"{self.victim}.ndjson").read_bytes().splitlines()

    def settle(self, raw: bytes) -> bool:
        """True if the damage was noticed. It may only leave fewer of the same calls."""
        folder = self.run.folder / "damaged"
        folder.mkdir(exist_ok=True)
        journal = folder / f"{self.victim}.journal"
        journal.write_bytes(raw)
        said = rf"{self.victim}.journal: byte \d+: damaged: "
        try:
            done = settle(journal)
        except DamagedError as damage:
            whole = re.match(said, str(damage)) and journal.read_bytes() == raw
            self.seen.add(None)
            return bool(whole)
        found = done.file.read_bytes()
        if done.ended == "crash":
            assert found.splitlines() == self.whole
            return False
        assert done.ended == "cut"
        assert re.match(said, done.damage)
        assert len(found.splitlines()) < len(self.whole)
        self.seen.add(found)
        return True

    def judge(self, most: int = 10**6) -> None:
        """Nobody is accused, whatever is missing: tried for all that came of it, or for so many."""
        outcomes = sorted(self.seen, key=lambda found: (found is not None, found or b""))
        for found in Random(SEED).sample(outcomes, min(most, len(outcomes))):
            folder = self.run.folder / "judged"
            copytree(self.run.settled, folder)
            file = folder / f"{self.victim}.ndjson"
            file.unlink() if found is None else file.write_bytes(found)
            one = judged(folder)
            assert not said(one, "violated"), found and found.splitlines()[-1]
            rmtree(folder)


def flipped(raw: bytes, bit: int) -> bytes:
    damaged = bytearray(raw)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.parametrize("victim", VICTIMS)
def test_every_flipped_bit_of_a_small_journal_is_noticed(tmp_path: Path, victim: str) -> None:
    case = Damaged(recorded(tmp_path, 1), victim)
    used, journal = len(case.raw.rstrip(b"\0")), tmp_path / "x.journal"
    journal.write_bytes(case.raw)
    whole = list(entries(journal))
    for bit in range(8 * used):
        journal.write_bytes(flipped(case.raw, bit))
        found: list[Line] = []
        with pytest.raises(DamagedError, match=r"x.journal: byte \d+: damaged: "):
            found.extend(entries(journal))  # what it tells before it raises stays
        assert found == whole[: len(found)]
    for bit in range(0, 8 * used, 101):
        assert case.settle(flipped(case.raw, bit)), bit
    for bit in range(8 * used, 8 * len(case.raw), 997):  # where nothing was written
        case.settle(flipped(case.raw, bit))
    case.judge()


@pytest.mark.parametrize("victim", VICTIMS)
def test_some_flipped_bits_of_a_larger_journal_are_noticed(tmp_path: Path, victim: str) -> None:
    case, random = Damaged(recorded(tmp_path, 100), victim), Random(SEED)
    used = len(case.raw.rstrip(b"\0"))
    for _ in range(40):
        bits = random.sample(range(8 * used), random.choice((1, 2, 40)))
        damaged = case.raw
        for bit in bits:
            damaged = flipped(damaged, bit)
        assert case.settle(damaged), bits
    case.judge(most=4)


def zeroed_from(raw: bytes, block: int) -> Iterator[tuple[int, bytes]]:
    for border in range(0, len(raw), block):
        yield border, raw[:border] + bytes(len(raw) - border)


def zeroed_alone(raw: bytes, block: int) -> Iterator[tuple[int, bytes]]:
    for border in range(0, len(raw), block):
        yield border, raw[:border] + bytes(block) + raw[border + block :]


def cut_short(raw: bytes, block: int) -> Iterator[tuple[int, bytes]]:
    for border in range(0, len(raw), block):
        yield border, raw[:border]


def written_over(raw: bytes, block: int) -> Iterator[tuple[int, bytes]]:
    """A block that was written elsewhere: of the same journal, and of whole entries."""
    for border in range(0, len(raw) - block, block):
        yield (
            border,
            raw[:border] + raw[border + block : border + 2 * block] + raw[border + block :],
        )


Way = Callable[[bytes, int], Iterator[tuple[int, bytes]]]


@pytest.mark.parametrize("way", [zeroed_from, zeroed_alone, cut_short, written_over])
@pytest.mark.parametrize("victim", VICTIMS)
def test_every_lost_block_is_noticed(tmp_path: Path, victim: str, way: Way) -> None:
    """At each border of pages and of sectors, unless nothing of the journal was in what is lost."""
    case = Damaged(recorded(tmp_path, 80), victim)
    for block in (PAGE, 512):
        for border, damaged in way(case.raw, block):
            if damaged.ljust(len(case.raw), b"\0") != case.raw:
                assert case.settle(damaged), (block, border)
    case.judge(most=4)


@pytest.mark.parametrize("lost", [2, 11])
def test_whole_entries_in_the_place_of_others_are_noticed(tmp_path: Path, lost: int) -> None:
    """Their checksums are right, and a block of a disk may begin and end with entries: whether one
    does depends on the length of the times in them, and so on how long the machine has been up.
    """
    case = Damaged(recorded(tmp_path, 20), "p#0")
    found = Entries(case.run.journals / "p#0.journal")
    sends = [found.at for line in found.new() if line.get("op") == "send"]
    first, second, third = sends[lost - 1 : lost + 2]  # without keys, and so of one length
    assert third - second == second - first
    assert case.settle(case.raw[:first] + case.raw[second:third] + case.raw[second:])
    (kept,) = case.seen
    assert kept is not None
    assert kept.splitlines() == case.whole[: lost - 1], "a call between those behind it is missing"
    case.judge()
