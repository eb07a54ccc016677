"""Checks of traces find bugs of clients and coordinators in simulated histories: a sample.

All of them are played by `make check-bugs`.
"""

import pytest

from tests.chaos.check_bugs import BUGS, PAGE, Bug, played

PAIRS = [(bug, protocol) for bug in BUGS for protocol in bug.seeds]


@pytest.mark.parametrize(
    ("bug", "protocol"), PAIRS[::5], ids=lambda one: one.name if isinstance(one, Bug) else one
)
def test_a_bug_is_found_by_the_checks_that_are_named(bug: Bug, protocol: str) -> None:
    found = played(bug, protocol, bug.seeds[protocol])
    assert found is not None
    row = next(row for row in PAGE.read_text().splitlines() if _is_of(row, bug, protocol))
    assert all(check in row for check in bug.checks)


def _is_of(row: str, bug: Bug, protocol: str) -> bool:
    return row.startswith(f"| {bug.name} | {protocol} | {bug.seeds[protocol]} |")


@pytest.mark.parametrize("bug", BUGS, ids=lambda one: one.name)
def test_every_edit_still_applies(bug: Bug) -> None:
    with bug.there():
        assert bug.checks
