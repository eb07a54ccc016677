"""Cost of the Java recorder: one producer in one JVM, plain and recorded in turn.

    python bench/bench_recorder_java.py [--rounds 7] [--seconds 5] [--rate 20000]

A broker of Apache Kafka is started on the loopback address (Java and Maven are needed, as for
`make test-kafka`). Each message is a document of 1 KB that is made for it, sent with acks=all. The
first round of each kind warms the JVM up and does not count. A rate of 0 is full speed.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.recorded_rounds import TOPIC, measure  # noqa: E402
from tests.traces.record.java.building import classpath  # noqa: E402

HEAP = "-Xmx512m"


def pace(bootstrap: str, run: Path) -> list[str | Path]:
    """The program that sends."""
    return ["java", HEAP, "-cp", classpath(), "shop.Pace", bootstrap, TOPIC, run]


if __name__ == "__main__":
    measure("Cost of the Java recorder", pace)
