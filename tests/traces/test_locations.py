"""Locations of findings: stretches of offsets, from all findings and not from the witnesses."""

import numpy as np

from traces.checks.rows import Rows
from traces.engines.locations import MOST, locations
from traces.model.context import SUBJECT_BITS, Clause
from traces.model.schema import COLUMNS, NONE, Op


def rows(offsets: list[int], **columns: list[int]) -> Rows:
    size = len(offsets)
    of = {name: np.full(size, NONE, np.int64) for name in COLUMNS}
    of |= {"topic": np.zeros(size, np.int64), "partition": np.zeros(size, np.int64)}
    of |= {"offset": np.array(offsets), "op": np.full(size, int(Op.SEND))}
    of |= {name: np.array(values) for name, values in columns.items()}
    return Rows(of, None)  # pyright: ignore[reportArgumentType]


def stretches(of: Rows, lines: list[list[int]], clauses: list[int] | None = None) -> list[object]:
    table = np.array(lines, np.int64)
    found = locations(of, table, np.array(clauses or [0] * len(lines), np.int64))
    return [
        (list(zip(one["starts"], one["ends"], strict=True)), one["broken"] + one["allowed"])
        for one in found
    ]


def test_offsets_that_touch_are_one_place_and_others_are_others() -> None:
    of = rows([5, 6, 7, 40])
    assert stretches(of, [[0], [1], [2], [3]]) == [([(5, 7)], 3), ([(40, 40)], 1)]


def test_a_finding_about_two_offsets_joins_their_places() -> None:
    of = rows([5, 40, 6, 41, 90])
    assert stretches(of, [[0, 1], [2, 3], [4, -1]]) == [([(5, 6), (40, 41)], 2), ([(90, 90)], 1)]


def test_findings_without_offsets_are_told_apart_by_time() -> None:
    second = 1_000_000_000
    of = rows([NONE] * 3, inv=[second, second + 5, 9 * second], ret=[NONE] * 3)
    assert stretches(of, [[0], [1], [2]]) == [([], 2), ([], 1)]


def test_what_nobody_knows_to_be_a_finding_has_no_place() -> None:
    assert stretches(rows([5]), [[0]], [int(Clause.UNKNOWN) << SUBJECT_BITS]) == []


def test_where_there_are_too_many_stretches_the_smallest_holes_are_closed() -> None:
    offsets = [n * 2 for n in range(500)] + [10_000]
    found = stretches(rows(offsets), [[n] for n in range(len(offsets))])
    assert len(found) == MOST
    assert sum(number for _, number in found) == 501  # pyright: ignore
    assert found[-1] == ([(10_000, 10_000)], 1)


def test_the_time_is_that_of_the_first_event_and_not_of_the_scan_at_the_end() -> None:
    of = rows([5, 5], inv=[10, 900], ret=[20, 950], op=[int(Op.SEND), int(Op.SCAN)])
    (one,) = locations(of, np.array([[1, 0]]), np.zeros(1, np.int64))
    assert (one["since"], one["until"], one["reported"]) == (10, 20, 20)
