"""kafka-python on Kafka 4.3.1 behind a proxy that is late.

`python -m chaos.real.suites.late_answers` runs it. The client of the suite's commit, idempotent and
with one request in flight, gives up for good if its Metadata request is not answered yet when it
wants a producer id. Exit 1 if it never does.
"""

import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker, free_port
from chaos.real.suites.catalogue import SUITES
from chaos.real.suites.suite import python

TIMES, LATE_S = 6, 0.3
CLIENT = """
import sys
from kafka import KafkaProducer
from kafka.errors import KafkaError
for number in range(int(sys.argv[2])):
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1],
        enable_idempotence=True,
        max_in_flight_requests_per_connection=1,
    )
    try:
        producer.send(f"topic-{number}", b"x").get(timeout=30)
        print("acknowledged")
    except KafkaError as error:
        print(f"failed: {error}")
    producer.close(timeout=1)
"""


def late(listener: socket.socket, target: tuple[str, int]) -> None:
    """Pass everything on, and what comes back a while later."""
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(target)
        for source, to, wait_s in ((client, server, 0.0), (server, client, LATE_S)):
            threading.Thread(target=_pass_on, args=(source, to, wait_s), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, wait_s: float) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            time.sleep(wait_s)
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def main() -> int:
    """Run it, and print what the client says."""
    folder = SUITES["kafka-python"].folder(None)
    with tempfile.TemporaryDirectory() as name:
        tools, proxy = Judge.start(), free_port()
        told = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy}"}
        broker = KafkaBroker(Path(name), told)
        broker.format(tools)
        tools.stop()
        with broker.running():
            listener = socket.create_server(("127.0.0.1", proxy))
            ends = listener, ("127.0.0.1", broker.port)
            threading.Thread(target=late, args=ends, daemon=True).start()
            command = [python(), "-c", CLIENT, f"127.0.0.1:{proxy}", str(TIMES)]
            ran = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    print(ran.stdout, end="")
    return 0 if "Node paused" in ran.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
