"""The abstract log by itself, guard by guard."""

import pytest

from refimpl.errors import Refusal
from refimpl.machines.abstract_log import AbstractLog


def log(*records: str, loss_allowed: bool = True) -> AbstractLog:
    made = AbstractLog(loss_allowed)
    for record in records:
        made.commit(record)
    return made


@pytest.mark.parametrize("length", [-1, 3])
def test_a_reader_sees_a_prefix_and_nothing_else(length: int) -> None:
    made = log("a", "b")
    with pytest.raises(Refusal) as refused:
        made.observe(1, length)
    assert refused.value.kafka_error == "INVALID_REQUEST"
    assert made.views == {}


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_reader_may_lag(length: int) -> None:
    made = log("a", "b")
    made.observe(1, length)
    assert made.views == {1: ("a", "b")[:length]}


def test_nothing_is_lost_where_that_is_not_allowed() -> None:
    made = log("a", "b", loss_allowed=False)
    with pytest.raises(Refusal):
        made.lose(1)
    assert made.committed == ["a", "b"]


def test_by_default_no_loss_is_allowed() -> None:
    assert not AbstractLog().loss_allowed


@pytest.mark.parametrize("length", [-1, 2, 3])
def test_a_loss_leaves_a_shorter_log(length: int) -> None:
    made = log("a", "b")
    with pytest.raises(Refusal):
        made.lose(length)
    assert made.committed == ["a", "b"]


@pytest.mark.parametrize("length", [0, 1])
def test_a_loss_moves_back_who_saw_more(length: int) -> None:
    made = log("a", "b")
    made.observe(1, 2)
    made.observe(2, 0)
    made.lose(length)
    assert made.committed == ["a", "b"][:length]
    assert made.views == {1: ("a", "b")[:length], 2: ()}


def test_what_somebody_saw_agrees_where_the_log_holds_it() -> None:
    made = log("a", "b", "c")
    assert made.agrees(1, ["b", "c"])
    assert made.agrees(3, [])
    assert not made.agrees(1, ["a"])
    assert not made.agrees(2, ["c", "d"])
