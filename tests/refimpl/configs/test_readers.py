"""A setting that is said to be supported is read somewhere."""

import re
from pathlib import Path

from refimpl.configs import BROKER, BROKER_NAME, TOPIC
from refimpl.configs.synonyms import chain

REFIMPL = Path(__file__).parents[3] / "refimpl"
#: Tables of fields alone: that a name is there does not mean that anybody reads it
TABLES = (REFIMPL / "storage" / "config.py", REFIMPL / "broker" / "config.py")
#: Fields whose names are not Kafka's
RENAMED = {"max.incremental.fetch.session.cache.slots": "fetch_session_slots"}
#: Read with the others of `LogConfig`, inside of it
WITHIN = {"segment.ms", "cleanup.policy"}
#: The command gives them, or what it starts
GIVEN = {"broker.id"}


def test_every_supported_setting_has_a_reader() -> None:
    sources = [
        path.read_text()
        for path in REFIMPL.rglob("*.py")
        if path not in TABLES and path.parent.name != "configs"
    ]
    code = "\n".join(sources)
    read = set(re.findall(r"\.(\w+)\b", code)) | set(re.findall(r'"([a-z.]+)"', code))
    topics = {
        name for name in TOPIC if name in WITHIN or name in read or name.replace(".", "_") in read
    }
    of_topics = {one for name in topics & BROKER_NAME.keys() for one in chain(BROKER_NAME[name])}
    brokers = {
        name
        for name in BROKER
        if name in read or name.replace(".", "_") in read or RENAMED.get(name) in read
    }
    unread = [
        one.name
        for one in BROKER.values()
        if one.supported and one.name not in brokers | of_topics | GIVEN
    ]
    assert unread == []
    assert [one.name for one in TOPIC.values() if one.supported and one.name not in topics] == []
