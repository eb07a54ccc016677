------------------------- MODULE ClassicCoordinator -------------------------
(* A group of the classic protocol as its coordinators run it: the rules    *)
(* are ClassicGroup's, the requests anybody's, and another coordinator      *)
(* takes over with what was written down and has reached it: generations    *)
(* with their assignments, and committed offsets (GroupLog, GroupOffsets).  *)
(* Who is joining is not written. To this spec recordings of the broker's   *)
(* coordinators are held.                                                   *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    (* @type: Int; *)      M,              \* member ids 1..M
    (* @type: Int; *)      P,              \* partitions 1..P
    (* @type: Int; *)      MaxGeneration,  \* bound: generations
    (* @type: Int; *)      MaxOffset,      \* bound: committed offsets
    (* @type: Int; *)      MaxLog,         \* bound: changes that are not replicated
    (* @type: Set(Int); *) Statics,        \* of the ids, those of one static instance
    (* @type: Str; *)      Dropped,        \* as in ClassicGroup
    (* @type: Bool; *)     WriteReplaced   \* that an instance has another id is written at once (KAFKA-10284)

VARIABLES
    (* @type: Str; *) state, (* @type: Int; *) generation, (* @type: Int; *) leader, (* @type: Bool; *) initial, (* @type: Int -> Str; *) phase, (* @type: Int -> Int; *) assignment, (* @type: Int -> Int; *) believes,  \* as in ClassicGroup
    (* @type: Int -> Int; *)           committed,   \* per partition: the offset that is committed
    (* @type: $written; *)             written,     \* the group as it was written last
    (* @type: Seq(<<$written, Int -> Int>>); *) log,         \* what each change that is not replicated has left
    (* @type: Set(Seq(<<$written, Int -> Int>>)); *) others,      \* such logs of coordinators before, which others may have that lead later
    (* @type: <<$written, Int -> Int>>; *) stable       \* what the last change that is replicated has left

G == INSTANCE ClassicGroup WITH
    owned <- [m \in 1..M |-> {}], commit <- [member |-> 0, partition |-> 0, generation |-> 0],
    Commits <- FALSE, Cooperative <- FALSE

\* @typeAlias: written = {generation: Int, leader: Int, members: Set(Int), assignment: Int -> Int};
Members == 1..M
Partitions == 1..P
Nobody == 0
group == <<state, generation, leader, initial, phase, assignment, believes>>
vars == <<group, committed, written, log, others, stable>>

NoGroup == [generation |-> 0, leader |-> Nobody, members |-> {}, assignment |-> G!Unassigned]
Group == [generation |-> generation, leader |-> leader, members |-> G!In(phase),
          assignment |-> assignment]

Init ==
    /\ G!Init
    /\ committed = [p \in Partitions |-> 0]
    /\ written = NoGroup
    /\ log = <<>> /\ others = {} /\ stable = <<written, committed>>

-----------------------------------------------------------------------------
(* A generation is written when its leader has assigned, or when it has no  *)
(* members; so is another process of a static instance.                     *)
Writes ==
    \/ state' = "Stable" /\ state # "Stable"
    \/ state' = "Empty" /\ generation' # generation
    \/ WriteReplaced /\ state = "Stable" /\ state' = "Stable" /\ G!In(phase') # G!In(phase)

Written ==
    /\ UNCHANGED <<committed, others, stable>>
    /\ written' = IF Writes THEN Group' ELSE written
    /\ log' = IF Writes THEN Append(log, <<written', committed>>) ELSE log
    /\ Len(log') <= MaxLog

(* Members come *)
AskId(m) == G!AskId(m) /\ Written
JoinPending(m) == G!JoinPending(m) /\ Written
JoinStatic(m) == G!JoinStatic(m) /\ Written
ReplaceStatic(m) == G!ReplaceStatic(m) /\ Written
Join(m, news) == G!Join(m, news) /\ Written

RefuseJoin(m) ==
    /\ m \notin G!In(phase) /\ phase[m] # "pending"
    /\ UNCHANGED vars

(* They go, and time passes *)
Leave(m) == G!Leave(m) /\ Written
Expire(m) == G!Expire(m) /\ Written
JoinTimer == G!JoinTimer /\ Written
SyncTimer == G!SyncTimer /\ Written

-----------------------------------------------------------------------------
(* Requests of members in a generation *)

IsCurrent(m, g) == m \in G!In(phase) /\ g = generation

(* What a leader assigns is its own business; who is not there is given     *)
(* nothing.                                                                 *)
\* @type: (Int, Int, Int -> Int) => Bool;
SyncLeader(m, g, to) ==
    /\ IsCurrent(m, g) /\ state = "CompletingRebalance" /\ leader = m
    /\ \A p \in Partitions : to[p] \in G!In(phase) \cup {Nobody}
    /\ phase' = [n \in Members |-> IF n = m \/ phase[n] = "syncing" THEN "in" ELSE phase[n]]
    /\ state' = "Stable" /\ assignment' = to
    /\ UNCHANGED <<generation, leader, initial, believes>> /\ Written

Sync(m, g) ==
    /\ IsCurrent(m, g) /\ state \in {"CompletingRebalance", "Stable"}
    /\ state = "CompletingRebalance" => leader # m
    /\ phase' = [phase EXCEPT ![m] = IF state = "Stable" THEN "in" ELSE "syncing"]
    /\ UNCHANGED <<state, generation, leader, initial, assignment, believes>> /\ Written

RefuseSync(m, g) ==
    /\ ~IsCurrent(m, g) \/ state = "PreparingRebalance"
    /\ UNCHANGED vars

(* It is told whether to join again.                                        *)
Heartbeat(m, g, answer) ==
    /\ answer = IF ~IsCurrent(m, g) THEN "refused"
                ELSE IF state = "PreparingRebalance" THEN "rebalance" ELSE "ok"
    /\ UNCHANGED vars

IsAccepted(m, g) == G!Accepted([member |-> m, partition |-> 1, generation |-> g])

TakeCommit(m, g, p, offset) ==
    /\ IsAccepted(m, g)
    /\ committed' = [committed EXCEPT ![p] = offset]
    /\ log' = Append(log, <<written, committed'>>) /\ Len(log') <= MaxLog
    /\ UNCHANGED <<group, written, others, stable>>

RefuseCommit(m, g) == ~IsAccepted(m, g) /\ UNCHANGED vars

-----------------------------------------------------------------------------
(* The log *)

From(n, l) == SubSeq(l, n + 1, Len(l))
Starts(l, with) == Len(l) >= Len(with) /\ SubSeq(l, 1, Len(with)) = with

(* So many changes are replicated by now.                                   *)
Replicate(n) ==
    /\ n \in 1..Len(log)
    /\ stable' = log[n] /\ log' = From(n, log)
    /\ others' = {From(n, l) : l \in {o \in others : Starts(o, SubSeq(log, 1, n))}} \ {<<>>}
    /\ UNCHANGED <<group, committed, written>>

(* Another coordinator, or the same one again, loads what has reached it:   *)
(* all that is replicated, and the first n changes of what is not, or of    *)
(* what another one had. Whoever is not in the generation that was        *)
(* written is not known to it.                                              *)
Load(n) ==
    /\ \E l \in others \cup {log} :
        /\ n \in 0..Len(l)
        /\ log' = SubSeq(l, 1, n)
        /\ others' = (others \cup {log}) \ {<<>>}
    /\ LET loaded == IF n = 0 THEN stable ELSE log'[n]
           seen == loaded[1]
       IN  /\ written' = seen /\ committed' = loaded[2]
           /\ state' = IF seen.members = {} THEN "Empty" ELSE "Stable"
           /\ generation' = seen.generation /\ leader' = seen.leader
           /\ assignment' = seen.assignment /\ initial' = FALSE
           /\ phase' = [m \in Members |-> IF m \in seen.members THEN "in"
                                          ELSE IF phase[m] = "none" THEN "none" ELSE "gone"]
    /\ UNCHANGED <<believes, stable>>

Next ==
    \/ \E m \in Members : AskId(m)
    \/ \E m \in Members : JoinPending(m)
    \/ \E m \in Members : JoinStatic(m)
    \/ \E m \in Members : ReplaceStatic(m)
    \/ \E m \in Members, news \in BOOLEAN : Join(m, news)
    \/ \E m \in Members : RefuseJoin(m)
    \/ \E m \in Members : Leave(m)
    \/ \E m \in Members : Expire(m)
    \/ JoinTimer
    \/ SyncTimer
    \/ \E m \in Members, g \in 1..MaxGeneration, to \in [Partitions -> 0..M] : SyncLeader(m, g, to)
    \/ \E m \in Members, g \in 1..MaxGeneration : Sync(m, g)
    \/ \E m \in Members, g \in 1..MaxGeneration : RefuseSync(m, g)
    \/ \E m \in Members, g \in 1..MaxGeneration, answer \in {"ok", "rebalance", "refused"} :
            Heartbeat(m, g, answer)
    \/ \E m \in Members, g \in 1..MaxGeneration, p \in Partitions, offset \in 1..MaxOffset :
            TakeCommit(m, g, p, offset)
    \/ \E m \in Members, g \in 1..MaxGeneration : RefuseCommit(m, g)
    \/ \E n \in 1..MaxLog : Replicate(n)
    \/ \E n \in 0..MaxLog : Load(n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises, whatever clients say *)

(* What members are told in a stable group is what was written.             *)
StableIsWritten == state = "Stable" => Group = written

(* Only members commit, of the group's generation, and not while its        *)
(* assignment is awaited.                                                   *)
OnlyMembersCommit ==
    \A m \in Members, g \in 1..MaxGeneration :
        IsAccepted(m, g) => IsCurrent(m, g) /\ state # "CompletingRebalance"

OneProcess == G!OneProcess

-----------------------------------------------------------------------------
(* Promises of who joins, waits and goes, as in ClassicGroup.               *)
LeaderIsMember == G!LeaderIsMember
NobodyWaitsInVain == G!NobodyWaitsInVain
WaitsForSomebody == G!WaitsForSomebody
MembersOnlyAreAssigned == \A p \in Partitions : assignment[p] \in G!In(phase) \cup {Nobody}

(* An id that was given out is not given out again, whoever coordinates,    *)
(* and a dynamic member begins with one.                                    *)
IdsAreUsedOnce ==
    [][\A m \in Members :
        /\ phase[m] # "none" => phase'[m] # "none"
        /\ phase[m] = "none" => phase'[m] \in {"none", "pending"} \/ m \in Statics]_phase

(* Each request has one answer: it is taken or refused, and a heartbeat     *)
(* says which it would be.                                                  *)
JoinsAreAnswered ==
    \A m \in Members :
        /\ phase[m] \in {"none", "gone"} => (ENABLED RefuseJoin(m))
        /\ (ENABLED RefuseJoin(m)) => ~(ENABLED Join(m, FALSE)) /\ ~(ENABLED JoinPending(m))
SyncsAreAnswered ==
    \A m \in Members, g \in 1..MaxGeneration :
        LET assigns == (ENABLED SyncLeader(m, g, G!Unassigned))
            syncs == (ENABLED Sync(m, g))
        IN  /\ (ENABLED RefuseSync(m, g)) => ~assigns /\ ~syncs
            /\ (ENABLED RefuseSync(m, g)) \/ syncs \/ (leader = m /\ state = "CompletingRebalance")
            /\ assigns => leader = m /\ state = "CompletingRebalance"
CommitsAreAnswered ==
    \A m \in Members, g \in 1..MaxGeneration : (ENABLED RefuseCommit(m, g)) # IsAccepted(m, g)
HeartbeatsAreTrue ==
    \A m \in Members, g \in 1..MaxGeneration :
        LET said == {a \in {"ok", "rebalance", "refused"} : (ENABLED Heartbeat(m, g, a))}
        IN  said = {IF ~(ENABLED RefuseSync(m, g)) THEN "ok"
                    ELSE IF (ENABLED RefuseCommit(m, g)) THEN "refused" ELSE "rebalance"}

(* An offset is committed only where somebody may commit; a coordinator may *)
(* read it in another one's log.                                            *)
OnlyAcceptedAreTaken ==
    [][committed' # committed /\ Len(log') > Len(log) /\ ~(\E l \in others : Starts(l, log'))
        => \E m \in Members : IsAccepted(m, generation)]_<<log, committed>>

-----------------------------------------------------------------------------
(* Promises of the log *)

(* What a coordinator knows is what the last change has left; an empty or   *)
(* stable group is as it was written.                                       *)
LastIsKnown == <<written, committed>> = IF log = <<>> THEN stable ELSE log[Len(log)]
SettledIsWritten == state \in {"Empty", "Stable"} => Group = written

(* A change is replicated once, and then no coordinator is without it:      *)
(* neither generations nor offsets begin anew.                              *)
ReplicatedOnce == [][stable' # stable => Len(log') < Len(log)]_<<log, stable>>
ReplicatedStays ==
    /\ generation >= stable[1].generation
    /\ \A p \in Partitions : stable[2][p] > 0 => committed[p] > 0

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverHandedOver == ~(state = "Stable" /\ generation > 1 /\ log = <<>>)
NeverAssigned == \A p \in Partitions : assignment[p] = Nobody
NeverSyncing == \A m \in Members : phase[m] # "syncing"
NeverCommitted == log = <<>> => \A p \in Partitions : committed[p] = 0
NeverAnotherLog == others = {}
NeverForgotten == \A m \in Members : phase[m] = "gone" => m \notin written.members
=============================================================================
