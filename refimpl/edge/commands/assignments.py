"""Files of partitions and their replicas, in the JSON of Kafka's tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import orjson

from refimpl.edge.commands.connection import CommandRefused

Partition: TypeAlias = tuple[str, int]
Replicas: TypeAlias = Mapping[Partition, Sequence[int]]


def named(partition: Partition) -> str:
    """A partition as Kafka's tools name it."""
    return f"{partition[0]}-{partition[1]}"


def read_partitions(file: Path) -> list[tuple[Partition, Mapping[str, Any]]]:
    """The partitions of a file, each with all that it says of them. Raises CommandRefused."""
    found: list[tuple[Partition, Mapping[str, Any]]] = []
    for at, one in enumerate(_list(file, "partitions")):
        topic, number = one.get("topic"), one.get("partition")
        if not isinstance(topic, str) or not isinstance(number, int):
            raise CommandRefused(f"{file}: partitions[{at}]: expected a topic and a partition")
        found.append(((topic, number), one))
    if twice := _twice([one for one, _ in found]):
        raise CommandRefused(f"{file}: {named(twice)} is there twice")
    return found


def read_replicas(file: Path) -> dict[Partition, list[int]]:
    """The replicas of each partition of a file. Raises CommandRefused."""
    found: dict[Partition, list[int]] = {}
    for partition, one in read_partitions(file):
        replicas: Any = one.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):  # pyright: ignore
            raise CommandRefused(f"{file}: {named(partition)}: expected replicas such as [1, 2, 3]")
        if any(folder != "any" for folder in one.get("log_dirs", ())):
            raise CommandRefused(
                f"{file}: {named(partition)}: log_dirs other than any are not moved here"
            )
        found[partition] = cast("list[int]", replicas)
    return found


def read_topics(file: Path) -> list[str]:
    """The topics of a file. Raises CommandRefused."""
    names = [one.get("topic") for one in _list(file, "topics")]
    if not all(isinstance(one, str) for one in names):
        raise CommandRefused(f'{file}: expected topics such as [{{"topic": "orders"}}]')
    if twice := _twice(names):
        raise CommandRefused(f"{file}: {twice} is there twice")
    return cast("list[str]", names)


def written(replicas: Replicas) -> str:
    """The JSON of Kafka's tools, in one line."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(ids), "log_dirs": ["any"] * len(ids)}
        for (topic, number), ids in sorted(replicas.items())
    ]
    return orjson.dumps({"version": 1, "partitions": partitions}).decode()


def _list(file: Path, name: str) -> list[Mapping[str, Any]]:
    try:
        found: Any = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as wrong:
        raise CommandRefused(f"{file}: {wrong}") from None
    listed: Any = cast("Any", found).get(name) if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(
        isinstance(one, dict) for one in cast("Any", listed)
    ):
        raise CommandRefused(f'{file}: expected {{"{name}": […]}}')
    if not listed:
        raise CommandRefused(f"{file}: {name} is empty")
    return cast("list[Mapping[str, Any]]", listed)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _twice(values: Sequence[Any]) -> Any:
    return next((one for at, one in enumerate(values) if one in values[:at]), None)
