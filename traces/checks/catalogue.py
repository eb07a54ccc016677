"""Every guarantee of the table: the checks that there are, and why the others are not checked."""

from traces.checks import log
from traces.checks.base import REGISTRY, Check

_LATER = "not implemented yet"
UNCHECKED: dict[str, str] = {}
_TITLES: dict[str, str] = {
    "L7": "payloads are intact",
}
UNCHECKED = {"L7": "needs a checksum of each record, which the format does not carry"}


def _key(id: str) -> tuple[int, int]:
    return "LPTCGSA".index(id[0]), int(id[1:])


CHECKS: dict[str, Check | str] = dict(
    sorted({**_TITLES, **REGISTRY}.items(), key=lambda item: _key(item[0]))
)
_ = log
