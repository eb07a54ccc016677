"""Answers of real Kafka to the scripts, kept as files, and how an answer is compared with them.

What no two runs share (ids, times, ports, sizes) is compared by its kind alone. Lists whose order
Kafka leaves to chance are sorted.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from attrs import define, field
from kio.schema.errors import ErrorCode

from tests.wire.asking import NOW
from tests.wire.client import Client
from tests.wire.scripts import OF_THREE, SCRIPTS

FOLDER = Path(__file__).parent / "recorded"
NO_ID = "00000000-0000-0000-0000-000000000000"
# By the name of the field: what it is replaced by, unless it is nothing.
OF_A_RUN = {
    "topic_id": (None, NO_ID, "None"),
    "client_instance_id": (None, NO_ID, "None", *(str(UUID(int=one)) for one in (1, 7))),
    "subscription_id": (0,),
    "cluster_id": (None,),
    "port": (),
    "controller_id": (-1,),
    "producer_id": (-1,),
    "session_id": (0,),
    "transaction_start_time": (-1,),
    # A marker's; that of data is the script's.
    "last_timestamp": (-1, *range(NOW, NOW + 10)),
    # The first epoch of a partition is 0 with Kafka, 1 with us.
    "leader_epoch": (-1,),
    "current_leader_epoch": (-1,),
    "coordinator_epoch": (-1,),
    "log_dir": ("",),
    # Of the metadata, where ours are versions
    "log_end_offset": (-1,),
    "replica_directory_id": (None, NO_ID),
    "last_fetch_timestamp": (),
    "last_caught_up_timestamp": (),
    "total_bytes": (-1,),
    "usable_bytes": (-1,),
    "log_append_time": (None,),
    # A member's id ends with a random one.
    "member_id": ("", "me", "nobody", None),
    "leader": ("",),
    # With Kafka an offset of the metadata, with us the number of updates.
    "finalized_features_epoch": (-1,),
}
SORTED_BY = ("name", "topic_name", "partition_index", "resource_name", "node_id", "broker_id")
IN_ORDER = ("synonyms",)
_MEMBER = re.compile("Member [^ ]{22,} is")
_TOPIC_ID = re.compile(r"(?<= )[\w-]{22}(?= -?\d)")
QUIET_SECONDS = 60
PAUSE_SECONDS, SAME = 0.05, 5
LAG_SECONDS = 1.0
THROTTLE_TIME = "throttle_time"
# What a broker answers that has not taken over what its metadata say that it has.
CHANGING = ("CreateTopics", "CreatePartitions", "AlterPartitionReassignments", "ElectLeaders")
NOT_YET = (
    *("NOT_LEADER_OR_FOLLOWER", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
)


@define
class Recorder:
    """Sends the requests of a script, and keeps them with their answers."""

    client: Client
    #: Of another client id: asks how things stand, and is not throttled
    observer: Client
    #: Whether configurations that were changed count some moments later, and nobody says when
    lagging: bool = False
    steps: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    _clients: dict[int, Client] = field(factory=dict[int, Client])

    def ask(
        self,
        api: str,
        version: int,
        *,
        at: int | None = None,
        patient: bool | None = None,
        until: Callable[[Mapping[str, Any]], bool] | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        """One step.

        `at` names another broker than the first one. It is asked once, unless one is `patient`.
        With `until` it is asked until the answer is so, and the last one is kept.
        """
        client = self.client if at is None else self._client_of(at)
        waits = at is None if patient is None else patient
        answer = self._asked(client, api, version, values, waits=waits)
        end = time.monotonic() + QUIET_SECONDS
        while until is not None and not until(answer) and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            answer = self._asked(client, api, version, values, waits=waits)
        if answer.get(THROTTLE_TIME, 0) > 0:
            self.client.again()
        if api == "AlterClientQuotas":
            answer.pop(THROTTLE_TIME)  # what it has changed may count already, or not
            time.sleep(LAG_SECONDS if self.lagging else 0)
        if api in CHANGING:
            self._wait_until_settled(preferred=api == "ElectLeaders")
        asked = settled(json.loads(json.dumps(values, default=_text)))
        step = {"api": api, "version": version, "asked": asked, "answer": settled(answer)}
        if at is not None:
            step["at"] = at
        self.steps.append(json.loads(json.dumps(step)))
        return answer

    def _client_of(self, broker: int) -> Client:
        """A connection to a broker of this id, which stays."""
        if broker not in self._clients:
            listed = self.observer.ask("Metadata", 9, {"topics": []})["brokers"]
            port = next(one["port"] for one in listed if one["node_id"] == broker)
            self._clients[broker] = Client.connect(port)
        return self._clients[broker]

    def close(self) -> None:
        """Close the connections to other brokers."""
        for client in self._clients.values():
            client.__exit__()

    def _asked(
        self, client: Client, api: str, version: int, values: Mapping[str, Any], *, waits: bool
    ) -> dict[str, Any]:
        """The answer of a broker that has taken over what the controller has decided."""
        until, answers = time.monotonic() + QUIET_SECONDS, list[dict[str, Any]]()
        while True:
            answers.append(client.ask(api, version, values))
            text = json.dumps(answers[-1])
            if time.monotonic() > until or not waits:
                return answers[-1]
            if any(one in text for one in NOT_YET):
                continue
            if api != "DescribeConfigs" or not self.lagging:
                return answers[-1]
            if len(answers) >= SAME and all(one == answers[-1] for one in answers[-SAME:]):
                return answers[-1]
            time.sleep(PAUSE_SECONDS)

    def _wait_until_settled(self, *, preferred: bool) -> None:
        """Until nothing moves, and every partition has a leader and all replicas in sync, as far as
        the broker knows; polled, for Kafka answers before its brokers know."""
        until = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < until:
            moves = self.observer.ask("ListPartitionReassignments", 0, {"topics": None})["topics"]
            known = [
                client.ask("Metadata", 9, {"topics": None})["topics"]
                for client in (self.observer, *self._clients.values())
            ]
            same = all(settled(one) == settled(known[0]) for one in known)
            partitions = [one for topic in known[0] for one in topic["partitions"]]
            if same and not moves and all(_is_settled(one, preferred) for one in partitions):
                return


def _is_settled(one: Mapping[str, Any], preferred: bool) -> bool:
    replicas, leader = one["replica_nodes"], one["leader_id"]
    led = leader == replicas[0] if preferred else leader >= 0
    return led and sorted(one["isr_nodes"]) == sorted(replicas)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def settled(value: Any, name: str = "") -> Any:
    """An answer without what belongs to its run alone."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if fields.get("current_voters"):  # of the metadata as well
            fields = {**fields, "high_watermark": "<high_watermark>"}
        rest = {key: settled(one, key) for key, one in fields.items() if key != THROTTLE_TIME}
        return {**rest, THROTTLE_TIME: "<some>"} if fields.get(THROTTLE_TIME) else rest
    if name in ("isr_nodes", "requested_metrics"):
        return sorted(value)
    if isinstance(value, list) and name in IN_ORDER:
        return [settled(one) for one in cast("list[Any]", value)]
    if isinstance(value, list):
        return sorted((settled(one) for one in cast("list[Any]", value)), key=_order)
    if name == "records" and isinstance(value, str):
        return _without_epochs(value)
    if name == "error_message" and isinstance(value, str):
        return _TOPIC_ID.sub("<topic_id>", _MEMBER.sub("Member <member_id> is", value))
    if name in OF_A_RUN and value not in OF_A_RUN[name]:
        return f"<{name}>"
    return value


def _without_epochs(records: str) -> str:
    """Batches in hexadecimal, whose partition leader epoch is 0, or still a producer's -1; no
    checksum covers it."""
    data, position = bytearray.fromhex(records), 0
    while position + 16 <= len(data):
        if any(one != 0xFF for one in data[position + 12 : position + 16]):
            data[position + 12 : position + 16] = bytes(4)
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
    return data.hex()


def _order(one: Any) -> str:
    """Things by their names, all else as it came."""
    if not isinstance(one, dict):
        return ""
    names = cast("dict[str, Any]", one)
    return json.dumps([[names.get(key) for key in SORTED_BY], names], sort_keys=True)


def record(name: str, port: int, *, lagging: bool = False) -> list[dict[str, Any]]:
    """Every step of a script with the answer of the broker at this port."""
    with Client.connect(port) as client, Client.connect(port, "observer") as observer:
        recorder = Recorder(client, observer, lagging)
        try:
            {**SCRIPTS, **OF_THREE}[name](recorder.ask)
        finally:
            recorder.close()
        return recorder.steps


def kept(name: str) -> list[dict[str, Any]]:
    """The recorded steps of a script."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def keep(name: str, steps: list[dict[str, Any]]) -> None:
    """Write the recording anew, a step a line, so that a difference shows in review."""
    lines = ",\n".join(json.dumps(step, sort_keys=True) for step in steps)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The differences of two answers: the path of the field, and both values; None if missing.

    In a path, parts of a list are called by their names, if they have any.
    """
    if theirs == ours:
        return
    one, other = _parts(theirs), _parts(ours)
    if one is None or other is None or type(theirs) is not type(ours):
        yield path, theirs, ours
        return
    for key in {**one, **other}:
        yield from differences(one.get(key), other.get(key), f"{path}{key}")


def is_retriable(error: str) -> bool:
    """True if clients ask again after this error, until their time is over."""
    return ErrorCode[error.lower()].retriable


def is_same_class(path: str, theirs: Any, ours: Any) -> bool:
    """False for two errors of which one is final and the other is retriable: after the one a client
    gives up, and after the other it asks for minutes. No reason excuses that."""
    errors = [one for one in (theirs, ours) if isinstance(one, str) and one != "NONE"]
    if not path.endswith(".error_code") or len(errors) < 2:
        return True
    return is_retriable(errors[0]) == is_retriable(errors[1])


def errors_of(answer: Any) -> Iterator[str]:
    """Every error in an answer."""
    if isinstance(answer, dict):
        for key, one in cast("dict[str, Any]", answer).items():
            if key == "error_code" and isinstance(one, str) and one != "NONE":
                yield one
            yield from errors_of(one)
    if isinstance(answer, list):
        for one in cast("list[Any]", answer):
            yield from errors_of(one)


def _parts(value: Any) -> dict[str, Any] | None:
    """The fields of a mapping, or the elements of a sequence, by what they are called."""
    if isinstance(value, dict):
        return {f".{key}": one for key, one in cast("dict[str, Any]", value).items()}
    if not isinstance(value, list):
        return None
    elements = cast("list[Any]", value)
    names: list[Any] = [getattr(one, "get", _nameless)("name") for one in elements]
    if None in names or len(set(names)) < len(names):
        names = list(range(len(elements)))
    return {f"[{name}]": one for name, one in zip(names, elements, strict=True)}


def _nameless(_: str) -> None:
    """The name of anything that is no mapping: None."""
