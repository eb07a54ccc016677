"""Log directories: which ones speak for the last process of their broker, and which are missing."""

from refimpl.machines.log_directories import LogDirectories, Memory

A, B, C = "a", "b", "c"


def memory(broker_epoch: int, *directories: str) -> Memory:
    return Memory(broker_epoch, frozenset(directories))


def found(here: str, *memories: Memory) -> tuple[bool, int]:
    directories = LogDirectories.of(here, memories)
    return directories.are_whole, directories.survived


def test_a_new_broker_has_lost_nothing_and_has_no_last_process() -> None:
    assert found("ab") == (True, -1)


def test_the_last_process_is_known_if_every_directory_that_it_had_is_here() -> None:
    assert found("ab", memory(5, A, B), memory(5, A, B)) == (True, 5)
    assert found("abc", memory(5, A, B), memory(5, A, B)) == (True, 5), "a new one has no memory"


def test_a_directory_that_is_not_here_takes_its_logs_with_it() -> None:
    assert found("a", memory(5, A, B)) == (False, -1)
    assert found("ac", memory(5, A, B, C), memory(5, A, B, C)) == (False, -1)
    assert found("bc", memory(5, A, B)) == (False, -1), "another one took its place"


def test_one_that_slept_while_another_process_ran_speaks_of_an_older_one() -> None:
    assert found("ab", memory(6, A), memory(5, A, B)) == (True, -1)


def test_one_of_which_records_may_be_lost_speaks_for_all() -> None:
    assert found("ab", memory(5, A, B), memory(-1, A, B)) == (True, -1)
    assert found("a", memory(-1, A)) == (True, -1)
