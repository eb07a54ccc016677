"""Notes in a run's `meta.json` what is done to the cluster, and when it is undone."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic_ns
from typing import Any

from traces.record import meta

_lock = Lock()


@contextmanager
def fault(run: str | Path, what: str) -> Generator[None]:
    """Do a fault to the cluster inside the block: a report shades the time that the block took.

    `what` is said to people (`kill -9 broker 2`); no verdict depends on it. The times are those of
    the clock that recorded clients use. One program at a time writes a run's `meta.json`.

    Raises `BadMetaError` where there is a `meta.json` that is none.
    """
    folder, fault = Path(run), {"what": what, "at_ns": monotonic_ns()}
    folder.mkdir(parents=True, exist_ok=True)
    _note(folder, fault)
    try:
        yield
    finally:
        _note(folder, fault | {"until_ns": monotonic_ns()})


def _note(folder: Path, fault: dict[str, Any]) -> None:
    """Put a fault in, in place of what was said of it before."""
    with _lock:
        whole = meta.read(folder)
        begun = {"what": fault["what"], "at_ns": fault["at_ns"]}
        others = [one for one in whole.get("faults", []) if one != begun]
        head = {"format": 1, "run": folder.name}
        meta.write(folder, {**head, **whole, "faults": [*others, fault]})
