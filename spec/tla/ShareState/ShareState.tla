----------------------------- MODULE ShareState -----------------------------
(* The share coordinator's state of one share partition, and the requests   *)
(* that brokers send it (KIP-932). A leader reads the state when it begins, *)
(* with its leader epoch, and writes what is acknowledged from then on. A   *)
(* write that fails on its way is sent again by itself, so writes are done  *)
(* in any order, and a copy may come after later requests. Two writes that  *)
(* wait for the same coordinator go in one request.                         *)
(*                                                                          *)
(* The group coordinator initialises the state; an administrator who sets   *)
(* the start does so with a new state epoch. The coordinator's own log is   *)
(* GroupLog's matter.                                                       *)
EXTENDS Integers, FiniteSets, Sequences

CONSTANTS
    (* @type: Int; *)  Last,           \* bound: offsets 1..Last
    (* @type: Int; *)  Epochs,         \* bound: leader epochs 1..Epochs
    (* @type: Int; *)  StateEpochs,    \* bound: state epochs 1..StateEpochs
    (* @type: Int; *)  Copies,         \* bound: copies that are taken late
    (* @type: Bool; *) Fence,          \* a write of an older leader epoch is refused
    (* @type: Bool; *) FenceState,     \* a write of an older state epoch is refused
    (* @type: Bool; *) InitialiseOnce, \* an initialisation of the state epoch that is there changes nothing. Kafka 4.3: FALSE
    (* @type: Bool; *) StartOnlyGrows, \* within a state epoch no write moves the start back. Kafka 4.3: FALSE
    (* @type: Bool; *) OwnAnswers      \* each write of a request is answered as it was taken. Kafka 4.3: FALSE

\* @typeAlias: request = {type: Str, se: Int, le: Int, start: Int, off: Int};
\* @typeAlias: leader = {se: Int, start: Int, acked: Set(Int), pending: Seq($request)};
VARIABLES
    (* @type: {se: Int, le: Int, start: Int, acked: Set(Int)}; *) coord, \* state epoch (0: no state), leader epoch, start, accepted offsets
    (* @type: Int -> $leader; *)  leaders,   \* of each leader epoch its leader's memory, or None
    (* @type: Set($request); *)   sent,      \* requests of which a copy may come
    (* @type: Int; *)             copies,
    (* @type: Set(<<Int, Int>>); *) answered, \* ghost: <<state epoch, offset>> accepted, and answered so
    (* @type: Int; *)             nextEpoch

vars == <<coord, leaders, sent, copies, answered, nextEpoch>>

Offset == 1..Last
Epoch == 1..Epochs
None == [se |-> 0, start |-> 0, acked |-> {}, pending |-> <<>>]
Max2(a, b) == IF a >= b THEN a ELSE b

Init ==
    /\ coord = [se |-> 0, le |-> 0, start |-> 0, acked |-> {}]
    /\ leaders = [e \in Epoch |-> None]
    /\ sent = {} /\ copies = 0 /\ answered = {} /\ nextEpoch = 1

(* The first offset from s on that is not accepted.                         *)
Start(s, acked) == CHOOSE o \in s..(Last + 1) :
    o \notin acked /\ \A p \in s..(o - 1) : p \in acked

-----------------------------------------------------------------------------
(* The coordinator *)

Initialised(c, r) ==
    IF r.se < c.se \/ (InitialiseOnce /\ r.se = c.se) THEN c
    ELSE [c EXCEPT !.se = r.se, !.start = 1, !.acked = {}]

Refused(c, w) == c.se = 0 \/ (FenceState /\ w.se < c.se) \/ (Fence /\ w.le < c.le)

Taken(c, w) ==
    IF Refused(c, w) THEN c
    ELSE LET s == IF StartOnlyGrows THEN Max2(c.start, w.start) ELSE w.start
         IN [c EXCEPT !.start = s, !.acked = {o \in c.acked \cup {w.off} : o >= s}]

-----------------------------------------------------------------------------

Initialise(se) ==
    /\ se > coord.se
    /\ LET r == [type |-> "init", se |-> se, le |-> 0, start |-> 1, off |-> 0]
       IN coord' = Initialised(coord, r) /\ sent' = sent \cup {r}
    /\ UNCHANGED <<leaders, copies, answered, nextEpoch>>

(* A leader begins: it reads, and its leader epoch is noted.                *)
Lead ==
    /\ nextEpoch <= Epochs
    /\ coord.se > 0
    /\ leaders' = [leaders EXCEPT ![nextEpoch] =
            [se |-> coord.se, start |-> Start(coord.start, coord.acked),
             acked |-> {o \in coord.acked : o > Start(coord.start, coord.acked)}, pending |-> <<>>]]
    /\ coord' = [coord EXCEPT !.le = nextEpoch]
    /\ nextEpoch' = nextEpoch + 1
    /\ UNCHANGED <<sent, copies, answered>>

(* A member accepts a record, which leader e is to write.                   *)
Accept(e, o) ==
    /\ leaders[e] # None
    /\ o >= leaders[e].start
    /\ o \notin leaders[e].acked
    /\ \A i \in 1..Len(leaders[e].pending) : leaders[e].pending[i].off # o
    /\ Len(leaders[e].pending) < 2
    /\ leaders' = [leaders EXCEPT ![e].pending = Append(@,
            [type |-> "write", se |-> leaders[e].se, le |-> e, start |-> leaders[e].start, off |-> o])]
    /\ UNCHANGED <<coord, sent, copies, answered, nextEpoch>>

(* A success. After a refusal the leader forgets what it has.               *)
Done(m, w) ==
    LET acked == m.acked \cup {w.off}
        start == Start(m.start, acked)
    IN [m EXCEPT !.acked = {o \in acked : o > start}, !.start = start,
                 !.pending = SelectSeq(m.pending, LAMBDA v : v # w)]

(* One of the writes that wait, alone in a request.                         *)
Write(e, i) ==
    /\ leaders[e] # None
    /\ i <= Len(leaders[e].pending)
    /\ LET w == leaders[e].pending[i] ok == ~Refused(coord, w)
       IN /\ coord' = Taken(coord, w)
          /\ sent' = sent \cup {w}
          /\ leaders' = [leaders EXCEPT ![e] = IF ok THEN Done(@, w) ELSE None]
          /\ answered' = IF ok THEN answered \cup {<<w.se, w.off>>} ELSE answered
    /\ UNCHANGED <<copies, nextEpoch>>

(* Two writes of one broker in one request: it led in epoch e, and leads    *)
(* again in epoch f.                                                        *)
WriteTwo(e, f) ==
    /\ e < f
    /\ leaders[e].pending # <<>>
    /\ leaders[f].pending # <<>>
    /\ LET a == leaders[e].pending[1]
           b == leaders[f].pending[1]
           c == Taken(coord, a)
           okB == ~Refused(c, b)
           okA == IF OwnAnswers THEN ~Refused(coord, a) ELSE okB
       IN /\ coord' = Taken(c, b)
          /\ sent' = sent \cup {a, b}
          /\ leaders' = [leaders EXCEPT ![e] = IF okA THEN Done(@, a) ELSE None,
                                        ![f] = IF okB THEN Done(@, b) ELSE None]
          /\ answered' = answered \cup (IF okA THEN {<<a.se, a.off>>} ELSE {})
                                  \cup (IF okB THEN {<<b.se, b.off>>} ELSE {})
    /\ UNCHANGED <<copies, nextEpoch>>

(* A copy of an initialisation, or of a write, comes late. Nobody hears of  *)
(* its answer.                                                              *)
CopyInitialise(se) ==
    /\ \E r \in sent : r.type = "init" /\ r.se = se
    /\ copies < Copies
    /\ coord' = Initialised(coord, [type |-> "init", se |-> se, le |-> 0, start |-> 1, off |-> 0])
    /\ copies' = copies + 1
    /\ UNCHANGED <<leaders, sent, answered, nextEpoch>>

CopyWrite(se, e, start, o) ==
    /\ [type |-> "write", se |-> se, le |-> e, start |-> start, off |-> o] \in sent
    /\ copies < Copies
    /\ coord' = Taken(coord, [type |-> "write", se |-> se, le |-> e, start |-> start, off |-> o])
    /\ copies' = copies + 1
    /\ UNCHANGED <<leaders, sent, answered, nextEpoch>>

Next ==
    \/ \E se \in 1..StateEpochs : Initialise(se)
    \/ Lead
    \/ \E e \in Epoch, o \in Offset : Accept(e, o)
    \/ \E e \in Epoch, i \in 1..2 : Write(e, i)
    \/ \E e \in Epoch, f \in Epoch : WriteTwo(e, f)
    \/ \E se \in 1..StateEpochs : CopyInitialise(se)
    \/ \E se \in 1..StateEpochs, e \in Epoch, start \in Offset, o \in Offset : CopyWrite(se, e, start, o)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* S2: what was accepted, and answered so, in this state epoch, the next    *)
(* leader knows.                                                            *)
AnsweredSurvives == \A a \in answered :
    a[1] = coord.se => (a[2] < coord.start \/ a[2] \in coord.acked)

(* S5: the start goes back only where an administrator sets it.             *)
StartAscends == [][coord'.se = coord.se => coord'.start >= coord.start]_vars

(* What an administrator has set holds: what was accepted before is not     *)
(* accepted in the new state epoch.                                         *)
ResetHolds == coord.acked \subseteq {r.off : r \in {q \in sent : q.se = coord.se}}

-----------------------------------------------------------------------------
(* Probes *)
NeverTwoLeaders == Cardinality({e \in Epoch : leaders[e].pending # <<>>}) < 2
NeverCopied == ~(copies > 0 /\ \E r \in sent : r.type = "write")
=============================================================================
