"""Let a share group of real Kafka get records again that it has accepted, and was told so.

Starts a controller and three brokers with default settings. The broker that coordinates the group's
state is killed; a member accepts ten records, and its write is tried again, ever less often. When
another broker coordinates, others accept what is before and behind. All clients are recorded in RUN
(trace format v1). Exit code 1: accepted records are given again; 0: they are not; 2: the scenario
could not be played.
"""

import signal
from base64 import urlsafe_b64encode
from uuid import UUID

from attrs import define, field

from chaos.real.kafka.asking import METADATA, ask
from examples.brokers import NotInTimeError, until
from examples.sharing import TOPIC, Sharing, shared
from examples.transactions import PATIENCE_S, program

FIND_COORDINATOR, SHARE, GROUPS = 10, 2, 0
LEADER = 1
#: The write of the member in the middle is tried after 0, 1, 3, 7 and 15 s.
LAST_TRY_S = 25


@define
class LateWrite(Sharing):
    """A write that was made first is done last."""

    key: str = ""
    dead: set[int] = field(factory=set[int])

    def play(self) -> str:
        coordinator = self.prepare()
        self.send_all(range(60))
        held = {name: self.given(name) for name in ("A", "B", "C")}
        first, middle, last = sorted(held, key=lambda name: held[name])
        accepted = {one for own in held.values() for one in own}
        if accepted != set(range(30)):  # one that holds more gives it back, and that is a write
            raise NotInTimeError(f"the members were given {held}")
        self.signal(coordinator, signal.SIGKILL)
        self.brokers[coordinator].wait()
        self.members.tell(middle, "finish ACCEPT")
        self.say(f"{middle} accepts what it has; its write finds no coordinator")
        self.moved(coordinator)
        if {self.finish(first), self.finish(last)} != {"ok"}:
            raise NotInTimeError("a lock was over")
        self.start_and_lag()
        answer = self.members.hear(middle, LAST_TRY_S)
        self.say(f"the acknowledgement of {middle} is answered: {answer}")
        if answer != "ok":
            raise NotInTimeError("the write has failed for the last time")
        self.start_and_lag()
        self.leave("A", "B", "C")
        self.join("D")
        again = self.read_on("D", 15)
        self.end()
        return "Accepted records are given again." if accepted & set(again) else ""

    def prepare(self) -> int:
        """The topic, its group, and the broker that coordinates the group's state.

        That one does not lead the topic, nor does it coordinate the group's members.
        """
        self.create(TOPIC, [[LEADER, 2, 3]], **{"min.insync.replicas": "2"})
        self.leads(LEADER)
        topic, of_state = kafkas(self.topic_id()), LEADER
        for number in range(50):
            self.group = f"workers-{number}"
            self.key = f"{self.group}:{topic}:0"
            of_state = self.coordinator(SHARE, self.key)
            if of_state not in (LEADER, self.coordinator(GROUPS, self.group)):
                break
        self.configure(share_record_lock_duration_ms="60000")
        self.say(f"broker {LEADER} leads the topic, broker {of_state} coordinates its state")
        return of_state

    def coordinator(self, kind: int, key: str) -> int:
        """The broker that coordinates this, once there is one."""
        found = list[int]()

        def there() -> bool:
            asked = {"key_type": kind, "coordinator_keys": [key]}
            try:
                (one,) = ask(self.brokers[LEADER].port, FIND_COORDINATOR, 6, asked).coordinators
            except OSError:
                return False
            found.append(one.node_id)
            return not one.error_code and one.node_id not in self.dead

        until("a coordinator", PATIENCE_S, there)
        return found[-1]

    def moved(self, dead: int) -> None:
        """Wait until another broker coordinates the state, and has loaded it."""
        self.dead.add(dead)
        now = self.coordinator(SHARE, self.key)
        self.say(f"broker {now} coordinates the state")

    def topic_id(self) -> UUID:
        no = ("allow_auto_topic_creation", "include_topic_authorized_operations")
        asked = {"topics": [{"topic_id": UUID(int=0), "name": TOPIC}], **dict.fromkeys(no, False)}
        (found,) = ask(self.brokers[LEADER].port, METADATA, 12, asked).topics
        return found.topic_id

    def given(self, name: str) -> list[int]:
        """Ten records of a batch of their own."""
        self.join(name)
        taken = self.take(name, 10, 20)
        if len(taken) != 10:
            raise NotInTimeError(f"{name} was given {taken}")
        return taken


def kafkas(topic: UUID) -> str:
    """An id as Kafka writes it."""
    return urlsafe_b64encode(topic.bytes).decode().rstrip("=")


if __name__ == "__main__":
    program(__doc__ or "", shared(LateWrite), "What was accepted is given to nobody again.")()
