"""A campaign's record on disk: its results so far, and the seed to continue from.

A seed counts only for the sources and settings of its run. The file has both, and a file with other
sources or settings is refused.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import orjson
from attrs import asdict, define, field

import chaos
import refimpl
from chaos.campaign import SeedResult, Tally

SECONDS = 5  # between two times that the file is written


class BadLedger(ValueError):
    """The file cannot be gone on with; says why."""


@define(eq=False)
class Ledger:
    """The results of a campaign over `seeds`, and the first seed that has not been run yet."""

    path: Path
    seeds: range
    fixed: Mapping[str, str]
    tally: Tally = field(factory=Tally)
    following: int = field(init=False)
    _written_at: float = field(factory=monotonic, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with the first."""
        self.following = self.seeds.start

    @classmethod
    def open(cls, path: Path, seeds: range, fixed: Mapping[str, str]) -> "Ledger":
        """Go on with the file's campaign, or begin one.

        Raises BadLedger if the file is of other seeds, settings or sources, or no ledger at all.
        """
        ledger = cls(path, seeds, fixed)
        if not path.exists():
            return ledger
        try:
            found: dict[str, Any] = orjson.loads(path.read_bytes())
            for name, value in ledger._identity().items():
                if found[name] != value:
                    raise BadLedger(
                        f"{path}: {name} is {found[name]}, and now it is {value}; "
                        "delete the file to begin anew"
                    )
            ledger.following = found["following"]
            seen: dict[str, Any] = found["tally"]
            ledger.tally = Tally(
                seen["seeds"],
                seen["events"],
                seen["simulated_ms"],
                seen["cpu_s"],
                Counter[str](seen["counts"]),
                [SeedResult(**one) for one in seen["failed"]],
            )
        except (KeyError, TypeError, orjson.JSONDecodeError) as wrong:
            raise BadLedger(f"{path}: no record of a campaign ({wrong!r})") from None
        return ledger

    @property
    def left(self) -> range:
        """The seeds that have not been run yet."""
        return range(self.following, self.seeds.stop)

    def add(self, result: SeedResult) -> None:
        """The next seed has been run."""
        self.tally.add(result)
        self.following = result.seed + 1
        if result.oracle is not None or monotonic() > self._written_at + SECONDS:
            self.write()

    def write(self) -> None:
        """Replace the file."""
        written = {**self._identity(), "following": self.following, "tally": asdict(self.tally)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2))
        beside.replace(self.path)
        self._written_at = monotonic()

    def _identity(self) -> dict[str, Any]:
        return {
            "seeds": [self.seeds.start, self.seeds.stop - 1],
            "config": dict(self.fixed),
            "sources": sources(),
        }


def sources() -> str:
    """A hash over all that a run executes of ours."""
    hasher = hashlib.blake2b(digest_size=8)
    for package in (chaos, refimpl):
        for folder in package.__path__:
            for path in sorted(Path(folder).rglob("*.py")):
                hasher.update(path.relative_to(folder).as_posix().encode())
                hasher.update(path.read_bytes())
    return hasher.hexdigest()
