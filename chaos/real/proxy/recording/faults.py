"""The rules of a proxy as faults of the run that it recorded: a report shades their time."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from chaos.real.proxy.proxy import Given
from traces.record import meta


def note_faults(run: Path, given: Iterable[tuple[str, Given]]) -> None:
    """Put the rules that met a request into `meta.json`, in the words that they were given in."""
    new = [
        {"what": f"proxy: {words}", "at_ns": one.at_ns, "until_ns": one.until_ns}
        for words, one in given
        if one.rule.met
    ]
    with suppress(meta.BadMetaError):  # which ending the run says in one line
        whole = meta.read(run) if new else {}
        head = {"format": 1, "run": run.name, "complete": False}
        if new:
            meta.write(run, {**head, **whole, "faults": [*whole.get("faults", []), *new]})
