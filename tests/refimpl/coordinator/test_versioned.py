"""A map with two views: what is written and what is committed, key by key."""

from refimpl.coordinator.versioned import Versioned


def test_what_is_written_is_committed_once_the_high_watermark_has_passed_it() -> None:
    values = Versioned[str, int]()
    values.put("a", 1)
    values.put("a", 2, 10)
    assert (values.get("a"), values.committed("a")) == (2, 1)
    values.commit(10)
    assert values.committed("a") == 1
    values.commit(11)
    assert values.committed("a") == 2
    assert values.committed("b") is None


def test_of_several_records_of_a_key_each_is_committed_by_itself() -> None:
    values = Versioned[str, int]()
    for offset in (5, 6, 7):
        values.put("a", offset, offset)
    seen: list[int | None] = []
    for high_watermark in (5, 6, 7, 8):
        values.commit(high_watermark)
        seen.append(values.committed("a"))
    assert seen == [None, 5, 6, 7]
    assert values.get("a") == 7


def test_what_is_cut_off_is_as_it_was_before() -> None:
    values = Versioned[str, int]()
    values.put("a", 1)
    values.put("a", 2, 5)
    values.put("b", 3, 6)
    values.put("a", 4, 7)
    values.revert(7)
    assert (values.get("a"), values.get("b")) == (2, 3)
    values.revert(6)
    assert (values.get("a"), values.get("b")) == (2, None)
    assert values.is_gone("b")
    values.revert(0)
    assert values.get("a") == 1
    values.commit(100)
    assert values.committed("a") == 1


def test_a_key_that_is_cut_off_can_be_written_and_committed_again() -> None:
    values = Versioned[str, int]()
    values.put("a", 1, 5)
    values.revert(5)
    assert values.is_gone("a")
    values.put("a", 2, 5)
    assert values.committed("a") is None
    values.commit(6)
    assert values.committed("a") == 2


def test_a_key_is_gone_when_neither_view_has_it() -> None:
    values = Versioned[str, int]()
    assert values.is_gone("a")
    values.put("a", 1, 0)
    assert not values.is_gone("a")
    values.commit(1)
    assert not values.is_gone("a")
    values.put("a", None, 1)
    assert (values.get("a"), values.committed("a")) == (None, 1)
    assert not values.is_gone("a")
    values.commit(2)
    assert values.is_gone("a")


def test_the_committed_keys_are_those_with_a_committed_value() -> None:
    values = Versioned[str, int]()
    values.put("old", 1)
    assert list(values.committed_keys()) == ["old"]
    values.put("new", 2, 0)
    values.put("old", None, 1)
    assert list(values.committed_keys()) == ["old"]
    values.commit(1)
    assert sorted(values.committed_keys()) == ["new", "old"]
    values.commit(2)
    assert list(values.committed_keys()) == ["new"]
