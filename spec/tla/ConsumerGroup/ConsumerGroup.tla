---------------------------- MODULE ConsumerGroup ----------------------------
(* A group of the consumer protocol (KIP-848). The coordinator computes a   *)
(* target assignment in an epoch of the group and leads each member to it:  *)
(* a member gives up what it must before it gets more, and a partition is   *)
(* given to it when nobody else has it. A commit names its member's epoch,  *)
(* by which that of a former owner should be refused (KIP-1251).            *)
(*                                                                          *)
(* A heartbeat is one step: what the client reports, what the coordinator   *)
(* makes of it, and the answer, which may be lost.                          *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    M,                 \* members 1..M, each with an id for life (KIP-1082)
    P,                 \* partitions 1..P
    MaxEpoch,          \* bound: group epochs
    Commits,           \* commits are sent
    Batched,           \* Kafka 4.3: a target is computed some time after a join, not with it
    WaitUntilFree,     \* a partition is assigned only when nobody holds it
    WaitUntilRevoked,  \* a member keeps its epoch until it has given up what it must
    ReportWhenDone,    \* a client reports what it owns only when it has done all it was told
    RejoinByZero,      \* epoch 0 is welcome from a member that is known (KAFKA-19233)
    CommitBy           \* what a commit is held against, see below

(* CommitBy:                                                                *)
(*   "member"      the member is known                                      *)
(*   "memberEpoch" its epoch is the current one (before KIP-1251)           *)
(*   "kip1251"     or an older one, not older than the assignment of the    *)
(*                 partition: Kafka 4.2 and 4.3                             *)
(*   "assignment"  in either case not older than the partition's assignment *)
ASSUME CommitBy \in {"member", "memberEpoch", "kip1251", "assignment"}

Members == 1..M
Partitions == 1..P
Nobody == 0
NotAssigned == 0
NoCommit == [member |-> Nobody, partition |-> 0, epoch |-> 0]

VARIABLES
    groupEpoch, targetEpoch, target,
    epoch,       \* per member: its epoch at the coordinator, 0 for none
    previous,    \* per member: the epoch before
    state,       \* per member: "stable", "unrevoked", "unreleased"
    assigned,    \* per member and partition: the epoch of the assignment, or NotAssigned
    pending,     \* per member: what it has been told to give up, and may still own
    heard,       \* per client: the epoch that it was told last, 0 for none
    told,        \* per client: what it was told to own
    owned,       \* per client: what it owns
    commit       \* a commit that is under way

group == <<groupEpoch, targetEpoch, target, epoch, previous, state, assigned, pending>>
client == <<heard, told, owned>>
vars == <<group, client, commit>>

Init ==
    /\ groupEpoch = 1 /\ targetEpoch = 1 /\ target = [p \in Partitions |-> Nobody]
    /\ epoch = [m \in Members |-> 0] /\ previous = [m \in Members |-> 0]
    /\ state = [m \in Members |-> "stable"]
    /\ assigned = [m \in Members |-> [p \in Partitions |-> NotAssigned]]
    /\ pending = [m \in Members |-> {}]
    /\ heard = [m \in Members |-> 0]
    /\ told = [m \in Members |-> {}] /\ owned = [m \in Members |-> {}]
    /\ commit = NoCommit

-----------------------------------------------------------------------------
Assigned(m) == {p \in Partitions : assigned[m][p] # NotAssigned}
Holds(m) == Assigned(m) \cup pending[m]
Target(m) == {p \in Partitions : target[p] = m}

(* Not done yet: it reports nothing, and may own anything.                  *)
Reported(m) == IF ReportWhenDone /\ owned[m] # told[m] THEN Partitions ELSE owned[m]

-----------------------------------------------------------------------------
(* Members come and go, which opens an epoch of the group *)

Join(m, newTarget) ==
    /\ epoch[m] = 0 /\ heard[m] = 0 /\ owned[m] = {} /\ groupEpoch < MaxEpoch
    /\ groupEpoch' = groupEpoch + 1
    /\ IF Batched
       THEN newTarget = target /\ UNCHANGED <<targetEpoch, target>>
       ELSE /\ \A p \in Partitions : newTarget[p] = m \/ (newTarget[p] # Nobody /\ epoch[newTarget[p]] > 0)
            /\ targetEpoch' = groupEpoch' /\ target' = newTarget
    /\ epoch' = [epoch EXCEPT ![m] = targetEpoch'] /\ previous' = [previous EXCEPT ![m] = 0]
    /\ state' = [state EXCEPT ![m] = IF Batched THEN "stable" ELSE "unreleased"]
    /\ heard' = [heard EXCEPT ![m] = targetEpoch'] /\ told' = [told EXCEPT ![m] = {}]
    /\ UNCHANGED <<assigned, pending, owned, commit>>

(* A session or a rebalance has taken too long. The client does not know.   *)
Fence(m) ==
    /\ epoch[m] > 0 /\ groupEpoch < MaxEpoch
    /\ groupEpoch' = groupEpoch + 1
    /\ epoch' = [epoch EXCEPT ![m] = 0] /\ previous' = [previous EXCEPT ![m] = 0]
    /\ state' = [state EXCEPT ![m] = "stable"]
    /\ assigned' = [assigned EXCEPT ![m] = [p \in Partitions |-> NotAssigned]]
    /\ pending' = [pending EXCEPT ![m] = {}]
    /\ UNCHANGED <<targetEpoch, target, client, commit>>

(* The assignor may answer anything that gives each partition to a member.  *)
ComputeTarget(newTarget) ==
    /\ targetEpoch < groupEpoch /\ \A p \in Partitions : epoch[newTarget[p]] > 0
    /\ targetEpoch' = groupEpoch /\ target' = newTarget
    /\ UNCHANGED <<groupEpoch, epoch, previous, state, assigned, pending, client, commit>>

-----------------------------------------------------------------------------
(* Heartbeats *)

(* The previous epoch is taken from who missed an answer, and owns no more  *)
(* than it should.                                                          *)
Welcome(m) ==
    \/ heard[m] = epoch[m]
    \/ heard[m] = previous[m] /\ heard[m] > 0 /\ owned[m] = told[m] /\ owned[m] \subseteq Assigned(m)

Stay(m) == UNCHANGED <<epoch, previous, state, assigned, pending>>

GiveUp(m, kept, out) ==
    /\ state' = [state EXCEPT ![m] = "unrevoked"]
    /\ previous' = [previous EXCEPT ![m] = epoch[m]]
    /\ assigned' = [assigned EXCEPT ![m] =
                       [p \in Partitions |-> IF p \in kept THEN assigned[m][p] ELSE NotAssigned]]
    /\ pending' = [pending EXCEPT ![m] = out]
    /\ UNCHANGED epoch

Advance(m, kept, free, new) ==
    /\ state' = [state EXCEPT ![m] = IF free = new THEN "stable" ELSE "unreleased"]
    /\ previous' = [previous EXCEPT ![m] = epoch[m]]
    /\ epoch' = [epoch EXCEPT ![m] = targetEpoch]
    /\ assigned' = [assigned EXCEPT ![m] =
                       [p \in Partitions |-> IF p \in kept THEN assigned[m][p]
                                             ELSE IF p \in free THEN targetEpoch ELSE NotAssigned]]
    /\ pending' = [pending EXCEPT ![m] = {}]

Heartbeat(m, lost) ==
    /\ epoch[m] > 0 /\ heard[m] > 0 /\ Welcome(m)
    /\ LET kept == Assigned(m) \cap Target(m)
           out == Assigned(m) \ kept
           new == Target(m) \ kept
           free == {p \in new : WaitUntilFree => \A n \in Members \ {m} : p \notin Holds(n)}
       IN  IF \/ state[m] = "stable" /\ epoch[m] = targetEpoch
              \/ state[m] = "unrevoked" /\ WaitUntilRevoked /\ Reported(m) \cap pending[m] # {}
           THEN Stay(m)
           ELSE IF WaitUntilRevoked /\ Reported(m) \cap out # {}
           THEN GiveUp(m, kept, out)
           ELSE Advance(m, kept, free, new)
    /\ IF lost THEN UNCHANGED <<heard, told>>
       ELSE /\ heard' = [heard EXCEPT ![m] = epoch'[m]]
            /\ told' = [told EXCEPT ![m] = {p \in Partitions : assigned'[m][p] # NotAssigned}]
    /\ UNCHANGED <<groupEpoch, targetEpoch, target, owned, commit>>

(* Unknown, or of a wrong epoch: the client gives everything up.            *)
Refused(m) ==
    /\ heard[m] > 0 /\ (epoch[m] = 0 \/ ~Welcome(m))
    /\ heard' = [heard EXCEPT ![m] = 0]
    /\ told' = [told EXCEPT ![m] = {}] /\ owned' = [owned EXCEPT ![m] = {}]
    /\ UNCHANGED <<group, commit>>

(* It comes with epoch 0 while the coordinator still has it.                *)
Rejoin(m) ==
    /\ RejoinByZero /\ heard[m] = 0 /\ owned[m] = {} /\ epoch[m] > 0
    /\ heard' = [heard EXCEPT ![m] = epoch[m]] /\ told' = [told EXCEPT ![m] = Assigned(m)]
    /\ UNCHANGED <<group, owned, commit>>

-----------------------------------------------------------------------------
(* The client does what it was told: first it gives up, then it takes *)

Revoke(m) ==
    /\ owned[m] \ told[m] # {}
    /\ owned' = [owned EXCEPT ![m] = @ \cap told[m]]
    /\ UNCHANGED <<group, heard, told, commit>>

Take(m) ==
    /\ owned[m] \subseteq told[m] /\ owned[m] # told[m]
    /\ owned' = [owned EXCEPT ![m] = told[m]]
    /\ UNCHANGED <<group, heard, told, commit>>

-----------------------------------------------------------------------------
(* Commits, which may be on their way for long *)

SendCommit(m, p) ==
    /\ Commits /\ commit = NoCommit /\ heard[m] > 0 /\ p \in owned[m]
    /\ commit' = [member |-> m, partition |-> p, epoch |-> heard[m]]
    /\ UNCHANGED <<group, client>>

(* Of a partition that was taken away the assignment epoch is not known any *)
(* more; what is pending was assigned before.                               *)
NotOlderThanAssignment(m, p, e) ==
    \/ p \in Assigned(m) /\ assigned[m][p] <= e
    \/ p \in pending[m]

Accepted(c) ==
    LET current == epoch[c.member] IN
    /\ current > 0
    /\ CASE CommitBy = "member" -> TRUE
         [] CommitBy = "memberEpoch" -> c.epoch = current
         [] CommitBy = "kip1251" ->
                \/ c.epoch = current
                \/ c.epoch < current /\ NotOlderThanAssignment(c.member, c.partition, c.epoch)
         [] CommitBy = "assignment" ->
                c.epoch <= current /\ NotOlderThanAssignment(c.member, c.partition, c.epoch)

ReceiveCommit ==
    /\ commit # NoCommit /\ commit' = NoCommit
    /\ UNCHANGED <<group, client>>

Next ==
    \/ \E m \in Members, newTarget \in [Partitions -> 0..M] : Join(m, newTarget)
    \/ \E m \in Members : Fence(m)
    \/ \E newTarget \in [Partitions -> Members] : ComputeTarget(newTarget)
    \/ \E m \in Members, lost \in BOOLEAN : Heartbeat(m, lost)
    \/ \E m \in Members : Refused(m)
    \/ \E m \in Members : Rejoin(m)
    \/ \E m \in Members : Revoke(m)
    \/ \E m \in Members : Take(m)
    \/ \E m \in Members, p \in Partitions : SendCommit(m, p)
    \/ ReceiveCommit

Spec == Init /\ [][Next]_vars

Fair ==
    /\ \A m \in Members : WF_vars(Heartbeat(m, FALSE)) /\ WF_vars(Refused(m)) /\ WF_vars(Rejoin(m))
    /\ \A m \in Members : WF_vars(Revoke(m)) /\ WF_vars(Take(m))
    /\ WF_vars(\E newTarget \in [Partitions -> Members] : ComputeTarget(newTarget))
FairSpec == Spec /\ Fair

-----------------------------------------------------------------------------
(* Promises *)

(* At the coordinator a partition is one member's. *)
OneHolder == \A m, n \in Members : m # n => Holds(m) \cap Holds(n) = {}

(* Of the members that the coordinator knows no two own one partition. *)
OneOwner ==
    \A m, n \in Members : (m # n /\ epoch[m] > 0 /\ epoch[n] > 0) => owned[m] \cap owned[n] = {}

(* What a client owns the coordinator holds for it. *)
OwnedIsHeld == \A m \in Members : (epoch[m] > 0 /\ heard[m] > 0) => owned[m] \subseteq Holds(m)

(* A commit is not taken of a partition that somebody else holds by now. *)
OnlyHoldersCommit ==
    (commit # NoCommit /\ Accepted(commit)) =>
        \A n \in Members \ {commit.member} : commit.partition \notin Holds(n)

(* Whoever has had the partition since it sent the commit is not refused. *)
HoldersMayCommit ==
    (commit # NoCommit /\ commit.partition \in Assigned(commit.member)
        /\ assigned[commit.member][commit.partition] <= commit.epoch
        /\ commit.epoch <= epoch[commit.member]) => Accepted(commit)

(* Liveness: when nobody comes or goes any more, everybody has its target. *)
Settled ==
    /\ targetEpoch = groupEpoch
    /\ \A m \in Members : epoch[m] > 0 =>
            /\ epoch[m] = targetEpoch /\ state[m] = "stable" /\ owned[m] = Target(m)
Settles == <>[](Settled \/ \A m \in Members : epoch[m] = 0)

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverUnrevoked == \A m \in Members : state[m] # "unrevoked"
NeverUnreleased == \A m \in Members : state[m] # "unreleased"
NeverBehind == \A m \in Members : epoch[m] > 0 => heard[m] = 0 \/ heard[m] = epoch[m]
=============================================================================
