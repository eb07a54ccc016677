"""Consumer groups as their coordinator sees them: assignments, commits, and answers about offsets.

Each request is a call of its own: what it was answered is certain, however often a client asks.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from chaos.real.proxy.recording.links import Link, Topics, code_of, name_of, placed
from refimpl.clients.assignors.protocol import PROTOCOL_TYPE, read_assignment
from refimpl.errors import CorruptBatch
from traces.record.entries import Line
from traces.record.errors import CODES, REFUSED_COMMIT
from traces.record.process import Process, now

Answer = Callable[[Any], None]
#: Errors that say: no member of the group any longer, or not of this generation
_OUT = frozenset(
    CODES[name]
    for name in (
        *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH"),
    )
)


def offsets_asked(topics: Topics, request: Any) -> dict[str, int]:
    """The offsets of a commit, of topics whose names are known."""
    return {
        placed(name, one.partition_index): one.committed_offset
        for topic in request.topics or ()
        if (name := topics.name_of(topic)) is not None
        for one in topic.partitions
        if one.committed_offset >= 0
    }


@frozen
class OffsetsAnswered:
    """The answer to a commit: partitions that were refused are a call of their own."""

    topics: Topics
    process: Process
    seq: int
    op: str
    offsets: Mapping[str, int]
    about: Line

    def __call__(self, answer: Any) -> None:
        """An error for each partition."""
        codes: dict[str, int] = {}
        for topic in answer.topics:
            name = self.topics.name_of(topic)
            if name is not None:
                for one in topic.partitions:
                    codes[placed(name, one.partition_index)] = code_of(one)
        taken = {name: at for name, at in self.offsets.items() if codes.get(name) == 0}
        refused = {name: at for name, at in self.offsets.items() if name not in taken}
        if taken:
            self.process.answer(self.seq, "ok", offsets=taken)
        for name, at in refused.items() if taken else ():
            seq = self.process.call(self.op, offsets={name: at}, **self.about)
            self._refused(seq, codes.get(name))
        if not taken:
            self._refused(self.seq, next((codes[name] for name in refused if name in codes), None))

    def _refused(self, seq: int, code: int | None) -> None:
        if code is None:
            self.process.answer(seq, "info")
        else:
            outcome = "fail" if code in REFUSED_COMMIT else "info"
            self.process.answer(seq, outcome, error=name_of(code))


@define(eq=False)
class Member:
    """A member of a group, by its id."""

    process: Process
    links: set[Link] = field(factory=set[Link])
    #: Its last assignment, as far as it has not given it up
    held: Line | None = None

    def gives_up(self, op: str) -> None:
        """It has lost its partitions, or has given them up, as far as it is seen here."""
        if self.held is not None:
            self.process.note(op, **self.held)
            self.held = None


#: How many members without a connection are kept for a client that comes back.
_IDLE = 64


@define
class Groups:
    """The requests of members, and of whoever commits or asks for offsets without being one."""

    topics: Topics
    #: `classic` or `consumer`, of groups that have shown it
    protocols: dict[str, str] = field(factory=dict[str, str], init=False)
    #: Members by group and id, the one last that was heard of last
    _members: dict[tuple[str, str], Member] = field(
        factory=dict[tuple[str, str], Member], init=False
    )

    def gone(self, link: Link) -> None:
        """A connection is closed. Its members may come back by another, or leave in silence."""
        for member in self._members.values():
            if link in member.links:
                member.links.discard(link)
                if not member.links:
                    member.gives_up("lost")
        idle = [key for key, member in self._members.items() if not member.links]
        for key in idle[:-_IDLE]:
            link.journals.end(self._members.pop(key).process)

    def _process(self, link: Link, about: Line) -> Process:
        """The process of a member, whose id outlives its connections, or of whoever is none."""
        if "member" not in about:
            configured = self._configured(about["group"])
            return link.process(f"asks-{about['group']}", "consumer", configured)
        return self._member(link, about).process

    def _member(self, link: Link, about: Line) -> Member:
        key = about["group"], about["member"]
        member = self._members.pop(key, None)
        if member is None:
            name = f"{link.client}-{about['group']}"
            configured = self._configured(about["group"])
            member = Member(link.journals.begin(name, "consumer", configured))
        self._members[key] = member
        member.links.add(link)
        return member

    def _configured(self, group: str) -> Line:
        # Every commit passes here, whoever decides on it; when records are processed nobody sees.
        configured: Line = {"group": group, "auto_commit": False, "commit_order": "none"}
        if group in self.protocols:
            configured["group_protocol"] = self.protocols[group]
        return configured

    def commit(self, link: Link, request: Any) -> Answer | None:
        """OffsetCommit."""
        offsets = offsets_asked(self.topics, request)
        if not offsets:
            return None
        about = _member(request, "generation_id_or_member_epoch")
        process = self._process(link, about)
        seq = process.call("commit", offsets=offsets, **about)
        answered = OffsetsAnswered(self.topics, process, seq, "commit", offsets, about)

        def answer(found: Any) -> None:
            answered(found)
            codes = {code_of(one) for topic in found.topics for one in topic.partitions}
            self._out(about, codes)

        return answer

    def committed(self, link: Link, request: Any) -> Answer:
        """OffsetFetch, of one group or of several; a question without an answer is not told."""
        invoked = now()

        def answered(answer: Any) -> None:
            several = getattr(answer, "groups", None)
            if several is None:
                self._committed(link, request.group_id, _NOBODY, answer, invoked)
                return
            members = {one.group_id: one for one in request.groups}
            for one in several:
                about = members.get(one.group_id, _NOBODY)
                self._committed(link, one.group_id, about, one, invoked)

        return answered

    def _committed(self, link: Link, group: str, asked: Any, answer: Any, invoked: int) -> None:
        if getattr(answer, "error_code", None) is not None and code_of(answer):
            return
        partitions: list[str] = []
        offsets: dict[str, int] = {}
        for topic in answer.topics:
            name = self.topics.name_of(topic)
            for one in topic.partitions if name is not None else ():
                if name is None or code_of(one):
                    continue
                partitions.append(placed(name, one.partition_index))
                if one.committed_offset >= 0:
                    offsets[partitions[-1]] = one.committed_offset
        if partitions:
            about: Line = {"group": group}
            if getattr(asked, "member_id", None):
                about |= {"member": asked.member_id, "generation": asked.member_epoch}
            process = self._process(link, about)
            process.note("committed", invoked, partitions=partitions, offsets=offsets, **about)

    def sync(self, link: Link, request: Any) -> Answer | None:
        """SyncGroup: what a member of the classic protocol is assigned."""
        if (getattr(request, "protocol_type", None) or PROTOCOL_TYPE) != PROTOCOL_TYPE:
            return None
        self.protocols[request.group_id] = "classic"
        about, invoked = _member(request, "generation_id"), now()

        def answered(answer: Any) -> None:
            code = code_of(answer)
            self._out(about, {code})
            if code:
                return
            try:
                found = read_assignment(answer.assignment) if answer.assignment else ()
            except CorruptBatch:  # of a protocol type that older versions do not name
                return
            self._assigned(link, about, invoked, [placed(*one) for one in found])

        return answered

    def heartbeat(self, link: Link, request: Any) -> Answer:
        """A heartbeat of the classic protocol, by which a member may learn that it is out."""
        about = _member(request, "generation_id")
        return lambda answer: self._out(about, {code_of(answer)})

    def consumer_heartbeat(self, link: Link, request: Any) -> Answer:
        """A heartbeat of KIP-848, whose answer may hold an assignment."""
        group, invoked = request.group_id, now()
        self.protocols[group] = "consumer"

        def answered(answer: Any) -> None:
            about: Line = {"group": group, "member": answer.member_id or request.member_id}
            self._out(about, {code_of(answer)})
            if code_of(answer) or not about["member"]:
                return
            if answer.member_epoch < 0:
                self._gives_up(about, "revoked")
            elif answer.assignment is not None:
                about["generation"] = answer.member_epoch
                about |= {"instance": request.instance_id} if request.instance_id else {}
                self._assigned(link, about, invoked, self._named(answer.assignment))

        return answered

    def _named(self, assignment: Any) -> list[str]:
        return [
            placed(name, number)
            for topic in assignment.topic_partitions
            if (name := self.topics.name_of(topic)) is not None
            for number in topic.partitions
        ]

    def leave(self, link: Link, request: Any) -> Answer:
        """LeaveGroup: members give up all that they have."""
        members = getattr(request, "members", None) or (request,)

        def answered(answer: Any) -> None:
            if not code_of(answer):
                for one in members:
                    self._gives_up({"group": request.group_id, "member": one.member_id}, "revoked")

        return answered

    def _assigned(self, link: Link, about: Line, invoked: int, partitions: list[str]) -> None:
        if "member" in about:
            member = self._member(link, about)
            member.process.note("assigned", invoked, partitions=partitions, **about)
            member.held = {**about, "partitions": partitions}

    def _out(self, about: Line, codes: Iterable[int]) -> None:
        if not _OUT.isdisjoint(codes):
            self._gives_up(about, "lost")

    def _gives_up(self, about: Line, op: str) -> None:
        member = self._members.get((about["group"], about.get("member") or ""))
        if member is not None:
            member.gives_up(op)


@frozen
class _Nobody:
    """A client that asks without being a member."""

    member_id: str | None = None
    member_epoch: int = -1


_NOBODY = _Nobody()


def _member(request: Any, generation: str) -> Line:
    """Group, member and generation of a request, as far as it has them."""
    about: Line = {"group": request.group_id}
    if request.member_id:
        about["member"] = request.member_id
    if getattr(request, generation) >= 0:
        about["generation"] = getattr(request, generation)
    instance = getattr(request, "group_instance_id", None)
    return about | ({"instance": instance} if instance else {})
