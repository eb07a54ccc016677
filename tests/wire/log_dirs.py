"""Requests to a broker with two log directories, each called by its number, and its answers.

Paths, sizes and the room on disks are replaced by what can be compared.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.wire.asking import create, produce, topic
from tests.wire.client import Client

RECORDED = Path(__file__).parent / "recorded" / "log_dirs.json"
PATIENCE_S = 60.0
NOWHERE = "/nowhere"


def played(port: int, places: Sequence[str]) -> list[dict[str, Any]]:
    """Each step: what was asked, and what was answered."""
    with Client.connect(port) as client:
        player = _Player(client, places)
        player.play()
        return json.loads(json.dumps(player.steps))


class _Player:
    def __init__(self, client: Client, places: Sequence[str]) -> None:
        self.client, self.places = client, places
        self.steps: list[dict[str, Any]] = []

    def play(self) -> None:
        """Move partitions to and fro, and ask for what cannot be."""
        first, second = self.places
        create(self._ask, topic("t", partitions=3))
        self._until(lambda: len(self._where("t")) == 3)
        for number in range(3):
            self._until(lambda n=number: self._produced(n))
        for version in (1, 2):
            for place in (second, first):
                self.alter(version, {place: {"t": [0, 1, 2]}})
        self.describe()
        self.alter(2, {first: {"t": [0, 1, 2]}})
        self.alter(2, {NOWHERE: {"t": [0]}, f"{first}/": {"t": [1]}, "": {"t": [2]}})
        self.alter(2, {first: {"t": [0, 1]}, second: {"t": [1, 2]}})
        self.alter(2, {second: {"t": [1, 1]}})
        self.alter(2, {second: {"t": [7, -1], "missing": [0], "x" * 249: [0]}})
        self.alter(2, {NOWHERE: {"missing": [0], "x" * 249: [0]}})
        self.alter(1, {})
        self.alter(2, {second: {}})
        self.alter(2, {second: {"t": []}})
        self.describe()
        self.alter(2, {second: {"later": [0, 1]}, first: {"later": [2]}})
        create(self._ask, topic("later", partitions=3))
        self._until(lambda: len(self._where("later")) == 3)
        self.describe("later")

    def alter(self, version: int, wanted: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
        """AlterReplicaLogDirs, and wait until nothing moves."""
        dirs = [
            {"path": path, "topics": [{"name": n, "partitions": of} for n, of in topics.items()]}
            for path, topics in wanted.items()
        ]
        answer = self.client.ask("AlterReplicaLogDirs", version, {"dirs": dirs})
        found = {
            one["topic_name"]: {of["partition_index"]: of["error_code"] for of in one["partitions"]}
            for one in answer["results"]
        }
        asked = {self._name(path): topics for path, topics in wanted.items()}
        self.steps.append({"api": f"AlterReplicaLogDirs v{version}", "asked": asked, "is": found})
        self._until(lambda: not any(of[1] for of in self._where(None).values()))

    def describe(self, *topics: str) -> None:
        """DescribeLogDirs in each version."""
        asked = [{"topic": name, "partitions": [0, 1, 2]} for name in topics or ("t",)]
        for version in range(1, 6):
            answer = self.client.ask("DescribeLogDirs", version, {"topics": asked})
            found = {
                self._name(one["log_dir"]): {
                    of["name"]: dict(sorted(map(_described, of["partitions"])))
                    for of in one["topics"]
                }
                for one in sorted(answer["results"], key=lambda one: one["log_dir"])
            }
            self.steps.append({"api": f"DescribeLogDirs v{version}", "asked": topics, "is": found})

    def _name(self, path: str) -> str:
        """A directory by its number."""
        for number, place in enumerate(self.places):
            if path.startswith(place):
                return f"{number}{path[len(place) :]}"
        return path

    def _ask(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        return self.client.ask(api, version, values)

    def _produced(self, number: int) -> bool:
        answer = produce(self._ask, "t", 5, partition=number)
        (partition,) = answer["responses"][0]["partition_responses"]
        return partition["error_code"] == "NONE"

    def _where(self, name: str | None) -> dict[tuple[str, int, bool], tuple[str, bool]]:
        """The directory of each log of a topic, or of all, and whether it is a future one."""
        answer = self.client.ask("DescribeLogDirs", 4, {"topics": None})
        return {
            (of["name"], each["partition_index"], each["is_future_key"]): (
                one["log_dir"],
                each["is_future_key"],
            )
            for one in answer["results"]
            for of in one["topics"]
            if name in (None, of["name"])
            for each in of["partitions"]
        }

    def _until(self, condition: Any) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.05)


def _described(log: Mapping[str, Any]) -> tuple[int, tuple[bool, int, bool]]:
    """A log by its number: if it has something, its lag, and if it is a future one."""
    said = log["partition_size"] > 0, log["offset_lag"], log["is_future_key"]
    return log["partition_index"], said
