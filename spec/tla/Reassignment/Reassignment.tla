---------------------------- MODULE Reassignment ----------------------------
(* One partition whose replicas are moved to other brokers (KIP-455): some  *)
(* are added, some removed, and meanwhile brokers fail, leaders change, and *)
(* the move is taken back or turned into another one.                       *)
(*                                                                          *)
(* Logs are not spelled out. Of each broker it is known only whether it has *)
(* everything that is committed. What is assumed of the replication is what *)
(* Truncation and AlterPartition promise: records are committed when all of *)
(* the ISR have them (Commit), a follower comes to have them all by fetching*)
(* from the leader (CatchUp), and joins the ISR only then (ExpandIsr).      *)
(* What is promised in return is what these two assume: the ISR is changed  *)
(* by one sequence of decisions, whose members have all that is committed.  *)
EXTENDS FiniteSets, Naturals

CONSTANTS
    (* @type: Int; *)  N,               \* brokers 1..N
    (* @type: Int; *)  Factor,          \* replicas of the partition at the start
    (* @type: Bool; *) AddingInSync,    \* a move is over only when all who were added are in sync
    (* @type: Bool; *) TargetInSync,    \* if fewer will be left, only when all who stay are (KAFKA-15665)
    (* @type: Bool; *) SomebodyStays,   \* and never without anybody in sync who stays
    (* @type: Bool; *) SuccessorInSync, \* whoever succeeds a leader that is removed is in sync
    (* @type: Bool; *) IsrInReplicas,   \* nobody joins the ISR who is no replica (KAFKA-1097)
    (* @type: Bool; *) DeleteLast,      \* a replica is deleted only when it is none any more
    (* @type: Bool; *) TurnsWholly      \* a new target replaces all of the last one

Brokers == 1..N
Targets == SUBSET Brokers \ {{}}
Nobody == 0

VARIABLES
    (* @type: Set(Int); *) replicas,          \* all replicas, those that come and go included
    (* @type: Set(Int); *) adding, (* @type: Set(Int); *) removing,  \* which of them come, and which go; both empty while nothing moves
    (* @type: Int; *) leader, (* @type: Set(Int); *) isr,
    (* @type: Set(Int); *) alive,             \* brokers that are not fenced
    (* @type: Set(Int); *) complete           \* ghost: who has everything that is committed

vars == <<replicas, adding, removing, leader, isr, alive, complete>>
\* @type: <<Set(Int), Set(Int), Set(Int)>>;
assignment == <<replicas, adding, removing>>

Init ==
    /\ replicas = 1..Factor /\ adding = {} /\ removing = {}
    /\ leader = 1 /\ isr = 1..Factor
    /\ alive = Brokers
    /\ complete = 1..Factor

-----------------------------------------------------------------------------
Moves == adding \cup removing # {}
Target == replicas \ removing
Original == replicas \ adding

-----------------------------------------------------------------------------
(* Replication, as far as it matters here *)

(* The ISR has another record, and nobody else has.                         *)
Commit ==
    /\ leader # Nobody /\ complete # isr
    /\ complete' = isr
    /\ UNCHANGED <<assignment, leader, isr, alive>>

CatchUp(f) ==
    /\ leader # Nobody /\ leader \in complete
    /\ f \in replicas \cap alive /\ f \notin complete
    /\ complete' = complete \cup {f}
    /\ UNCHANGED <<assignment, leader, isr, alive>>

ExpandIsr(f) ==
    /\ leader # Nobody
    /\ f \notin isr
    /\ f \in complete
    /\ f \in alive
    /\ IsrInReplicas => f \in replicas
    /\ isr' = isr \cup {f}
    /\ UNCHANGED <<assignment, leader, alive, complete>>

ShrinkIsr(f) ==
    /\ leader # Nobody
    /\ f \in isr \ {leader}
    /\ isr' = isr \ {f}
    /\ UNCHANGED <<assignment, leader, alive, complete>>

(* A broker that has a log of the partition, and is no replica: it deletes  *)
(* it, sooner or later.                                                     *)
Delete(b) ==
    /\ b \notin (IF DeleteLast THEN replicas ELSE Target)
    /\ b \in complete
    /\ complete' = complete \ {b}
    /\ UNCHANGED <<assignment, leader, isr, alive>>

-----------------------------------------------------------------------------
(* Brokers come and go *)

Fence(b) ==
    /\ b \in alive /\ alive' = alive \ {b}
    /\ leader' = IF leader = b THEN Nobody ELSE leader
    /\ isr' = IF isr = {b} THEN isr ELSE isr \ {b}
    /\ UNCHANGED <<assignment, complete>>

Unfence(b) ==
    /\ b \notin alive /\ alive' = alive \cup {b}
    /\ UNCHANGED <<assignment, leader, isr, complete>>

Elect(b) ==
    /\ leader = Nobody
    /\ b \in isr
    /\ b \in alive
    /\ leader' = b
    /\ UNCHANGED <<assignment, isr, alive, complete>>

-----------------------------------------------------------------------------
(* Moves *)

(* Begin a move, or turn one that is under way: what came and is not wanted *)
(* any more goes, what came and is wanted still comes.                      *)
(* Kafka 4.3 keeps who came, or went, if the new target brings, or sends    *)
(* away, nobody (see docs/findings/kafka-reassignment-stuck.md).            *)
Coming(target) ==
    IF TurnsWholly THEN target \ Original
    ELSE IF target \subseteq replicas THEN adding ELSE target \ replicas
Going(target) ==
    IF TurnsWholly \/ ~(replicas \subseteq target) THEN replicas \ target ELSE removing

Move(target) ==
    /\ target # Target
    /\ adding' = Coming(target)
    /\ removing' = Going(target)
    /\ replicas' = replicas \cup target
    /\ UNCHANGED <<leader, isr, alive, complete>>

(* Who leads when these are the replicas: the leader, if it is one of them. *)
Leads(r, these) ==
    IF leader \in these THEN r = leader
    ELSE r \in {Nobody} \cup (these \cap alive \cap (IF SuccessorInSync THEN isr ELSE Brokers))

Become(these, r) ==
    /\ SomebodyStays => isr \cap these # {}
    /\ Leads(r, these)
    /\ replicas' = these /\ adding' = {} /\ removing' = {}
    /\ isr' = isr \cap these
    /\ leader' = r
    /\ UNCHANGED <<alive, complete>>

Finish(r) ==
    /\ Moves
    /\ AddingInSync => adding \subseteq isr
    /\ (TargetInSync /\ Cardinality(adding) < Cardinality(removing)) => Target \subseteq isr
    /\ Become(Target, r)

(* The move is taken back. *)
Cancel(r) ==
    /\ Moves
    /\ Become(Original, r)

Next ==
    \/ Commit
    \/ \E f \in Brokers : CatchUp(f)
    \/ \E f \in Brokers : ExpandIsr(f)
    \/ \E f \in Brokers : ShrinkIsr(f)
    \/ \E b \in Brokers : Delete(b)
    \/ \E b \in Brokers : Fence(b)
    \/ \E b \in Brokers : Unfence(b)
    \/ \E b \in Brokers : Elect(b)
    \/ \E target \in Targets : Move(target)
    \/ \E r \in 0..N : Finish(r)
    \/ \E r \in 0..N : Cancel(r)

Spec == Init /\ [][Next]_vars

(* A move from 1 to 3, while records are committed and nobody fails.        *)
InitMoving ==
    /\ replicas = 1..3 /\ adding = {3} /\ removing = {1}
    /\ leader = 1 /\ isr = {1, 2} /\ alive = Brokers /\ complete = {1, 2}
Replicate == Commit \/ (\E f \in Brokers : CatchUp(f)) \/ (\E f \in Brokers : ExpandIsr(f))
Ends == \E r \in 0..N : Finish(r)
Calm == InitMoving /\ [][Replicate \/ Ends]_vars
        /\ \A f \in Brokers : SF_vars(CatchUp(f)) /\ SF_vars(ExpandIsr(f))
        /\ WF_vars(Ends)
Unheard == InitMoving /\ [][Replicate \/ Ends]_vars
        /\ \A f \in Brokers : SF_vars(CatchUp(f)) /\ WF_vars(ExpandIsr(f))
        /\ WF_vars(Ends)

-----------------------------------------------------------------------------
(* Promises *)

TypeOK ==
    /\ replicas \subseteq Brokers /\ isr # {}
    /\ adding \cup removing \subseteq replicas
    /\ leader = Nobody \/ leader \in alive

(* Nobody comes and goes: such a move could never end. *)
ComesOrGoes == adding \cap removing = {}

(* The ISR is of replicas. *)
IsrIsAssigned == isr \subseteq replicas

(* Whoever may lead next has everything that is committed: what DurableIsr, *)
(* Truncation and AlterPartition build on.                                  *)
CommittedInIsr == isr \subseteq complete

LeaderInSync == leader # Nobody => leader \in isr

(* One decision follows on another as LeaderAndIsr wants it: what Truncation*)
(* assumes of the controller. Who joins has been asked for (ExpandIsr).     *)
Interface == INSTANCE Decisions WITH Replicas <- Brokers, Dropped <- "none"
KeepsToLeaderAndIsr ==
    [][/\ isr' # {}
       /\ Interface!Follows([leader |-> leader, isr |-> isr],
                            [leader |-> leader', isr |-> isr'], Brokers, {})]_<<leader, isr>>

(* A move that ends leaves in sync who came, and, if fewer are left than    *)
(* there were, all of them: it does not cost safety.                        *)
IsOver == Moves /\ ~(adding' \cup removing' # {}) /\ replicas' = Target
EndsInSync ==
    [][(IsOver /\ replicas' # Original) =>
         /\ adding \subseteq isr'
         /\ Cardinality(adding) < Cardinality(removing) => isr' = replicas']_vars

(* What was asked last is what happens. *)
WhatWasAsked == [][\A target \in Targets : Move(target) => Target' = target]_vars

MoveEnds == <>(~Moves)

(* Who is not there is in the ISR only as its last member; only replicas    *)
(* that are there copy, and nothing is committed while nobody leads.        *)
IsrIsAlive == isr \subseteq alive \/ \E b \in Brokers : isr = {b}
ReplicasCopy ==
    [][/\ complete' \ complete \subseteq replicas \cap alive
       /\ leader = Nobody => complete \cap replicas \subseteq complete']_complete

(* Nothing is stuck: who is in sync and there can lead, who has what is     *)
(* committed can join, who lacks it can catch up, and a move ends when all  *)
(* who stay are in sync.                                                    *)
MayLead == (leader = Nobody /\ isr \cap alive # {}) => \E b \in Brokers : ENABLED Elect(b)
MayJoin ==
    leader # Nobody => \A f \in (replicas \cap alive) \ isr :
        IF f \in complete THEN ENABLED ExpandIsr(f) ELSE ENABLED CatchUp(f)
MayLeave == leader # Nobody => \A f \in isr \ {leader} : ENABLED <<ShrinkIsr(f)>>_isr
MayCommit == (leader # Nobody /\ complete # isr) => ENABLED <<Commit>>_complete
MayGoAndCome ==
    \A b \in Brokers :
        IF b \in alive THEN ENABLED <<Fence(b)>>_alive ELSE ENABLED <<Unfence(b)>>_alive
MayEnd ==
    (/\ Moves /\ adding \subseteq isr /\ isr \cap Target # {}
     /\ Target \subseteq isr \/ Cardinality(adding) >= Cardinality(removing))
        => \E r \in 0..N : ENABLED Finish(r)

-----------------------------------------------------------------------------
(* Probes *)
NeverMovesTheLeader == ~(leader \in removing)
NeverLeadsNew == ~(leader \in adding)
NeverTurned == ~(removing # {} /\ adding # {} /\ removing \ (1..Factor) # {})
NeverElsewhere == replicas \cap (1..Factor) # {}
=============================================================================
