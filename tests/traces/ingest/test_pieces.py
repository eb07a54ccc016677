"""However a trace is cut into pieces, it is read as the same run, or refused in the same words."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.traces.fixture import Line, fixture, meta, write
from tests.traces.judging import examples, judged
from traces.engines import local
from traces.generate.small import IN_CALLS, NotHere
from traces.generate.small import injected as mutated
from traces.ingest.run import Run, read_pieces, read_trace
from traces.model.problems import BadInput
from traces.model.schema import COLUMNS, NONE, Flag, Txn
from traces.verdicts.judged import Judged

DATA = Path(__file__).parent.parent / "data"
RECORDINGS = sorted(path for path in (DATA / "recordings").iterdir() if path.is_dir())


def contents(run: Run) -> dict[str, Any]:
    """Everything that a run says, with its rows in the order of its processes' programs."""
    table = {name: np.asarray(run.columns[name]) for name in COLUMNS if name in run.columns}
    keys = ("partition", "op", "idx", "seq", "process")
    order = np.lexsort(tuple(table[name] for name in keys))
    return {
        "rows": {name: column[order].tolist() for name, column in table.items()},
        "missing": run.evidence.missing,
        "counts": dict(sorted(run.evidence.counts.items())),
        "context": attrs.asdict(run.context, value_serializer=_plain),
        "calls": run.calls,
        "warnings": [str(warning) for warning in run.warnings],
        "extra": run.extra,
        "names": run.names.met(),
        "ids": run.names.ids,
        "files": run.names.files,
    }


def _plain(_: Any, __: Any, value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def outcome(folder: Path, size: int | None) -> Any:
    """The result of reading a run in pieces of this size, or as a whole."""
    try:
        return contents(read_trace(folder) if size is None else read_pieces(folder, size))
    except BadInput as error:
        return [str(problem) for problem in error.problems], error.count


def largest(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.iterdir())


def sizes(folder: Path) -> st.SearchStrategy[int]:
    """Few large pieces and many small ones; very many cost only time."""
    return st.integers(largest(folder) // 20 + 1, largest(folder) + 1)


@settings(max_examples=examples(5))
@given(st.integers(0, 1000), st.data())
def test_a_fixture_in_pieces_is_the_same_run(seed: int, data: st.DataObject) -> None:
    w = fixture(seed)
    with TemporaryDirectory() as scratch:
        folder = write(Path(scratch) / "run", w.lines, w.meta)
        size = data.draw(sizes(folder))
        assert outcome(folder, size) == outcome(folder, None)


@settings(max_examples=examples(5))
@given(st.sampled_from(sorted(IN_CALLS)), st.integers(0, 50), st.data())
def test_an_anomaly_in_pieces_is_the_same(anomaly: str, seed: int, data: st.DataObject) -> None:
    try:
        lines, settings = mutated(fixture(seed), IN_CALLS[anomaly])
    except NotHere:
        assume(False)
        return
    with TemporaryDirectory() as scratch:
        folder = write(Path(scratch) / "run", lines, settings)
        whole = judged(folder).as_json()
        one = Judged(folder)
        one.run = read_pieces(folder, data.draw(sizes(folder)))
        one.settle(local.find(one.table(0), {0: one.run.context}), False)
        assert one.as_json() == whole


Damage = Callable[[Random, list[bytes]], list[bytes]]


def cut(random: Random, lines: list[bytes]) -> list[bytes]:
    text = b"".join(lines)
    return [text[: random.randrange(len(text))]]


def drop(random: Random, lines: list[bytes]) -> list[bytes]:
    gone = random.randrange(len(lines))
    return lines[:gone] + lines[gone + 1 :]


def swap(random: Random, lines: list[bytes]) -> list[bytes]:
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return lines


def garble(random: Random, lines: list[bytes]) -> list[bytes]:
    for _ in range(random.randint(1, 30)):
        n = random.randrange(len(lines))
        at = random.randrange(max(len(lines[n]) - 1, 1))
        lines[n] = lines[n][:at] + b'"' + lines[n][at + 1 :]
    return lines


def dots(random: Random, lines: list[bytes]) -> list[bytes]:
    """Blank lines, and lines that end as on Windows."""
    ends = [b"\n", b"\r\n", b"\n\n", b"\n  \n\r\n"]
    return [line.rstrip(b"\n") + random.choice(ends) for line in lines]


def mistake(random: Random, lines: list[bytes]) -> list[bytes]:
    for n in random.sample(range(len(lines)), min(len(lines), random.randint(1, 5))):
        line = json.loads(lines[n])
        line[random.choice(["seq", "op", "outcome", "invoked_ns", "process"])] = random.choice(
            [None, -1, "elsewhere", 1.5, [], 2**63, 3]
        )
        lines[n] = json.dumps(line).encode() + b"\n"
    return lines


DAMAGES: list[Damage] = [cut, drop, swap, garble, dots, mistake]


@settings(max_examples=examples(20))
@given(st.integers(0, 20), st.sampled_from(DAMAGES), st.randoms(use_true_random=False), st.data())
def test_a_damaged_trace_is_read_or_refused_alike(
    seed: int, damage: Damage, random: Random, data: st.DataObject
) -> None:
    """With the lines' numbers counted from the start of the file, wherever it was cut."""
    w = fixture(seed)
    with TemporaryDirectory() as scratch:
        folder = write(Path(scratch) / "run", w.lines, w.meta)
        for path in random.sample(sorted(folder.iterdir()), 3):
            if path.name != "meta.json":
                opened: Any = gzip.open if path.suffix == ".gz" else open
                with opened(path, "rb") as file:
                    lines = file.readlines()
                with opened(path, "wb") as file:
                    file.write(b"".join(damage(random, lines)))
        assert outcome(folder, data.draw(sizes(folder))) == outcome(folder, None)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_a_recording_in_pieces_is_the_same_run(path: Path) -> None:
    for parts in (9,):
        assert outcome(path, largest(path) // parts) == outcome(path, None)


def small(folder: Path, **changes: dict[str, Any]) -> Path:
    """A transaction over many lines, that a reader in it polls for, and one that nobody ended."""
    record = {"topic": "t", "partition": 0}
    inside = {"txn": 0, "transactional_id": "x"}
    calls: list[Line] = [
        {"op": "txn_begin", **inside},
        *({"op": "send", "records": [record | {"offset": n, "id": n}], **inside} for n in (0, 1)),
        {"op": "poll", "records": [record | {"offset": 9, "id": 9}], "group": "g", **inside},
        {"op": "txn_commit", **inside},
        {"op": "send", "records": [record | {"offset": 2, "id": 2}], **inside, "txn": 1},
        {"op": "send", "records": [{"topic": "t", "id": "lost"}], **inside, "txn": 1},
        {"op": "crash"},
    ]
    times = [{"invoked_ns": 10 * n, "returned_ns": 10 * n + 5} for n in range(len(calls))]
    base = {"process": "p0#0", "outcome": "ok"}
    lines = [
        base | {"seq": n} | t | call for n, (call, t) in enumerate(zip(calls, times, strict=True))
    ]
    for at, change in changes.items():
        lines[int(at[1:])] |= change
    reads = [record | {"offset": 1, "id": 1}]
    poll = {"op": "poll", "isolation": "read_committed", "records": reads}
    reader = [base | {"process": "c0#0", "seq": 0, "invoked_ns": 99, "returned_ns": 99} | poll]
    return write(folder, {"p0#0": lines, "c0#0": reader}, meta())


@pytest.mark.parametrize("size", [2, 40, 150])
def test_a_transaction_may_lie_in_any_number_of_pieces(size: int, tmp_path: Path) -> None:
    """Committed, unanswered and proved by a reader, or given up: all pieces say the same of it."""
    for name, changes in {
        "committed": {},
        "proved": {"_4": {"outcome": "info"}},
        "aborted": {"_4": {"op": "txn_abort"}},
        "late": {"_6": {"txn": 0}},
        "vague": {"_4": {"txn": None}},
        "cut off": {"_7": {"op": "subscribe"}},
    }.items():
        folder = small(tmp_path / name, **changes)
        assert outcome(folder, size) == outcome(folder, None)


def test_a_piece_may_be_a_single_byte(tmp_path: Path) -> None:
    folder = small(tmp_path, _4={"outcome": "info"})
    assert outcome(folder, 1) == outcome(folder, None)


def test_what_became_of_a_transaction_is_written_on_all_its_pieces(tmp_path: Path) -> None:
    run = read_pieces(small(tmp_path / "a", _4={"outcome": "info"}), 50)
    states = {
        (int(txn), int(state))
        for txn, state in zip(run.columns["txn"], run.columns["txn_state"], strict=True)
    }
    assert states == {(NONE, Txn.NOT), (0, Txn.PROVED), (1, Txn.ABORTED)}
    mixed = run.columns["txn"][(run.columns["flags"] & Flag.MIXED) != 0]
    assert set(mixed.tolist()) == {0}
    copied = (run.columns["flags"] & Flag.UNKNOWN_PARTITION) != 0
    assert run.columns["partition"][copied].tolist() == [0, 1]
