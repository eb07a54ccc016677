"""The errors that DumpLogSegments prints at the end, on standard error."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import asdict, define, field

Pairs = dict[Path, list[tuple[int, int]]]


def _pairs() -> Pairs:
    return defaultdict(list)


@define
class Findings:
    """The mismatches that were found, by file."""

    wrong_offsets: Pairs = field(factory=_pairs)
    wrong_timestamps: Pairs = field(factory=_pairs)
    late_timestamps: Pairs = field(factory=_pairs)
    lost_offsets: Pairs = field(factory=_pairs)
    gaps: Pairs = field(factory=_pairs)
    damaged: bool = False

    @property
    def are_bad(self) -> bool:
        """True if something is broken. A gap is not: compaction leaves gaps, and so does a log that
        begins above zero."""
        lists = (self.wrong_offsets, self.wrong_timestamps, self.late_timestamps, self.lost_offsets)
        return self.damaged or any(lists)

    def as_json(self) -> dict[str, Any]:
        """The same for programs: whether something is broken, and pairs of numbers by file."""
        pairs = {
            name: {str(path): sorted(set(found)) for path, found in mine.items() if found}
            for name, mine in asdict(self, recurse=False).items()
            if name != "damaged"
        }
        return {"broken": self.are_bad, "damaged": self.damaged, **pairs}

    def lines(self) -> Iterator[str]:
        """The complaints, in the tool's words and order."""
        for path, found in self.wrong_offsets.items():
            yield f"Mismatches in :{path}"
            for index, log in sorted(set(found), reverse=True):
                yield f"  Index offset: {index}, log offset: {log}"
        for path, found in self.wrong_timestamps.items():
            yield f"Found timestamp mismatch in :{path}"
            for index, log in found:
                yield f"  Index timestamp: {index}, log timestamp: {log}"
        for path, found in self.late_timestamps.items():
            yield f"Found out of order timestamp in :{path}"
            for index, previous in found:
                yield f"  Index timestamp: {index}, Previously indexed timestamp: {previous}"
        for found in self.lost_offsets.values():
            yield "The following indexed offsets are not found in the log."
            for indexed, log in found:
                yield f"Indexed offset: {indexed}, found log offset: {log}"
        for path, found in self.gaps.items():
            yield f"Non-consecutive offsets in {path}"
            for before, after in sorted(dict(found).items()):
                yield f"  {before} is followed by {after}"
