"""The links of docs/kafka-diff.md to Kafka's classes and methods, by line.

The page says `[`shrinkIsr`][Partition.shrinkIsr]`; what the label stands for is at its end, one
line each, pinned to the release that was read: `python docs/kafka_lines.py FOLDER` writes them from
the released sources (`FOLDER/VERSION/ARTIFACT/…`, unpacked), and with --check only says which
differ. `make test-kafka` fetches the sources and does so.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

PAGE = Path(__file__).with_name("kafka-diff.md")
#: Where in Kafka's repository the sources of an artifact are
ROOMS = {
    "kafka_2.13": "core",
    "kafka-clients": "clients",
    "kafka-coordinator-common": "coordinator-common",
    "kafka-group-coordinator": "group-coordinator",
    "kafka-metadata": "metadata",
    "kafka-server": "server",
    "kafka-server-common": "server-common",
    "kafka-share-coordinator": "share-coordinator",
    "kafka-storage": "storage",
}
RELEASE, ON_ZOOKEEPER = "4.3.1", "3.9.1"
"""Of the modules that model KRaft and groups, and of Controller."""
_USED = re.compile(r"\]\[([\w.]+)\]")
_DEFINED = re.compile(r"^\[([\w.]+)\]: (\S+)$", re.MULTILINE)
_KINDS = "class|object|trait|interface|record|enum"
_CLASS = re.compile(rf"^ {{0,4}}(?![*/])(?:[\w.<>\[\]]+ )*(?:{_KINDS}) (\w+)\b")
_SECTION = re.compile(r"^## .*", re.MULTILINE)


def used(page: str) -> Mapping[str, str]:
    """The symbols that the page links, each with the release in which it is to be found."""
    versions: dict[str, str] = {}
    starts = [0, *(found.start() for found in _SECTION.finditer(page)), len(page)]
    for begin, end in pairwise(starts):
        section = page[begin:end]
        release = ON_ZOOKEEPER if section.startswith("## Controller ") else RELEASE
        versions.update(dict.fromkeys(_USED.findall(section), release))
    return versions


def defined(page: str) -> Mapping[str, str]:
    """The address that each symbol has at the end of the page."""
    return dict(_DEFINED.findall(page))


def address(symbol: str, release: str, sources: Path) -> str:
    """The address of a class or a method in Kafka's repository; LookupError if there is none."""
    owner, _, method = symbol.partition(".")
    for start, room, path in _classes(release, sources).get(owner, ()):
        line = start if not method else _method(_text(path), start, method)
        if line is not None:
            where = f"{room}/{path.relative_to(sources / release).as_posix().partition('/')[2]}"
            return f"https://github.com/apache/kafka/blob/{release}/{where}#L{line}"
    raise LookupError(f"Kafka {release} has no {symbol}")


@cache
def _classes(release: str, sources: Path) -> Mapping[str, Sequence[tuple[int, str, Path]]]:
    """Every class by name: the line at which it begins, the folder of its language, its file."""
    found: dict[str, list[tuple[int, str, Path]]] = {}
    for artifact, room in ROOMS.items():
        for language in ("scala", "java"):
            for file in sorted((sources / release / artifact).rglob(f"*.{language}")):
                for number, line in enumerate(_text(file).splitlines(), 1):
                    named = _CLASS.match(line)
                    if named is not None:
                        here = number, f"{room}/src/main/{language}", file
                        found.setdefault(named[1], []).append(here)
    return found


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _line(text: str, pattern: str, after: int = 0) -> int | None:
    """The first line below `after` that is not a comment and has this."""
    for number, line in enumerate(text.splitlines(), 1):
        if number > after and re.search(pattern, line) and not re.match(r"\s*(?:\*|//|/\*)", line):
            return number
    return None


def _method(text: str, start: int, name: str) -> int | None:
    """The line in which the class that begins at `start` defines a method, a field or a class of
    this name."""
    scala = rf"\b(?:def|val|var|class|object) {name}\b"
    java = rf"^ {{4,8}}(?!return\b|throw\b|else\b)(?:@?[\w.<>\[\],?&]+ +)+{name}(?:\(|;| =)"
    return _line(text, f"{scala}|{java}", start)


def links(page: str, sources: Path) -> Mapping[str, str]:
    """Every symbol that the page links, with its address in the released sources."""
    return {name: address(name, release, sources) for name, release in sorted(used(page).items())}


def main(arguments: list[str]) -> int:
    """Write the addresses, or check them."""
    check, folder = "--check" in arguments, Path(arguments[-1])
    page = PAGE.read_text(encoding="utf-8")
    found = links(page, folder)
    if check:
        there = defined(page)
        differ = {name for name in {*found, *there} if found.get(name) != there.get(name)}
        print("\n".join(f"{name}: {found.get(name, 'not linked')}" for name in sorted(differ)))
        return 1 if differ else 0
    body = _DEFINED.sub("", page).rstrip()
    lines = "\n".join(f"[{name}]: {url}" for name, url in found.items())
    PAGE.write_text(f"{body}\n\n{lines}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
