"""Choose the checks of a run: all of them, or those that need no shuffle of events."""

from collections.abc import Collection, Mapping
from typing import Any

from traces.engines import local
from traces.engines.precheck import alone
from traces.engines.precheck.quick import COVERED
from traces.model.context import Context

MODES = ("exact", "quick", "auto")
# Above this many rows `auto` prefers sums and summaries, which are several times cheaper.
QUICK_ROWS = 50_000_000


def is_quick(mode: str, rows: int) -> bool:
    """True if runs of so many rows are judged by the quick prechecks."""
    return mode == "quick" or (mode == "auto" and rows > QUICK_ROWS)


def asked(quick: bool, jepsen: bool) -> Collection[str] | None:
    """The checks that are asked, or None for all; a history has other rules and is small."""
    return COVERED if quick and not jepsen else None


def find_here(
    ops: Any, contexts: Mapping[int, Context], quick: bool, foreign: bool = False
) -> list[dict[str, Any]]:
    """Find breaches in this table, in this process; `foreign` if its files may be of several runs.

    Raises `BadInput` if they are.
    """
    if quick:
        return alone.find(ops, contexts, foreign=foreign)
    return local.find(ops, contexts, foreign=foreign)


def find_in_spark(ops: Any, contexts: Mapping[int, Context], quick: bool) -> list[dict[str, Any]]:
    """Find breaches in these files, in Spark."""
    from traces.engines import spark
    from traces.engines.precheck import spark as prechecks

    found = prechecks.find(ops, contexts) if quick else spark.find(ops, contexts)
    return [row.asDict(recursive=True) for row in found.collect()]
