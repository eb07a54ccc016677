"""What a broker does as a follower: ask its leaders, and take what they answer."""

from attrs import define

from chaos import messages as m
from chaos.hosted import Hosted
from chaos.messages import Message
from chaos.world import World
from refimpl.errors import Refusal


@define(eq=False)
class Following:
    """The follower's side of a broker's partitions."""

    id: int
    world: World
    hosted: list[Hosted]
    requests: int = 0

    def ask(self, hosted: Hosted) -> None:
        try:
            request = hosted.replica.fetch_request()
        except Refusal:
            return
        leader = hosted.replica.leader or 0
        self.requests += 1
        hosted.asked[leader] = self.requests
        hosted.asked_at = self.world.timeline.now
        self.world.network.send(
            (m.FETCH, self.id, leader, hosted.partition, self.requests, request)
        )

    def fetched(self, message: Message) -> None:
        _, leader, _, partition, number, answer, place = message
        hosted = self._hosts(partition)
        if hosted.asked.get(leader) != number:
            self.world.counts["answers nobody waits for"] += 1
            return
        hosted.asked[leader] = 0
        replica = hosted.replica
        end, high_watermark = replica.log.end, replica.high_watermark
        try:
            replica.take_answer(answer)
        except Refusal:
            self.world.counts["void answers"] += 1
            return
        if answer.diverging is not None:
            hosted.disk.truncated(replica.log.end)
            hosted.oracle.cut(replica, end)
        elif answer.records:
            hosted.oracle.copied(replica, end)
        if replica.high_watermark != high_watermark:
            hosted.oracle.moved(replica, high_watermark)
        if place is not None:
            action = "Fetch" if answer.diverging is None else "Truncate"
            place.becomes(action, {"highWatermark": (self.id, replica.high_watermark)})
        if answer.records or answer.diverging is not None:
            self.ask(hosted)

    def _hosts(self, partition: int) -> Hosted:
        return self.hosted[partition]
