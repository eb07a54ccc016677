"""An application whose machine's clock is set back by an hour in the middle.

`python -m tests.kafka.everyday.clocked BOOTSTRAP TOPIC RUN CLOCK`, under libfaketime, which reads
the file CLOCK.
"""

import sys
import time
from pathlib import Path

from tests.kafka.everyday.clients import Clients, read, send

HOUR_S = 3600


def main(bootstrap: str, topic: str, run: str, clock: str) -> None:
    clients = Clients(Path(run), bootstrap)
    producer, member = clients.producer(), clients.consumer(topic, topic)
    began, counted = time.time(), time.monotonic()
    send(producer, topic, 20)
    read(member, 20)
    Path(clock).write_text(f"-{HOUR_S}\n")
    send(producer, topic, 20, 20)
    got = read(member, 20)
    member.close()
    producer.close()
    went, passed = time.time() - began, time.monotonic() - counted
    assert went < 0 < passed < HOUR_S, (went, passed)
    assert got[-1].timestamp()[1] < began * 1000
    print(f"time.time() went {went:.0f} s, time.monotonic() {passed:.0f} s")


main(*sys.argv[1:])
