----------------------------- MODULE Replication -----------------------------
(* One partition as it runs: the logs are Truncation's, the ISR changes by  *)
(* request as in AlterPartition, and each step is a step of one of them or  *)
(* of both. Requests and answers of either kind are lost, late and doubled, *)
(* news of the metadata skip decisions, processes restart at any moment. To *)
(* this spec the recordings of the broker under faults are held.            *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,                 \* replicas 1..N
    (* @type: Int; *)  MaxRecords,        \* bound: records in a log
    (* @type: Int; *)  MaxEpoch,          \* bound: leader epochs
    (* @type: Int; *)  MaxPartitionEpoch, \* bound: partition epochs
    (* @type: Int; *)  MaxRestarts,       \* bound: restarts of each replica
    (* @type: Bool; *) LateFetches,       \* fetches may arrive after their sender has moved on
    (* @type: Bool; *) Unclean,           \* as in Truncation
    (* @type: Str; *)  Lossy,             \* as in Truncation
    (* @type: Bool; *) MaximalIsr,        \* KIP-497: the high watermark waits for whom the leader asked in
    (* @type: Bool; *) RaiseOnRefusal,    \* a refusal raises the partition epoch, so that copies of it are fenced
    (* @type: Set(Str); *) AsKafka,       \* where it goes by the rule of Kafka 4.3 instead of ours
    (* @type: Str; *)  Dropped            \* the rule that is left out, "none" as it should be

(* Dropped: "cut" and "compare" as in Truncation, "answered" as in          *)
(* AlterPartition; "leaderEpoch", another leader leads in the same epoch;   *)
(* "inForce", an ISR that the controller accepts does not bind elections.   *)
ASSUME Dropped \in {"none", "cut", "compare", "answered", "leaderEpoch", "inForce"}

(* AsKafka: "incarnation", who has not registered yet joins the ISR;         *)
(* "equalEpoch", news of the partition epoch that a leader knows settle what *)
(* is pending; "notAttempted", a request behind one that still waits is not  *)
(* sent, and takes the leader back; "resetFollowers", what a leader knows of *)
(* its followers outlives its next election; "waits", a leader waits for     *)
(* whom it has not asked in yet.                                             *)
ASSUME AsKafka \subseteq {"incarnation", "equalEpoch", "notAttempted", "resetFollowers", "waits"}

\* @typeAlias: request = {from: Int, epoch: Int, incarnation: Int, end: Int, last: Int};
\* @typeAlias: isrRequest = {leader: Int, epoch: Int, partitionEpoch: Int, isr: Set(Int), incarnations: Int -> Int};
\* @typeAlias: isrAnswer = {to: $isrRequest, outcome: Str, partitionEpoch: Int, isr: Set(Int)};
\* @typeAlias: partition = {leader: Int, epoch: Int, partitionEpoch: Int, isr: Set(Int)};
Replicas == 1..N

VARIABLES
    (* @type: Int -> Seq(Int); *)     log, (* @type: Int -> Int; *) highWatermark, (* @type: Int -> Int; *) epoch,
    (* @type: Int -> Set(Int); *)     isr, (* @type: Int -> (Int -> Int); *) ends,
    (* @type: Seq({leader: Int, isr: Set(Int)}); *) leaderAndIsr,
    (* @type: Set(Int); *)            up, (* @type: Set($request); *) late, (* @type: Int -> Int; *) incarnation,
    (* @type: Int -> (Int -> Int); *) seen, (* @type: Seq(Int); *) committed,  \* as in Truncation
    (* @type: Int -> Int; *)          partitionEpoch, (* @type: Int -> $isrRequest; *) pending,
    (* @type: $partition; *)          state, (* @type: Set(Int); *) alive, (* @type: Int -> Int; *) registered,
    (* @type: Set($isrRequest); *)    requests, (* @type: Set($isrAnswer); *) replies,  \* as in AlterPartition
    (* @type: Set($partition); *)     decisions  \* whatever the controller ever had in force: news of it may come late

logs == <<log, highWatermark, ends, late, seen, committed>>
roles == <<epoch, up, incarnation>>
leaders == <<isr, partitionEpoch, pending>>
controller == <<leaderAndIsr, state, decisions>>
brokers == <<alive, registered>>
dialogue == <<requests, replies>>
vars == <<logs, roles, leaders, controller, brokers, dialogue>>

(* AlterPartition calls who was never heard by another name. *)
heard ==
    [l \in Replicas |->
        [f \in Replicas |-> IF ends[l][f] = 0 - 1 THEN 0 - 1 ELSE seen[l][f]]]

T == INSTANCE Truncation WITH
    MaxFetch <- 1, Rule <- "kip320", CheckEpochStart <- TRUE,
    CheckIncarnation <- "incarnation" \notin AsKafka,
    ResetFollowers <- IF "resetFollowers" \in AsKafka THEN "newLeader" ELSE "always", LateAnswers <- FALSE, NumberFetches <- TRUE,
    FenceRaisesEpoch <- FALSE, answers <- {}

A == INSTANCE AlterPartition WITH
    MinIsr <- 1, Elr <- FALSE, elr <- {},
    OnePending <- TRUE, Several <- TRUE, CheckPartitionEpoch <- TRUE, CheckAlive <- TRUE, CheckIncarnation <- "incarnation" \notin AsKafka,
    CheckEpochStart <- TRUE, MatchAnswer <- TRUE, NewerOnly <- "equalEpoch" \notin AsKafka,
    OnlyResent <- FALSE, KeepIfResent <- FALSE, GiveUp <- "notAttempted" \in AsKafka, FenceRaisesEpoch <- FALSE,
    Unregistered <- "named", answers <- replies, resent <- {}, seen <- heard
NoRequest == A!NoRequest

Init ==
    /\ T!Init
    /\ partitionEpoch = [r \in Replicas |-> IF r = 1 THEN 1 ELSE 0]
    /\ pending = [r \in Replicas |-> NoRequest]
    /\ state = [leader |-> 1, epoch |-> 1, partitionEpoch |-> 1, isr |-> Replicas]
    /\ decisions = {state}
    /\ alive = Replicas
    /\ registered = T!Nobody
    /\ requests = {} /\ replies = {}

-----------------------------------------------------------------------------
(* Logs: Truncation's steps *)

IsrStays == UNCHANGED <<partitionEpoch, pending, state, decisions, brokers, dialogue>>

Write(l) == T!Write(l) /\ IsrStays

(* How many records an answer holds is for the leader to say: its limits,   *)
(* its batches, where a segment ends.                                       *)
Fetch(f, l, n) ==
    /\ Len(log[f]) + n <= Len(log[l])
    /\ T!FetchUpTo(f, l, n) /\ IsrStays
FetchLost(f, l) == T!FetchLost(f, l) /\ IsrStays
Truncate(f, l) == T!Truncate(f, l) /\ IsrStays
LateFetch(f, l) == T!LateFetch(f, l) /\ IsrStays

-----------------------------------------------------------------------------
(* The ISR: AlterPartition's steps *)

LogsStay == UNCHANGED <<leaderAndIsr, up, late, seen, decisions>>

AdvanceHighWatermark(l) == LogsStay /\ A!AdvanceHighWatermark(l)

(* The high watermark of Kafka's leader waits as well for a follower that is*)
(* caught up, and that it cannot ask in now: a request is under way, or was *)
(* not attempted.                                                           *)
WaitToJoin(l) ==
    /\ "waits" \in AsKafka
    /\ A!Leads(l)
    /\ \E f \in Replicas \ A!Maximal(l) :
        /\ ends[l][f] > highWatermark[l]
        /\ ends[l][f] < Len(log[l])
        /\ \A g \in A!Maximal(l) \ {l} : ends[l][f] < ends[l][g]
        /\ highWatermark' = [highWatermark EXCEPT ![l] = ends[l][f]]
        /\ committed' = IF ends[l][f] > Len(committed) THEN Take(log[l], ends[l][f]) ELSE committed
    /\ LogsStay /\ UNCHANGED <<log, ends, epoch, incarnation, leaders, state, brokers, dialogue>>
ShrinkIsr(l, f) == LogsStay /\ A!ShrinkIsr(l, f)
ShrinkIsrBySeveral(l, those) == LogsStay /\ A!ShrinkIsrBySeveral(l, those)
ExpandIsr(l, f) == LogsStay /\ A!ExpandIsr(l, f)
TakeIsrAnswer(l) == LogsStay /\ A!TakeIsrAnswer(l)

(* OPERATION_NOT_ATTEMPTED in Kafka: an earlier request is still under way, *)
(* this one is not sent, and the leader goes back to the ISR that was       *)
(* confirmed. The controller may have accepted the earlier one, which asked *)
(* for the same.                                                            *)
NotAttempted(l) == LogsStay /\ A!Forget(l)

(* The request that l made in this partition epoch reaches the controller,  *)
(* for the first time or again.                                             *)
AlterPartition(l, e) ==
    /\ UNCHANGED <<up, late, seen>>
    /\ A!AlterPartition(l)
    /\ \A a \in replies' \ replies : a.to.partitionEpoch = e
    /\ \E a \in replies' : a.to.leader = l /\ a.to.epoch = state.epoch /\ a.to.partitionEpoch = e
    /\ leaderAndIsr' = IF Dropped = "inForce" THEN leaderAndIsr
                       ELSE [leaderAndIsr EXCEPT ![T!Current].isr = state'.isr]
    /\ decisions' = decisions \cup {state'}

-----------------------------------------------------------------------------
(* Being told, of the newest decision or of an earlier one *)

(* The ISR of the leader's own epoch has changed. *)
Told(l, e) ==
    /\ A!Leads(l)
    /\ e > partitionEpoch[l] \/ ("equalEpoch" \in AsKafka /\ e = partitionEpoch[l])
    /\ \E s \in decisions :
        /\ s.epoch = epoch[l] /\ s.partitionEpoch = e
        /\ isr' = [isr EXCEPT ![l] = s.isr]
    /\ partitionEpoch' = [partitionEpoch EXCEPT ![l] = e]
    /\ pending' = [pending EXCEPT ![l] = NoRequest]
    /\ UNCHANGED <<logs, roles, controller, brokers, dialogue>>

RoleStarts(r, e) ==
    /\ partitionEpoch' = [partitionEpoch EXCEPT ![r] = e]
    /\ pending' = [pending EXCEPT ![r] = NoRequest]
    /\ UNCHANGED <<state, decisions, dialogue>>

(* The ISR may have changed in that epoch since.                            *)
BecomeLeader(r, e) ==
    /\ e <= T!Current
    /\ \E s \in decisions :
        /\ s.epoch = e
        /\ T!Lead(r, e, s.isr) /\ RoleStarts(r, s.partitionEpoch)
    /\ UNCHANGED brokers

BecomeFollower(r, e) == T!BecomeFollower(r, e) /\ RoleStarts(r, 0) /\ UNCHANGED brokers

-----------------------------------------------------------------------------
(* The controller on its own *)

InForce(leader, e, new) ==
    /\ state.partitionEpoch < MaxPartitionEpoch
    /\ state' = [leader |-> leader, epoch |-> e,
                 partitionEpoch |-> state.partitionEpoch + 1, isr |-> new]
    /\ decisions' = decisions \cup {state'}
    /\ UNCHANGED <<partitionEpoch, pending, brokers, dialogue>>

(* In a new leader epoch, or in the same one with another ISR.              *)
Decides ==
    LET now == Len(leaderAndIsr')
    IN  InForce(leaderAndIsr'[now].leader, now, leaderAndIsr'[now].isr)

Fence(b, r) == T!Fence(b, r) /\ Decides
GoOffline(b) == T!GoOffline(b) /\ Decides
ElectInEpoch(r) ==
    /\ Dropped = "leaderEpoch" /\ r \in T!Decided.isr
    /\ leaderAndIsr' = [leaderAndIsr EXCEPT ![T!Current].leader = r]
    /\ UNCHANGED <<logs, roles, isr>>
Elect(r) == (T!Elect(r) \/ ElectInEpoch(r)) /\ Decides
ElectUnclean(r) == T!ElectUnclean(r) /\ Decides

(* It changes what is in no variable here, as the ELR: a partition epoch.   *)
ChangeOther ==
    /\ InForce(state.leader, state.epoch, state.isr)
    /\ UNCHANGED <<logs, roles, isr, leaderAndIsr>>

-----------------------------------------------------------------------------
(* Brokers: who may take part, registrations, and a process that starts again *)

Alive(those) ==
    /\ alive' = those
    /\ UNCHANGED <<logs, roles, leaders, controller, registered, dialogue>>

(* The controller knows of a broker epoch, before the broker does or after. *)
Register(r, i) ==
    /\ i > registered[r]
    /\ registered' = [registered EXCEPT ![r] = i]
    /\ UNCHANGED <<logs, roles, leaders, controller, alive, dialogue>>

(* A session is over, and the process lives on: it has another broker epoch,*)
(* and keeps all that it was and knew (RegisterBrokerAndReelect in Kafka's  *)
(* ZooKeeper mode). What it asked under the last one may come late.         *)
RegisterAgain(r) ==
    /\ incarnation[r] < MaxRestarts
    /\ incarnation' = [incarnation EXCEPT ![r] = @ + 1]
    /\ late' = T!LeavesBehind(r)
    /\ UNCHANGED <<log, highWatermark, ends, seen, committed, epoch, up>>
    /\ UNCHANGED <<leaders, controller, brokers, dialogue>>

Restart(r, checkpoint, kept) ==
    /\ T!Restart(r, checkpoint, kept)
    /\ RoleStarts(r, 0)
    /\ UNCHANGED brokers

Next ==
    \/ \E l \in Replicas : Write(l)
    \/ \E l \in Replicas : AdvanceHighWatermark(l)
    \/ \E l \in Replicas : WaitToJoin(l)
    \/ \E f, l \in Replicas, n \in 0..MaxRecords : Fetch(f, l, n)
    \/ \E f, l \in Replicas : FetchLost(f, l)
    \/ \E f, l \in Replicas : Truncate(f, l)
    \/ \E f, l \in Replicas : LateFetch(f, l)
    \/ \E l, f \in Replicas : ShrinkIsr(l, f)
    \/ \E l \in Replicas, those \in SUBSET Replicas : ShrinkIsrBySeveral(l, those)
    \/ \E l, f \in Replicas : ExpandIsr(l, f)
    \/ \E l \in Replicas, e \in 1..MaxPartitionEpoch : AlterPartition(l, e)
    \/ \E l \in Replicas : TakeIsrAnswer(l)
    \/ \E l \in Replicas : NotAttempted(l)
    \/ \E l \in Replicas, e \in 1..MaxPartitionEpoch : Told(l, e)
    \/ \E r \in Replicas, e \in 1..MaxEpoch : BecomeLeader(r, e)
    \/ \E r \in Replicas, e \in 1..MaxEpoch : BecomeFollower(r, e)
    \/ \E b, r \in Replicas : Fence(b, r)
    \/ \E b \in Replicas : GoOffline(b)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : ElectUnclean(r)
    \/ ChangeOther
    \/ \E those \in SUBSET Replicas : Alive(those)
    \/ \E r \in Replicas, i \in 1..MaxRestarts : Register(r, i)
    \/ \E r \in Replicas : RegisterAgain(r)
    \/ \E r \in Replicas, checkpoint, kept \in 0..MaxRecords : Restart(r, checkpoint, kept)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

HighWatermarkInLog == T!HighWatermarkInLog
LogMatching == T!LogMatching
CommittedInIsr == A!CommittedInIsr
IsrWithinMaximal == A!IsrWithinMaximal
OneLeaderPerEpoch == A!OneLeaderPerEpoch
PartitionEpochBehind == A!PartitionEpochBehind
OneDecision == state = [leader |-> T!Decided.leader, epoch |-> T!Current,
                        partitionEpoch |-> state.partitionEpoch, isr |-> T!Decided.isr]

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there.            *)

(* Who starts again does not lead again in its leader epoch.                *)
NeverLeadsUnderAnother == \A r \in Replicas : T!Leads(r) => incarnation[r] = 0
=============================================================================
