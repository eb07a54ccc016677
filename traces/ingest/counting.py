"""Counts absent fields in a piece of a process's file, of whatever kind they are."""

from collections.abc import Mapping

from traces.context import Ints, context
from traces.ingest.evidence import MARKS, Evidence, count
from traces.ingest.logs import count_fields
from traces.meta import Meta
from traces.names import Names


def counts_of(
    columns: Mapping[str, Ints], meta: Meta, numbers: Mapping[str, Mapping[str, int]]
) -> dict[str, tuple[int, int]]:
    """How many rows lack what they should have, and how many should have it."""
    names = Names()
    names.learn(numbers)
    counted = Evidence()
    counted.add(count(columns), MARKS)
    count_fields(counted, columns, context(meta, names, ()))
    return counted.counts
