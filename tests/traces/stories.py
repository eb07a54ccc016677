"""Small traces as text: a call is a process, an operation of trace format v1, records and fields.

    p0 send 1@0 txn=0; c0 poll 1@0 group=g; scan 1@0 end=1

`p0` is the process `p0#0`, and `1@0` the record 1 at offset 0; `1@0:k` has the key k and a value,
and further fields are in brackets: `1@0(hash=5)`. A number stands for the offset of partition 0
where a field has one for each partition. `name=-` leaves out what an operation has by itself: a
poll is one for committed records, and a member's calls name the partition.

Words in capitals stand for the text that defines them: those below, and those of a file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tests.traces.fixture import Line
from tests.traces.small import PARTITION, Call, record
from traces.ingest.vocabulary import OPS

DATA = Path(__file__).parent / "data" / "stories"
DEFINED = {
    "TID": "transactional_id=x",
    "TXN": "TID txn=0",
    "STARTS": "scan list_offsets query=earliest offsets=0",
}
_WITH_RECORDS = {"send", "poll", "process", "scan", "acquire", "acknowledge"}
_OF_PARTITIONS = {"assign", "assigned", "revoked", "lost", "committed", "pause", "resume"}
_BY_PARTITION = {"offsets", "high_watermark", "log_start", "last_stable", "leader_epochs"}
_RECORD = re.compile(r"(\d+)(?:@(\d+))?(?::(\w+))?(?:\((.*)\))?")


@frozen
class Story:
    """A case of a file: words and settings, its title, its calls, and evidence to leave out."""

    words: list[str]
    settings: dict[str, Any]
    title: str
    calls: list[Call] = field(factory=list[Call])
    without: list[str] = field(factory=list[str])


def stories(name: str) -> dict[str, Story]:
    """The cases of a file of `data/stories`, by title.

    Each is `WORDS NAME=VALUE: TITLE | CALLS`: words and settings mean what the test makes of them.
    Indented lines have more calls, or `without` the evidence that is left out.
    """
    found: list[Story] = []
    defined = dict(DEFINED)
    for line in (DATA / f"{name}.txt").read_text().splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if definition := re.fullmatch(r"([A-Z_0-9]+) = (.*)", line):
            defined[definition[1]] = definition[2]
        elif not line.startswith(" "):
            head, _, rest = text.partition(": ")
            title, _, calls = rest.partition(" | ")
            words = [word.replace("-", " ") for word in head.split() if "=" not in word]
            settings = dict(_value(word) for word in head.split() if "=" in word)
            found.append(Story(words, settings, title, story(calls, **defined)))
        elif text.startswith("without "):
            found[-1].without.append(text.removeprefix("without "))
        else:
            found[-1].calls.extend(story(text, **defined))
    by_title = {one.title: one for one in found}
    assert len(by_title) == len(found), "two cases have one title"
    return by_title


def story(text: str, **defined: str) -> list[Call]:
    """The calls of a text, each ended by a semicolon or by the end of its line."""
    return list(_calls(_spelled(text, DEFINED | defined)))


def _spelled(text: str, defined: Mapping[str, str]) -> str:
    """The text without the words that stand for another one."""
    spelled = re.sub(r"\b[A-Z][A-Z_0-9]*\b", lambda word: defined.get(word[0], word[0]), text)
    return text if spelled == text else _spelled(spelled, defined)


def _calls(text: str) -> Iterator[Call]:
    for words in filter(None, map(str.split, re.split(r"[;\n]", text))):
        process, *rest = words
        op = "scan" if re.fullmatch(r"scan(#\d)?", process) else ""
        op = rest.pop(0) if rest and rest[0] in OPS else op
        assert op, f"expected an operation in {' '.join(words)!r}"
        named = process if "#" in process or process.startswith("broker-") else f"{process}#0"
        yield named, op, _fields(op, rest)


def _fields(op: str, words: list[str]) -> Line:
    records = [_record(word) for word in words if _RECORD.fullmatch(word)]
    given = dict(_value(word) for word in words if not _RECORD.fullmatch(word))
    line: Line = {"records": records} if records or op in _WITH_RECORDS else {}
    line |= {"isolation": "read_committed"} if op == "poll" else {}
    line |= {"partitions": [PARTITION]} if op in _OF_PARTITIONS else {}
    if "end" in given:
        line |= {"partitions": [PARTITION], "offsets": {PARTITION: given.pop("end")}}
        line |= {"isolation": "read_uncommitted"}
    return {name: value for name, value in (line | given).items() if value != "-"}


def _record(word: str) -> Line:
    id, offset, key, more = _RECORD.fullmatch(word).groups()  # pyright: ignore
    keyed = {"key": key, "tombstone": False} if key else {}
    others = dict(_value(one) for one in more.split(",")) if more else {}
    return record(int(id), None if offset is None else int(offset), **keyed, **others)


def _value(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    assert equals, f"expected a record, NAME=VALUE or a word that is defined, found {word!r}"
    value = _plain(text)
    many = name in _BY_PARTITION and isinstance(value, int)
    return name, {PARTITION: value} if many else value


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
