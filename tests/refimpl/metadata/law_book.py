"""The laws of docs/metadata-store.md as one Hypothesis machine, which every store has to pass.

A `Subject` puts a store at the machine's disposal: it opens sessions, asks, and breaks connections,
sessions and the store itself. What may happen then, `law_model` says.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import hypothesis.strategies as st
from attrs import define, field, frozen
from hypothesis import event
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from refimpl.metadata.contract import (
    ANY_VERSION,
    Change,
    Check,
    Children,
    Connected,
    Create,
    Data,
    Delete,
    EventType,
    Existence,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Multi,
    MultiDone,
    NoResult,
    Operation,
    Output,
    Result,
    SetData,
    Stat,
    StoreResponse,
    Suspended,
    Sync,
    WatchEvent,
)
from refimpl.metadata.errors import ConnectionLoss, StoreError, StoreRefusal
from tests.refimpl.metadata import law_model as model
from tests.refimpl.metadata.law_model import BEFORE_TIME, EMPTY, Node, Outcome, State, Zxids

MOST_SESSIONS = 3
NAMES = ("/a", "/a/x", "/a/x/z", "/b")
Touch = tuple[WatchEvent, ...]
Asked = Create | Delete | SetData | Multi
Visible = dict[str, tuple[bytes, int, int]]
"""By path: data, version, and how many children were created or deleted."""


class Subject(Protocol):
    """A store under the laws. A handle is a session's owner, who may have several after another."""

    can_crash: bool
    """True if the store can crash and come back."""

    def open(self) -> int:
        """Open a session; answers its handle."""
        ...

    def session_id(self, handle: int) -> int:
        """The id of the handle's session."""
        ...

    def ask(self, handle: int, operation: Operation) -> Sequence[Output]:
        """All that the session hears, in order, up to the operation's response, which is last."""
        ...

    def lose(self, handle: int, operations: Sequence[Operation], applied: int) -> Sequence[Output]:
        """Send these, and break the connection after so many were applied, before any answer.

        A store that cannot tell applies as many as it likes, and may answer some. Answers all that
        is heard up to `Connected`, which is last.
        """
        ...

    def expire(self, handle: int) -> Sequence[Output]:
        """Let nothing through until the store has ended the session, then everything.

        Answers all that is heard up to `Connected`, which is last.
        """
        ...

    def close(self, handle: int) -> None:
        """End the session in order; the handle is not used again."""
        ...

    def crash(self, handle: int, operations: Sequence[Operation], at: int, kept: float) -> None:
        """Send these, crash the store at a step of its disk, and start it again.

        Of what was not flushed this part is kept.
        """
        ...

    def reconnected(self, handle: int) -> Sequence[Output]:
        """After a crash: all that is heard up to `Connected`, which is last."""
        ...

    def end(self) -> None:
        """Give everything back."""
        ...


@define
class Heard:
    """A session of the book: what it has armed, and what it must have heard before an answer."""

    data_watches: set[str] = field(factory=set[str])
    child_watches: set[str] = field(factory=set[str])
    due: list[Touch] = field(factory=list[Touch])

    def touched(self, touched: Touch) -> None:
        """A transaction touches these paths; whoever watches one is owed an event."""
        owed: list[WatchEvent] = []
        for one in touched:
            armed_data = one.type in DATA and one.path in self.data_watches
            armed_child = one.type in CHILD and one.path in self.child_watches
            if armed_data or armed_child:
                owed.append(one)
            if armed_data:
                self.data_watches.discard(one.path)
            if armed_child:
                self.child_watches.discard(one.path)
        if owed:
            self.due.append(tuple(owed))

    def forget(self) -> None:
        """The connection is lost: nothing is armed, and nothing is owed."""
        self.data_watches.clear()
        self.child_watches.clear()
        self.due.clear()


DATA = (EventType.CREATED, EventType.DATA_CHANGED, EventType.DELETED)
CHILD = (EventType.CHILDREN_CHANGED, EventType.DELETED)

paths = st.sampled_from(NAMES)
mostly = st.sampled_from((True, True, True, False))


@frozen
class Wish:
    """A change as it was drawn; what it is in a state, `LawBook._made` says.

    One that fits is of a znode that is there, or can be made; `pick` says which one of these.
    """

    kind: type[Create | SetData | Delete | Check]
    fits: bool
    pick: int
    data: bytes
    version: int
    """0 any, 1 the current one, 2 another one."""
    ephemeral: bool
    sequential: bool


wishes = st.builds(
    Wish,
    st.sampled_from((Create, Create, SetData, Delete, Check)),
    mostly,
    st.integers(0, 11),
    st.sampled_from((b"", b"1", b"22")),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from((False, False, False, True)),
)


class LawBook(RuleBasedStateMachine):
    """Sessions ask, connections and sessions break, and the store crashes, where it can."""

    subject: Subject
    state: State
    sessions: dict[int, Heard]
    """The sessions that are open, by the book's numbers for them."""
    owners: dict[int, int]
    """The store's id of each session there ever was."""
    handle_of: dict[int, int]
    place: int
    zxids: Zxids

    def new_subject(self) -> Subject:
        """A new store, or an empty corner of one, with the root as its only znode."""
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.subject = self.new_subject()
        self.state: State = EMPTY
        self.place = BEFORE_TIME
        self.zxids = Zxids()
        self.sessions, self.owners, self.handle_of = {}, {}, {}
        self.open_session()

    def teardown(self) -> None:
        if hasattr(self, "subject"):
            self.subject.end()

    # Sessions

    @precondition(lambda self: len(self.sessions) < MOST_SESSIONS)
    @rule()
    def open_session(self) -> None:
        handle = self.subject.open()
        self._opened(handle)

    @precondition(lambda self: len(self.sessions) > 1)
    @rule(which=st.integers(0, 5))
    def close_session(self, which: int) -> None:
        """Its ephemeral znodes are deleted now, and everybody who watches hears of it."""
        session = self._pick(which)
        self.subject.close(self.handle_of[session])
        self._ended(session)

    @precondition(lambda self: len(self.sessions) > 0)
    @rule(which=st.integers(0, 5))
    def expire_session(self, which: int) -> None:
        """Its owner hears of it only when it can talk again, and then has another session."""
        session = self._pick(which)
        handle = self.handle_of[session]
        heard = self.subject.expire(handle)
        states = [one for one in heard if isinstance(one, Suspended | Expired | Connected)]
        assert [type(one) for one in states][-2:] == [Expired, Connected], heard
        event("a session expired")
        self._ended(session)
        self._opened(handle)

    # Writes

    @rule(which=st.integers(0, 5), drawn=wishes)
    def write(self, which: int, drawn: Wish) -> None:
        self._write(self._pick(which), self._made(drawn))

    @rule(which=st.integers(0, 5), drawn=st.lists(wishes, min_size=1, max_size=4))
    def write_all_or_nothing(self, which: int, drawn: list[Wish]) -> None:
        self._write(self._pick(which), Multi(tuple(self._made(one) for one in drawn)))

    def _write(self, session: int, change: Change | Multi) -> None:
        write = _alone(change)
        before = len(self.sessions[session].due)
        expected = self._expect(session, write)
        result = self._ask(session, write)
        self._must_answer(result, expected, write)
        event(
            "refused" if isinstance(expected, StoreRefusal) else f"written, {min(before, 1)} owed"
        )

    def _wrote(self, session: int, write: Asked, result: Result | StoreError) -> None:
        """A write whose answer came, although others were lost."""
        self._must_answer(result, self._expect(session, write), write)
        self.sessions[session].forget()

    def _expect(self, session: int, write: Asked) -> Outcome | StoreRefusal:
        self.place += 1
        expected = model.apply(self.state, self.place, session, write)
        if isinstance(expected, Outcome):
            self._happened(expected)
        return expected

    # Reads

    @rule(which=st.integers(0, 5), path=st.sampled_from(("/", *NAMES)), watch=mostly)
    def get(self, which: int, path: str, watch: bool) -> None:
        session = self._pick(which)
        result = self._ask(session, GetData(path, watch))
        self._must_be_data(result, path)
        if watch and path in self.state:
            self.sessions[session].data_watches.add(path)

    @rule(which=st.integers(0, 5), path=paths, watch=mostly)
    def exists(self, which: int, path: str, watch: bool) -> None:
        session = self._pick(which)
        result = self._ask(session, Exists(path, watch))
        self._must_be_existence(result, path)
        if watch:
            self.sessions[session].data_watches.add(path)

    @rule(which=st.integers(0, 5), path=st.sampled_from(("/", *NAMES)), watch=mostly)
    def get_children(self, which: int, path: str, watch: bool) -> None:
        session = self._pick(which)
        result = self._ask(session, GetChildren(path, watch))
        self._must_be_children(result, path)
        if watch and path in self.state:
            self.sessions[session].child_watches.add(path)

    # Faults

    @rule(
        which=st.integers(0, 5),
        drawn=st.lists(wishes, min_size=1, max_size=3),
        applied=st.integers(0, 3),
    )
    def lose_answers(self, which: int, drawn: list[Wish], applied: int) -> None:
        """Of what was under way, some prefix was applied; each outcome is unknown to its sender."""
        session = self._pick(which)
        writes = [_alone(self._made(one)) for one in drawn]
        heard = self.subject.lose(self.handle_of[session], writes, applied)
        self._find_out(session, writes, heard)

    @precondition(lambda self: self.subject.can_crash)
    @rule(
        which=st.integers(0, 5),
        drawn=st.lists(wishes, max_size=3),
        at=st.integers(0, 12),
        kept=st.floats(0, 1),
    )
    def crash_store(self, which: int, drawn: list[Wish], at: int, kept: float) -> None:
        """Crash the store: answered writes and sessions survive it, watches do not."""
        session = self._pick(which)
        writes = [_alone(self._made(one)) for one in drawn]
        self.subject.crash(self.handle_of[session], writes, at, kept)
        event("the store crashed")
        for other, handle in self.handle_of.items():
            if other in self.sessions and other != session:
                self._must_have_come_back(other, self.subject.reconnected(handle))
                self.sessions[other].forget()
        self._find_out(session, writes, self.subject.reconnected(self.handle_of[session]))
        for heard in self.sessions.values():
            heard.forget()
        self.everything_is_as_it_must_be()

    def _must_have_come_back(self, session: int, heard: Sequence[Output]) -> None:
        states = [one for one in heard if isinstance(one, Suspended | Expired | Connected)]
        assert [type(one) for one in states] == [Suspended, Connected], heard
        assert self.subject.session_id(self.handle_of[session]) == self.owners[session]

    def _find_out(self, session: int, writes: Sequence[Asked], heard: Sequence[Output]) -> None:
        """Read which prefix was applied: all that was answered, and of the rest what it may be."""
        self._must_have_come_back(session, heard)
        responses = [one.result for one in heard if isinstance(one, StoreResponse)]
        answers = [one for one in responses if one != ConnectionLoss()]
        lost = len(writes) - len(answers)
        assert responses == answers + [ConnectionLoss()] * lost, heard
        self.sessions[session].forget()
        for write, answer in zip(writes, answers, strict=False):
            self._wrote(session, write, answer)
        for others in self._prefixes(session, writes[len(answers) :]):
            if _visible(others[-1].state if others else self.state) == self._look_around(session):
                event(f"{len(others)} of what was lost had been applied")
                for outcome in others:
                    self._happened(outcome)
                self.sessions[session].forget()
                return
        raise AssertionError(f"no prefix of {writes} leaves what is there")

    def _prefixes(self, session: int, writes: Sequence[Asked]) -> Sequence[list[Outcome]]:
        """The outcomes of none of these, of the first, of the first two, and so on."""
        prefixes: list[list[Outcome]] = [[]]
        state = self.state
        for write in writes:
            self.place += 1
            outcome = model.apply(state, self.place, session, write)
            if isinstance(outcome, Outcome):
                prefixes.append([*prefixes[-1], outcome])
                state = outcome.state
        return prefixes

    def _look_around(self, session: int) -> Visible:
        """The nodes at every path, by reads."""
        found: Visible = {}
        todo = ["/"]
        while todo:
            path = todo.pop()
            data, listed = (self._ask(session, read) for read in (GetData(path), GetChildren(path)))
            assert isinstance(data, Data)
            assert isinstance(listed, Children)
            found[path] = data.data, data.stat.version, data.stat.cversion
            todo.extend(f"{path.rstrip('/')}/{name}" for name in listed.names)
        return found

    # What must hold

    @rule()
    def everything_is_as_it_must_be(self) -> None:
        """Read all of the tree, in every session."""
        for session in self.sessions:
            assert self._ask(session, Sync()) == NoResult()
            for path in {*self.state, *NAMES}:
                self._must_be_data(self._ask(session, GetData(path)), path)
                self._must_be_existence(self._ask(session, Exists(path)), path)
                self._must_be_children(self._ask(session, GetChildren(path)), path)

    def _ask(self, session: int, operation: Operation) -> Result | StoreError:
        """The answer; whatever was owed to this session came before it, and nothing else."""
        *before, response = self.subject.ask(self.handle_of[session], operation)
        assert isinstance(response, StoreResponse)
        heard = self.sessions[session]
        _must_cover(before, heard.due)
        heard.due.clear()
        return response.result

    def _must_answer(
        self, result: Result | StoreError, expected: Outcome | StoreRefusal, write: Asked
    ) -> None:
        if isinstance(expected, StoreRefusal):
            assert result == expected, f"{result}, and not {expected}"
            return
        if isinstance(write, Multi):
            assert isinstance(result, MultiDone), result
        results: Sequence[Any] = result.results if isinstance(result, MultiDone) else [result]
        for found, answer in zip(results, expected.answers, strict=True):
            if isinstance(answer, Node):
                assert isinstance(found, Stat), found
                model.must_be_written(found, answer, self.zxids, self.owners)
            else:
                assert found == answer

    def _must_be_data(self, result: Result | StoreError, path: str) -> None:
        if self._must_be_there(result, path):
            assert isinstance(result, Data)
            assert result.data == self.state[path].data
            self._must_be_stat(result.stat, path)

    def _must_be_existence(self, result: Result | StoreError, path: str) -> None:
        assert isinstance(result, Existence), result
        assert (result.stat is not None) == (path in self.state), path
        if result.stat is not None:
            self._must_be_stat(result.stat, path)

    def _must_be_children(self, result: Result | StoreError, path: str) -> None:
        if self._must_be_there(result, path):
            assert isinstance(result, Children)
            assert list(result.names) == model.children(self.state, path)
            self._must_be_stat(result.stat, path)

    def _must_be_there(self, result: Result | StoreError, path: str) -> bool:
        if path not in self.state:
            assert result == model.NoNode(path), result
            return False
        assert not isinstance(result, StoreError), result
        return True

    def _must_be_stat(self, stat: Stat, path: str) -> None:
        model.must_be_stat_of(stat, self.state, path, self.zxids, self.owners)

    # The book's own bookkeeping

    def _happened(self, outcome: Outcome) -> None:
        self.state = outcome.state
        for heard in self.sessions.values():
            heard.touched(outcome.touched)

    def _opened(self, handle: int) -> None:
        session = len(self.owners) + 1
        self.owners[session] = self.subject.session_id(handle)
        assert len(set(self.owners.values())) == len(self.owners), "a session id came again"
        self.handle_of[session] = handle
        self.sessions[session] = Heard()

    def _ended(self, session: int) -> None:
        del self.sessions[session]
        self.place += 1
        self._happened(model.end_session(self.state, self.place, session))

    def _pick(self, which: int) -> int:
        return sorted(self.sessions)[which % len(self.sessions)]

    def _made(self, wish: Wish) -> Change:
        """The change that this wish is in this state."""
        state = self.state
        if wish.kind is Create:
            fitting = [path for path in NAMES if path not in state and model.parent(path) in state]
            path = self._one_of(fitting if wish.fits else [], wish.pick)
            return Create(path, wish.data, wish.ephemeral, wish.sequential)
        there = [path for path in sorted(state) if path != "/"]
        leaves = [path for path in there if not model.children(state, path)]
        fitting = leaves if wish.kind is Delete else there
        path = self._one_of(fitting if wish.fits else [], wish.pick)
        current = state[path].version if path in state else 0
        version = (ANY_VERSION, current, current + 1)[wish.version]
        if wish.kind is SetData:
            return SetData(path, wish.data, version)
        return Delete(path, version) if wish.kind is Delete else Check(path, version)

    def _one_of(self, fitting: Sequence[str], pick: int) -> str:
        return fitting[pick % len(fitting)] if fitting else NAMES[pick % len(NAMES)]


def _alone(change: Change | Multi) -> Asked:
    return Multi((change,)) if isinstance(change, Check) else change


def _visible(state: State) -> Visible:
    return {path: (one.data, one.version, one.born + one.died) for path, one in state.items()}


def _must_cover(heard: Sequence[Output], due: Sequence[Touch]) -> None:
    """All that was owed was heard, transaction by transaction, in any order within one."""
    left = list(heard)
    for owed in due:
        got, left = left[: len(owed)], left[len(owed) :]
        assert Counter(got) == Counter(owed), f"{owed} was owed, and {got} was heard"
    assert not left, f"{left} was heard, and nothing was owed for it"
