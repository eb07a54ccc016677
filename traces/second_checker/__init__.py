"""A second checker, slow and plain, that re-judges every witness which the first one shows.

It shares no code with the checks (`traces.checks`, `traces.engines.kernel`): it reads the lines of
the trace as dictionaries and asks, of one witness, whether the formula is really broken there. A
witness that it refutes means that one of the two is wrong.
"""

from traces.second_checker.base import PREDICATES, Confirmed, Refuted, Undecided
from traces.second_checker.opinion import Opinion, opinion_on, partitions_of
from traces.second_checker.read import from_lines, read

__all__ = [
    "PREDICATES",
    "Confirmed",
    "Opinion",
    "Refuted",
    "Undecided",
    "from_lines",
    "opinion_on",
    "partitions_of",
    "read",
]
