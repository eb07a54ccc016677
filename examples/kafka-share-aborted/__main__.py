"""Let an aborted transaction stop a share group of real Kafka for good.

Starts a controller and three brokers with default settings. A transaction of 2,500 records is
aborted, and one of 10 is committed; a share group with `share.isolation.level=read_committed` reads
them. All clients are recorded in RUN (trace format v1). Exit code 1: the group is never given the
committed records; 0: it is given all; 2: the scenario could not be played.
"""

import click
from attrs import define

from examples.sharing import TOPIC, Sharing, shared
from examples.transactions import COMMITTED, program

FEW, MANY, BATCH = 100, 2500, 100


@define
class Aborted(Sharing):
    """More records are aborted than a group may have in flight."""

    few: bool = False

    def play(self) -> str:
        self.create(TOPIC, [[1, 2, 3]], **{"min.insync.replicas": "2"})
        self.configure(share_isolation_level=COMMITTED)
        self.send_all(range(5), name="first")
        self.join("A")
        self.take("A", 5)
        self.finish("A")
        self.transact()
        self.say(f"a consumer reads {len(self.read(TOPIC, 0, COMMITTED)) - 5} more records")
        self.watched()
        again = self.read_on("A", self.stopped_s)
        self.leave("A")
        if not again:
            self.join("B")
            again = self.read_on("B", self.stopped_s)
        self.start_and_lag()
        self.end()
        return (
            "" if len(again) == 10 else "The committed records behind are never given to the group."
        )

    def transact(self) -> None:
        many = FEW if self.few else MANY
        producer = self.producer("producer", "app", **{"linger.ms": 1000})
        producer.begin_transaction()
        for number in range(many):
            producer.produce(TOPIC, f"aborted {number}", partition=0)
            if number % BATCH == BATCH - 1:
                producer.flush(60)
        producer.abort_transaction(60)
        self.say(f"a transaction of {many} records is aborted")
        producer.begin_transaction()
        for number in range(10):
            producer.produce(TOPIC, f"committed {number}", partition=0)
        producer.commit_transaction(60)
        self.say("a transaction of 10 records is committed")
        producer.close()


if __name__ == "__main__":
    few = click.Option(["--few"], is_flag=True, help=f"{FEW} aborted records: a control.")
    kept = "The group is given all that was committed."
    program(__doc__ or "", shared(Aborted), kept, few)()
