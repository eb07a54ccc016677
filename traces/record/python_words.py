"""The errors, partitions and offsets that kafka-python and aiokafka share."""

from collections.abc import Iterable, Mapping
from typing import Any

from traces.record.errors import NAMES
from traces.record.process import Process, now
from traces.record.topic_ids import TopicIds, known


def error_of(error: Any) -> tuple[int | None, str]:
    """The code of a broker's error, where it is one, and its name, or that of its class."""
    # aiokafka wraps what the coordinator answered.
    inner = getattr(error, "__cause__", None) or error
    code: int | None = getattr(inner, "errno", None)
    if type(code) is int and code in NAMES:
        return code, NAMES[code]
    return None, type(error).__name__


def names(partitions: Iterable[Any]) -> list[str]:
    """Partitions as the trace names them, in order: sets have none."""
    return sorted(f"{p.topic}:{p.partition}" for p in partitions)


def offsets_of(positions: Mapping[Any, Any]) -> dict[str, int]:
    """Offsets by partition, from whatever carries them; negative ones and None mean *none*."""
    found = {f"{p.topic}:{p.partition}": _offset(at) for p, at in positions.items()}
    return {name: offset for name, offset in found.items() if offset is not None and offset >= 0}


def _offset(at: Any) -> int | None:
    if at is None or type(at) is int:
        return at
    return getattr(at, "offset", None) if hasattr(at, "offset") else at[0]


def acks(value: Any) -> str:
    """The acknowledgements asked for, in the words of meta.json."""
    return "all" if value in (-1, "-1", "all") else str(value)


def retries(value: Any) -> int:
    """The number of retries; without limit is the largest number that Kafka knows."""
    return 2**31 - 1 if value is None or value > 2**31 - 1 else int(value)


def topic_ids(process: Process, cluster: Any) -> TopicIds:
    """The ids that a client's metadata tells, where its version keeps them."""
    if not hasattr(cluster, "topic_id"):
        return TopicIds(process, None)

    def since() -> int:
        """When the metadata came, by the clock of the recorder: both are monotonic."""
        return int(getattr(cluster, "_last_successful_refresh_ms", 0) * 1_000_000) or now()

    return TopicIds(
        process, lambda topics: known({topic: cluster.topic_id(topic) for topic in topics}), since
    )
