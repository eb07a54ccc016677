"""No oracle is silent in a setting that it reads: there a bug is reported, and by that site alone.

For each site its bug is put in once more under each other value of the settings that the code of
its module reads, with logs in files, and in both group protocols. A pair in which the bug is none,
or another oracle reports it too, stands below with the reason. `make test` takes one value for each
site, `make soak` all of them.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import pytest
from attrs import evolve
from hypothesis import settings

from chaos.oracles.violation import Violation
from tests.chaos import control_plane_cases, group_bugs, oracle_bugs, share_bugs, transaction_bugs
from tests.chaos.oracle_cases import CASES, Case
from tests.chaos.oracle_sites import ORACLES, Site, settings_read, silent, sites

BUGS = (control_plane_cases, group_bugs, oracle_bugs, share_bugs, transaction_bugs)
#: Values that differ from those of the cases; of times and seeds an oracle reads only how long
VALUES: dict[str, tuple[Any, ...]] = {
    "elr": (True,),
    "min_isr": (1, 3),
    "unclean": (True,),
    "lossy": (True,),
    "overlap": (False,),
    "reconfigures": (True,),
    "idempotence": (True,),
    "reference_clients": (True,),
    "files": (True,),
    "clocks": (True,),
    "commit_when": ("before",),
    "several_subscriptions": (True,),
    "transaction_version": (0, 1),
    "share_isolation": ("read_committed",),
    "share_delivery_limit": (2,),
}
PLAIN = (
    *("calm_ms", "fault_ms", "jitter_ms", "member_session_ms", "producer_expiration_ms"),
    *("share_lock_ms", "seed"),
)
#: Settings that oracles do not read themselves, but whose code they watch
PARTITIONS: dict[str, tuple[Any, ...]] = {"files": (True,), "elr": (True,), "min_isr": (1,)}
FILES: dict[str, tuple[Any, ...]] = {"files": (True,)}
GROUPS: dict[str, tuple[Any, ...]] = {
    "group_protocol": ("classic", "consumer"),
    "static_members": (True,),
}
WATCHED = {
    "availability": PARTITIONS,
    "configurations": PARTITIONS,
    "coordinated_group": GROUPS,
    "deletion": PARTITIONS,
    "group": GROUPS,
    "loaded": GROUPS,
    "partition": PARTITIONS,
    "progress": PARTITIONS,
    "share_group": FILES,
    "share_log": FILES,
    "transaction_log": FILES,
    "transactions": FILES,
    "watch": PARTITIONS,
}
AT_MOST_ONCE = "who commits before processing promises at most once: nothing must be done before"
ALLOWED = "unclean elections are enabled, so this one is no violation"
CLASSIC = "generations are a classic group's; a consumer group's epochs have sites of their own"
BY_HAND = "the bug writes values as a log in memory has them, which a file does not take"
EXCUSED: dict[tuple[str, str], str] = {
    ("GroupPartition.judge: must_be_done()", "commit_when=before"): AT_MOST_ONCE,
    ("GroupPartition.must_be_done: AtLeastOnce", "commit_when=before"): AT_MOST_ONCE,
    ("ProgressOracle._not_committed: AtLeastOnce", "commit_when=before"): AT_MOST_ONCE,
    ("CoordinatedGroup._written: _group()", "group_protocol=consumer"): CLASSIC,
    ("CoordinatedGroup._grows: GenerationsGrow", "group_protocol=consumer"): CLASSIC,
    ("CoordinatedGroup._grows: Settles", "group_protocol=consumer"): CLASSIC,
    ("PartitionOracle._elected_unclean: UncleanElection", "unclean=True"): ALLOWED,
    ("PartitionOracle.decided: _elected_unclean()", "unclean=True"): ALLOWED,
    (
        "ConfigurationsOracle._committed: EnoughInSync",
        "min_isr=1",
    ): "a leader is in sync itself, so there are never fewer than one",
    (
        "ConfigurationsOracle._decided: ElrBelowMinIsr",
        "min_isr=3",
    ): "the two that are in sync are fewer than three, so that others are eligible is right",
    (
        "PartitionOracle.decided: ElrOutsideIsr",
        "reconfigures=True",
    ): "a member of the ISR is eligible where enough are in sync: ElrBelowMinIsr says so as well",
    (
        "PartitionOracle._wrote_one: EpochsAscend",
        "files=True",
    ): "files refuse a batch of an older epoch, and what the bug says it wrote is there twice",
    ("ProgressOracle._no_duplicates: NoDuplicates", "files=True"): BY_HAND,
    ("ProgressOracle._scan: _no_duplicates()", "files=True"): BY_HAND,
    (
        "TransactionsOracle._undecided: transactional id is",
        "files=True",
    ): "what the bug changes differs from the coordinator's file: LoadedAsLive says so as well",
}


@cache
def varied() -> Sequence[tuple[str, str, Any]]:
    """Each site with each setting that its code reads, or watches, and each other value."""
    return [*_varied()]


def _varied() -> Iterator[tuple[str, str, Any]]:
    for name in CASES:
        module = sites()[name].function.partition(":")[0]
        if not module.startswith(ORACLES):
            continue  # it ends the run, or finds that it cannot go on
        read = {of: VALUES[of] for of in settings_read(module) if of not in PLAIN}
        values = {**WATCHED.get(module.rpartition(".")[2], {}), **read}
        yield from ((name, of, value) for of, many in sorted(values.items()) for value in many)


def seen(case: Case, site: Site) -> str:
    """The fault in the report of a bug, with the site and without it; empty if there is none."""
    found = case.violation()
    if found is None:
        return "it is not reported"
    if not _says(site, found):
        return f"another oracle is first: {found}"
    left = case.violation(silent(site))
    return "" if left is None else f"another oracle reports it too: {left}"


def _says(site: Site, found: Violation) -> bool:
    return site.oracle in (None, found.oracle) and all(words in found.what for words in site.said)


def asked(name: str) -> list[tuple[str, Any]]:
    """The values of a site that are tried: one of them, or in `make soak` all."""
    pairs = [
        (setting, value)
        for of, setting, value in varied()
        if of == name and (name, f"{setting}={value}") not in EXCUSED
    ]
    if settings().derandomize and pairs:
        return [pairs[crc32(name.encode()) % len(pairs)]]
    return pairs


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _, _ in varied()))
def test_no_site_is_silent_in_a_setting_that_its_code_reads(name: str) -> None:
    wrong = dict[str, list[str]]()
    for setting, value in asked(name):
        cases = [evolve(one, settings={**one.settings, setting: value}) for one in CASES[name]]
        found = [seen(case, sites()[name]) for case in cases]
        if all(found):
            wrong[f"{setting}={value}"] = found
    assert wrong == {}


def test_the_table_has_every_setting_that_oracles_read() -> None:
    assert all(BUGS)
    pairs = [(name, f"{setting}={value}") for name, setting, value in varied()]
    assert len(pairs) > 400
    assert EXCUSED.keys() <= {*pairs}
    assert all(len(why) > 20 for why in EXCUSED.values())
