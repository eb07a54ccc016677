--------------------------- MODULE SharePartition ---------------------------
(* A partition of a share group at its leader (KIP-932). The leader's memory*)
(* has what is in flight: who holds a record, and how often it was given.   *)
(* An acknowledgement is written to the share coordinator, here one place   *)
(* (see ShareState), and answered once it is written. The next leader loads *)
(* what was written; it does not know the locks of the one before.          *)
(*                                                                          *)
(* An offset is unknown until a fetch has looked at it. A fetch begins at   *)
(* the first offset that is unknown or available. It archives what it finds *)
(* to hold no record: compacted away, or of an aborted transaction. So the  *)
(* start is computed, and no gap window has to be kept beside it.           *)
(*                                                                          *)
(* A fetch reads in one segment only. A record is an offset's; a batch of   *)
(* records is acknowledged as its records are, and Close returns several.   *)
EXTENDS Integers, FiniteSets

CONSTANTS
    (* @type: Int; *)      Last,      \* bound: offsets 1..Last
    (* @type: Int; *)      Segment,   \* offsets in a segment
    (* @type: Int; *)      Members,   \* bound: members 1..Members
    (* @type: Int; *)      Most,      \* records that a fetch may acquire (max.poll.records)
    (* @type: Int; *)      InFlight,  \* share.partition.max.record.locks
    (* @type: Int; *)      Limit,     \* share.delivery.count.limit
    (* @type: Set(Str); *) Faults,    \* which may happen: "crash", "compact", "delete", "abort", "fail", "bump"
    (* @type: Int; *)      Crashes,   \* bound: so many
    (* @type: Bool; *)     OneHolder,        \* only an available record is acquired
    (* @type: Bool; *)     LimitHolds,       \* a record that was given as often as may be is archived, not given again
    (* @type: Bool; *)     AnswerWritten,    \* an acknowledgement is answered once it is written
    (* @type: Bool; *)     StartOnlyGrows,   \* the coordinator keeps the higher start. Kafka 4.3: FALSE
    (* @type: Bool; *)     MoveAfterArchive, \* the start moves when a fetch archives. Kafka 4.3: FALSE
    (* @type: Bool; *)     PassesHoles,      \* what a fetch finds to hold nothing is archived. Kafka 4.3: not in its gap window
    (* @type: Bool; *)     FetchFromStart,   \* what is unknown below the log's start is not asked for. Kafka 4.3: FALSE
    (* @type: Bool; *)     ForgetsBelow,     \* nor is a record below it whose write failed. Kafka 4.3: FALSE
    (* @type: Bool; *)     NothingBelow,     \* nothing below the start is given, though its batch is read. Kafka 4.3: FALSE
    (* @type: Bool; *)     KeepTransition,   \* a batch that the log's start splits keeps its write. Kafka 4.3: FALSE
    (* @type: Bool; *)     ReloadsOnNewEpoch, \* a new leader epoch of the same leader loads anew. Kafka 4.3: FALSE
    (* @type: Bool; *)     ArchivesWritten   \* what a lock that is over archives is done with once that is written. Kafka 4.3: FALSE

\* @typeAlias: memory = {start: Int, st: Int -> Str, to: Int -> Str, cnt: Int -> Int, by: Int -> Int, sent: Int -> Int};
\* @typeAlias: stored = {start: Int, st: Int -> Str, cnt: Int -> Int};
VARIABLES
    (* @type: Int -> Str; *) kind,     \* of each offset: "data", "aborted", or "gone"
    (* @type: Int; *)        high,     \* the log has the offsets up to here
    (* @type: Int; *)        logStart, \* and from here on
    (* @type: $memory; *)    mem,      \* the leader's memory, or None
    (* @type: $stored; *)    pers,     \* the share coordinator's state
    (* @type: Bool; *)       stale,    \* the partition's epoch has grown, and the leader's memory is of the one before
    (* @type: Int; *)        crashes,
    (* @type: Set(Int); *)   final     \* ghost: accepted or rejected, and answered so

log == <<kind, high, logStart>>
vars == <<log, mem, pers, stale, crashes, final>>

Offset == 1..Last
Member == 1..Members
Nobody == 0
All(x) == [o \in Offset |-> x]
None == [start |-> 0, st |-> All("none"), to |-> All("none"), cnt |-> All(0), by |-> All(0), sent |-> All(0)]

Init ==
    /\ high = Last - 1
    /\ kind = All("data")
    /\ logStart = 1
    /\ mem = None
    /\ pers = [start |-> 1, st |-> All("none"), cnt |-> All(0)]
    /\ stale = FALSE /\ crashes = 0 /\ final = {}

Max2(a, b) == IF a >= b THEN a ELSE b
MinOf(S) == CHOOSE o \in S : \A p \in S : o <= p
MaxOf(S) == CHOOSE o \in S : \A p \in S : p <= o
SegmentOf(o) == (o - 1) \div Segment
Led == mem # None

-----------------------------------------------------------------------------
(* Memory *)

(* Nothing is known of what is below the start, but of what is being        *)
(* written.                                                                 *)
Forgotten(m) ==
    LET out == {o \in Offset : o < m.start /\ m.st[o] # "pend" /\ (ForgetsBelow \/ m.st[o] # "avail")}
    IN [m EXCEPT !.st = [o \in Offset |-> IF o \in out THEN "none" ELSE m.st[o]],
                 !.cnt = [o \in Offset |-> IF o \in out THEN 0 ELSE m.cnt[o]],
                 !.by = [o \in Offset |-> IF o \in out THEN Nobody ELSE m.by[o]],
                 !.to = [o \in Offset |-> IF o \in out THEN "none" ELSE m.to[o]]]

(* The start is the first offset that is not done with.                     *)
MoveStart(m) ==
    LET open == {o \in m.start..Last : m.st[o] \notin {"ack", "arch"}}
    IN Forgotten([m EXCEPT !.start = IF open = {} THEN Last + 1 ELSE MinOf(open)])

Loaded == MoveStart([None EXCEPT !.start = pers.start, !.st = pers.st, !.cnt = pers.cnt])

(* The log begins behind the start. Kafka asks with the epoch that its      *)
(* memory was made with.                                                    *)
LogStarts(m) ==
    LET split == {o \in logStart..Last : ~KeepTransition /\ m.st[o] = "pend" /\ m.to[o] = "avail"
                                          /\ SegmentOf(o) = SegmentOf(logStart)}
    IN IF stale \/ m.start >= logStart THEN m
       ELSE MoveStart([m EXCEPT !.start = logStart,
                                !.st = [o \in Offset |-> IF o \in split THEN "avail" ELSE m.st[o]]])

(* What is asked for: the first offset that is unknown or available.        *)
Candidates(m) ==
    {o \in Offset : m.st[o] \in {"none", "avail"} /\
        \/ o >= m.start
        \/ ~FetchFromStart /\ o >= pers.start /\ m.st[o] = "none" /\ \E p \in m.start..Last : m.st[p] # "none"
        \/ ~ForgetsBelow /\ m.st[o] = "avail"}
NextFetch(m) == IF Candidates(m) = {} THEN Last + 1 ELSE MinOf(Candidates(m))

(* One offset that was read, for member i. A record whose lock was left     *)
(* behind by a split is held by nobody.                                     *)
Taken(m, o, i) ==
    IF kind[o] = "data"
    THEN [m EXCEPT !.st[o] = "acq", !.cnt[o] = @ + 1, !.by[o] = IF m.to[o] = "none" THEN i ELSE Nobody]
    ELSE IF kind[o] = "gone" /\ m.st[o] = "none" /\ ~PassesHoles THEN m
    ELSE LET archived == [m EXCEPT !.st[o] = "arch"]
         IN IF MoveAfterArchive THEN MoveStart(archived) ELSE archived

(* The offsets from o to last, in their order: records are taken as long as *)
(* there is room, in the request and between the start and the limit. The   *)
(* start may move on the way, over what is already done with.               *)
RECURSIVE Scan(_, _, _, _, _)
Scan(m, o, last, left, i) ==
    IF o > last \/ left = 0 \/ o >= m.start + InFlight THEN m
    ELSE LET below == o < m.start /\ NothingBelow /\ FetchFromStart /\ ForgetsBelow
             again == ~OneHolder /\ m.st[o] = "acq" /\ m.cnt[o] < Limit
             free == ~below /\ (again \/ m.st[o] \in {"none", "avail"})
         IN IF ~free THEN Scan(m, o + 1, last, left, i)
            ELSE Scan(Taken(m, o, i), o + 1, last, IF kind[o] = "data" THEN left - 1 ELSE left, i)

Fetched(m, i) ==
    LET n == LogStarts(m)
        f == NextFetch(n)
        there == {o \in f..high : kind[o] # "gone"}
        read == {o \in there : SegmentOf(o) = SegmentOf(MinOf(there))}
        batch == {o \in Offset : SegmentOf(o) = SegmentOf(f) /\ n.st[o] = "none"}
        from == IF NothingBelow \/ batch = {} THEN f ELSE MinOf(batch)
        held == IF OneHolder THEN {} ELSE {o \in n.start..high : n.st[o] = "acq" /\ n.by[o] # i}
    IN IF ~OneHolder /\ held # {} THEN Scan(n, MinOf(held), MinOf(held), 1, i)
       ELSE IF f < logStart \/ there = {} THEN n
       ELSE Scan(n, from, MaxOf(read), Most, i)

-----------------------------------------------------------------------------
(* The leader *)

Begin ==
    /\ ~Led
    /\ mem' = Loaded
    /\ stale' = FALSE
    /\ UNCHANGED <<log, pers, crashes, final>>

(* Another broker leads, or this one restarts.                              *)
Crash ==
    /\ "crash" \in Faults
    /\ Led
    /\ crashes < Crashes
    /\ mem' = None
    /\ crashes' = crashes + 1
    /\ UNCHANGED <<log, pers, stale, final>>

Fetch(i) ==
    /\ Led
    /\ mem' = Fetched(mem, i)
    /\ UNCHANGED <<log, pers, stale, crashes, final>>

(* What a release comes to: a record that was given as often as may be is   *)
(* archived.                                                                *)
Released(m, o) == IF LimitHolds /\ m.cnt[o] >= Limit THEN "arch" ELSE "avail"

(* A member accepts, releases or rejects a record that it holds; the write  *)
(* is under way.                                                            *)
Acknowledge(o, i, to) ==
    /\ Led
    /\ mem.st[o] = "acq"
    /\ mem.by[o] = i
    /\ mem' = [mem EXCEPT !.st[o] = "pend", !.sent[o] = mem.start,
                          !.to[o] = IF to = "avail" THEN Released(mem, o) ELSE to]
    /\ final' = IF ~AnswerWritten /\ to # "avail" THEN final \cup {o} ELSE final
    /\ UNCHANGED <<log, pers, stale, crashes>>

(* The lock begins anew (KIP-1222): nothing else changes.                   *)
Renew(o, i) ==
    /\ Led
    /\ mem.st[o] = "acq"
    /\ mem.by[o] = i
    /\ UNCHANGED vars

(* A member's session ends: its records are released, in one write.         *)
Close(i) ==
    /\ Led
    /\ \E o \in Offset : mem.st[o] = "acq" /\ mem.by[o] = i
    /\ LET his == {o \in Offset : mem.st[o] = "acq" /\ mem.by[o] = i}
       IN mem' = [mem EXCEPT !.st = [o \in Offset |-> IF o \in his THEN "pend" ELSE mem.st[o]],
                             !.to = [o \in Offset |-> IF o \in his THEN Released(mem, o) ELSE mem.to[o]],
                             !.sent = [o \in Offset |-> IF o \in his THEN mem.start ELSE mem.sent[o]]]
    /\ UNCHANGED <<log, pers, stale, crashes, final>>

(* The share coordinator takes a write: neither the start nor what is below *)
(* it comes back.                                                           *)
Written(start, o, st, cnt) ==
    LET s == IF StartOnlyGrows THEN Max2(pers.start, start) ELSE start
    IN [start |-> s,
        st |-> [p \in Offset |-> IF p < s THEN "none" ELSE IF p = o THEN st ELSE pers.st[p]],
        cnt |-> [p \in Offset |-> IF p < s THEN 0 ELSE IF p = o THEN cnt ELSE pers.cnt[p]]]

Settled(o, st) == [mem EXCEPT !.st[o] = st, !.to[o] = "none", !.sent[o] = 0,
                              !.by[o] = IF st = "acq" THEN @ ELSE Nobody]

AckDone(o) ==
    /\ Led
    /\ mem.st[o] = "pend"
    /\ mem' = MoveStart(Settled(o, mem.to[o]))
    /\ pers' = Written(mem.sent[o], o, mem.to[o], mem.cnt[o])
    /\ final' = IF mem.to[o] = "ack" THEN final \cup {o} ELSE final
    /\ UNCHANGED <<log, stale, crashes>>

(* An acknowledgement of a record below the start is answered with success, *)
(* and nothing happens. Below the stored start that is nothing new.         *)
AckBelow(o) ==
    /\ Led
    /\ o < mem.start
    /\ o >= Max2(pers.start, logStart)
    /\ kind[o] = "data"
    /\ final' = final \cup {o}
    /\ UNCHANGED <<log, mem, pers, stale, crashes>>

(* The write fails: the record is held as before.                           *)
AckFail(o) ==
    /\ "fail" \in Faults
    /\ Led
    /\ mem.st[o] = "pend"
    /\ mem' = MoveStart(Settled(o, IF o < mem.start /\ ~ForgetsBelow THEN "avail" ELSE "acq"))
    /\ UNCHANGED <<log, pers, stale, crashes, final>>

(* The write is done, and its leader does not hear of it.                   *)
AckUnheard(o) ==
    /\ "crash" \in Faults
    /\ Led
    /\ mem.st[o] = "pend"
    /\ crashes < Crashes
    /\ mem' = None
    /\ pers' = Written(mem.sent[o], o, mem.to[o], mem.cnt[o])
    /\ crashes' = crashes + 1
    /\ UNCHANGED <<log, stale, final>>

(* The acquisition lock is over. That is written, and not waited for, where *)
(* the record comes to somebody again. One that was given as often as may   *)
(* be is done with once it is written: an acknowledgement below the start   *)
(* is answered with success.                                                *)
TimeOut(o) ==
    /\ Led
    /\ mem.st[o] = "acq"
    /\ IF Released(mem, o) = "arch"
       THEN /\ mem' = IF ArchivesWritten
                      THEN [mem EXCEPT !.st[o] = "pend", !.to[o] = "arch", !.sent[o] = mem.start]
                      ELSE MoveStart(Settled(o, "arch"))
            /\ UNCHANGED pers
       ELSE /\ mem' = MoveStart(Settled(o, Released(mem, o)))
            /\ pers' = Written(mem.start, o, Released(mem, o), mem.cnt[o])
    /\ UNCHANGED <<log, stale, crashes, final>>

-----------------------------------------------------------------------------
(* The log *)

Append ==
    /\ high < Last
    /\ high' = high + 1
    /\ UNCHANGED <<kind, logStart, mem, pers, stale, crashes, final>>

(* A transaction is aborted before anybody with read_committed may fetch.   *)
Abort(o) ==
    /\ "abort" \in Faults
    /\ kind[o] = "data"
    /\ ~Led
    /\ pers.start = 1
    /\ crashes = 0
    /\ kind' = [kind EXCEPT ![o] = "aborted"]
    /\ UNCHANGED <<high, logStart, mem, pers, stale, crashes, final>>

(* The last record of a log is not compacted away.                          *)
Compact(o) ==
    /\ "compact" \in Faults
    /\ kind[o] = "data"
    /\ o < high
    /\ kind' = [kind EXCEPT ![o] = "gone"]
    /\ UNCHANGED <<high, logStart, mem, pers, stale, crashes, final>>

Delete(o) ==
    /\ "delete" \in Faults
    /\ o > logStart
    /\ o <= high
    /\ logStart' = o
    /\ UNCHANGED <<kind, high, mem, pers, stale, crashes, final>>

(* A replica is taken off: the partition's epoch grows, its leader stays.   *)
Bump ==
    /\ "bump" \in Faults
    /\ Led
    /\ ~stale
    /\ mem' = IF ReloadsOnNewEpoch THEN None ELSE mem
    /\ stale' = ~ReloadsOnNewEpoch
    /\ UNCHANGED <<log, pers, crashes, final>>

Next ==
    \/ Begin
    \/ Crash
    \/ \E i \in Member : Fetch(i)
    \/ \E o \in Offset, i \in Member, to \in {"ack", "avail", "arch"} : Acknowledge(o, i, to)
    \/ \E o \in Offset, i \in Member : Renew(o, i)
    \/ \E i \in Member : Close(i)
    \/ \E o \in Offset : AckDone(o)
    \/ \E o \in Offset : AckBelow(o)
    \/ \E o \in Offset : AckFail(o)
    \/ \E o \in Offset : AckUnheard(o)
    \/ \E o \in Offset : TimeOut(o)
    \/ Append
    \/ \E o \in Offset : Abort(o)
    \/ \E o \in Offset : Compact(o)
    \/ \E o \in Offset : Delete(o)
    \/ Bump

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* S2: what was accepted, and answered so, is given to nobody again.        *)
AckedIsFinal == \A o \in final : mem.st[o] \notin {"avail", "acq"}

(* S1, S3: a record in flight is with one member, who was given it, and was *)
(* given no more often than may be.                                         *)
HeldBySomebody == \A o \in Offset : mem.st[o] = "acq" => mem.by[o] \in Member
GivenWithinLimit == \A o \in Offset : mem.cnt[o] <= Limit

(* S1: a record changes hands only when its holder has given it back, or    *)
(* the lock is over.                                                        *)
HeldAlone == [][\A o \in Offset :
    mem.st[o] \in {"acq", "pend"} /\ mem'.st[o] \in {"acq", "pend"} => mem'.by[o] = mem.by[o]]_vars

(* S4: a record that nobody holds and that is not done with is given out.   *)
(* Where all rests, a fetch changes something.                              *)
Waits == {o \in logStart..high : kind[o] = "data" /\ o >= mem.start /\ mem.st[o] \in {"none", "avail"}}
Rests == Led /\ \A o \in Offset : mem.st[o] \notin {"acq", "pend"}
NotStuck == Rests /\ Waits # {} => \A i \in Member : Fetched(mem, i) # mem

(* S5: neither start goes back, and nothing below it is given.              *)
StartAscends == [][pers'.start >= pers.start /\ (Led /\ mem' # None => mem'.start >= mem.start)]_vars
GivenFromLogStart == [][\A o \in Offset : mem.cnt[o] < mem'.cnt[o] /\ Led => o >= logStart]_vars

-----------------------------------------------------------------------------
(* The queue that users see (ShareQueue). A record is over for good when    *)
(* that is written.                                                         *)
Stored(o) == o < pers.start \/ pers.st[o] \in {"ack", "arch"}
Status(o) ==
    IF kind[o] # "data" \/ o < logStart THEN "gone"
    ELSE IF Stored(o) THEN "done"
    ELSE IF mem.st[o] \in {"acq", "pend"} THEN "held"
    ELSE "waiting"

Queue == INSTANCE ShareQueue WITH
    record <- [o \in Offset |-> Status(o)],
    holder <- [o \in Offset |-> IF Status(o) = "held" THEN mem.by[o] ELSE Nobody]
IsQueue == Queue!Spec

-----------------------------------------------------------------------------
(* Probes *)
NeverReloadsAcked == ~(crashes > 0 /\ Led /\ \E o, p \in Offset : o < p /\ mem.st[o] = "none" /\ o >= mem.start /\ mem.st[p] = "ack")
NeverFull == ~(Led /\ \E o \in Offset : o >= mem.start + InFlight /\ o <= high)
NeverAtLimit == \A o \in Offset : ~(pers.st[o] = "arch" /\ pers.cnt[o] >= Limit)
NeverWritesBelow == ~(Led /\ \E o \in Offset : o < mem.start /\ mem.st[o] = "pend")
=============================================================================
