---------------------------- MODULE ConsumerGroup ----------------------------
(* A group of the consumer protocol (KIP-848). The coordinator computes a   *)
(* target assignment in an epoch of the group and leads each member to it:  *)
(* a member gives up what it must before it gets more, and a partition is   *)
(* given to it when nobody else has it. A commit names its member's epoch,  *)
(* by which that of a former owner should be refused (KIP-1251).            *)
(*                                                                          *)
(* A heartbeat is one step: what the client reports, what the coordinator   *)
(* makes of it, and the answer, which may be lost.                          *)
EXTENDS Integers, FiniteSets

CONSTANTS
    (* @type: Int; *)  M,                 \* members 1..M, each with an id for the life of its process (KIP-1082)
    (* @type: Int; *)  P,                 \* partitions 1..P
    (* @type: Int; *)  MaxEpoch,          \* bound: group epochs
    (* @type: Int; *)  Static,            \* of the members, 1..Static are static: they have an instance id
    (* @type: Int; *)  MaxLife,           \* bound: processes of a static member, each with an id of its own
    (* @type: Bool; *) Commits,           \* commits are sent
    (* @type: Bool; *) Batched,           \* Kafka 4.3: a target is computed some time after a join, not with it
    (* @type: Bool; *) LateJoins,         \* fault: a request to join arrives again, when its sender is long a member
    (* @type: Bool; *) WaitUntilFree,     \* a partition is assigned only when nobody holds it
    (* @type: Bool; *) WaitUntilRevoked,  \* a member keeps its epoch until it has given up what it must
    (* @type: Bool; *) ReportWhenDone,    \* a client reports what it owns only when it has done all it was told
    (* @type: Bool; *) RejoinByZero,      \* epoch 0 is welcome from a member that is known (KAFKA-19233)
    (* @type: Bool; *) Subset,            \* the previous epoch is welcome only from who owns no more than it should
    (* @type: Bool; *) ReleaseFirst,      \* a static member's next process waits until the one before has left
    (* @type: Str; *)  CommitBy           \* what a commit is held against, see below

(* CommitBy:                                                                *)
(*   "member"      the member is known                                      *)
(*   "memberEpoch" its epoch is the current one (before KIP-1251)           *)
(*   "kip1251"     or an older one, not older than the assignment of the    *)
(*                 partition: Kafka 4.2 and 4.3                             *)
(*   "assignment"  in either case not older than the partition's assignment *)
ASSUME CommitBy \in {"member", "memberEpoch", "kip1251", "assignment"}

\* @typeAlias: member = {epoch: Int, previous: Int, state: Str, assigned: Int -> Int, pending: Int -> Int};
\* @typeAlias: commit = {member: Int, life: Int, partition: Int, epoch: Int};
Members == 1..M
Partitions == 1..P
Nobody == 0
Away == -2          \* the epoch of a static member between two processes
NotAssigned == -1
Nothing == [p \in Partitions |-> NotAssigned]
Unknown == [epoch |-> 0, previous |-> 0, state |-> "stable", assigned |-> Nothing, pending |-> Nothing]
NoCommit == [member |-> Nobody, life |-> 0, partition |-> 0, epoch |-> 0]

VARIABLES
    (* @type: Int; *) groupEpoch, (* @type: Int; *) targetEpoch, (* @type: Int -> Int; *) target,
    (* @type: Int -> $member; *)  member,      \* per member, at the coordinator: epoch (0: unknown), the epoch before, state,
                 \* and per partition the epoch of its assignment: assigned, or pending revocation
    (* @type: Int -> Int; *)      life,        \* per member: its newest process
    (* @type: Int -> Int; *)      heard,       \* per client: the epoch that it was told last, 0 for none
    (* @type: Int -> Set(Int); *) told,        \* per client: what it was told to own
    (* @type: Int -> Set(Int); *) owned,       \* per client: what it owns
    (* @type: Int -> Set(Int); *) abandoned,   \* per member: what processes own that were replaced while they ran
    (* @type: $commit; *)         commit       \* a commit that is under way

group == <<groupEpoch, targetEpoch, target, member>>
client == <<life, heard, told, owned, abandoned>>
vars == <<group, client, commit>>

Init ==
    /\ groupEpoch = 1 /\ targetEpoch = 1 /\ target = [p \in Partitions |-> Nobody]
    /\ member = [m \in Members |-> Unknown]
    /\ life = [m \in Members |-> 1] /\ heard = [m \in Members |-> 0]
    /\ told = [m \in Members |-> {}] /\ owned = [m \in Members |-> {}]
    /\ abandoned = [m \in Members |-> {}] /\ commit = NoCommit

-----------------------------------------------------------------------------
\* @type: (Int -> Int) => Set(Int);
In(assignment) == {p \in Partitions : assignment[p] # NotAssigned}
Assigned(m) == In(member[m].assigned)
Holds(m) == Assigned(m) \cup In(member[m].pending)
Known(m) == member[m].epoch # 0
\* @type: (Int -> Int, Set(Int)) => Int -> Int;
Only(assignment, s) == [p \in Partitions |-> IF p \in s THEN assignment[p] ELSE NotAssigned]

(* Not done yet: it may own anything.                                       *)
Reported(m) == IF ReportWhenDone /\ owned[m] # told[m] THEN Partitions ELSE owned[m]

(* What becomes of a member x that reports what it owns: it stays, or is    *)
(* told to give something up, or gets on to the target's epoch.             *)
\* @type: (Int, $member, Set(Int), Int -> Int, Int) => $member;
Reconciled(m, x, reported, targets, targetsEpoch) ==
    LET kept == In(x.assigned) \cap {p \in Partitions : targets[p] = m}
        out == In(x.assigned) \ kept
        new == {p \in Partitions : targets[p] = m} \ kept
        free == {p \in new : WaitUntilFree => \A n \in Members \ {m} : p \notin Holds(n)}
    IN  IF \/ x.state = "stable" /\ x.epoch = targetsEpoch
           \/ x.state = "unrevoked" /\ WaitUntilRevoked /\ reported \cap In(x.pending) # {}
        THEN x
        ELSE IF WaitUntilRevoked /\ reported \cap out # {}
        THEN [epoch |-> x.epoch, previous |-> x.epoch, state |-> "unrevoked",
              assigned |-> Only(x.assigned, kept), pending |-> Only(x.assigned, out)]
        ELSE [epoch |-> targetsEpoch, previous |-> x.epoch,
              state |-> IF free = new THEN "stable" ELSE "unreleased",
              assigned |-> [p \in Partitions |-> IF p \in free THEN targetsEpoch
                                                 ELSE Only(x.assigned, kept)[p]],
              pending |-> Nothing]

Answered(m) ==
    /\ heard' = [heard EXCEPT ![m] = member'[m].epoch]
    /\ told' = [told EXCEPT ![m] = In(member'[m].assigned)]

GivesUp(m) == heard' = [heard EXCEPT ![m] = 0] /\ told' = [told EXCEPT ![m] = {}] /\ owned' = [owned EXCEPT ![m] = {}]

-----------------------------------------------------------------------------
(* Members come and go, which opens an epoch of the group *)

\* @type: (Int, Int -> Int) => Bool;
Join(m, newTarget) ==
    /\ ~Known(m) /\ heard[m] = 0 /\ groupEpoch < MaxEpoch
    /\ IF Batched THEN newTarget = target
       ELSE \A p \in Partitions : newTarget[p] = m \/ (newTarget[p] # Nobody /\ Known(newTarget[p]))
    /\ groupEpoch' = groupEpoch + 1 /\ target' = newTarget
    /\ targetEpoch' = IF Batched THEN targetEpoch ELSE groupEpoch'
    /\ member' = [member EXCEPT ![m] = Reconciled(m, Unknown, {}, newTarget, targetEpoch')]
    /\ Answered(m) /\ UNCHANGED <<life, owned, abandoned, commit>>

(* A session or a rebalance has taken too long. The client does not know.   *)
Fence(m) ==
    /\ Known(m) /\ groupEpoch < MaxEpoch
    /\ groupEpoch' = groupEpoch + 1
    /\ member' = [member EXCEPT ![m] = Unknown]
    /\ target' = [p \in Partitions |-> IF target[p] = m THEN Nobody ELSE target[p]]
    /\ UNCHANGED <<targetEpoch, client, commit>>

(* The assignor may answer anything that gives each partition to a member.  *)
\* @type: (Int -> Int) => Bool;
ComputeTarget(newTarget) ==
    /\ targetEpoch < groupEpoch /\ \A p \in Partitions : Known(newTarget[p])
    /\ targetEpoch' = groupEpoch /\ target' = newTarget
    /\ UNCHANGED <<groupEpoch, member, client, commit>>

-----------------------------------------------------------------------------
(* Heartbeats *)

(* The previous epoch is heard from who missed an answer, and owns no more. *)
MissedAnswer(m, claimed, reported) ==
    /\ claimed = member[m].previous
    /\ Subset => reported \subseteq Assigned(m)
IsWelcome(m, claimed, reported) == claimed = member[m].epoch \/ MissedAnswer(m, claimed, reported)
Welcome(m) == IsWelcome(m, heard[m], Reported(m))

Heartbeat(m, lost) ==
    /\ heard[m] > 0 /\ Known(m) /\ Welcome(m)
    /\ member' = [member EXCEPT ![m] = Reconciled(m, @, Reported(m), target, targetEpoch)]
    /\ IF lost THEN UNCHANGED <<heard, told>> ELSE Answered(m)
    /\ UNCHANGED <<groupEpoch, targetEpoch, target, life, owned, abandoned, commit>>

(* Unknown, or of a wrong epoch: the client gives everything up.            *)
Refused(m) ==
    /\ heard[m] > 0 /\ (~Known(m) \/ ~Welcome(m))
    /\ GivesUp(m) /\ UNCHANGED <<group, life, abandoned, commit>>

(* It comes with epoch 0 and owns nothing, and the coordinator still has it. *)
Rejoin(m, lost) ==
    /\ Known(m) /\ member[m].epoch # Away /\ RejoinByZero
    /\ heard[m] = 0 \/ (LateJoins /\ lost)
    /\ member' = [member EXCEPT ![m] = Reconciled(m, @, {}, target, targetEpoch)]
    /\ IF lost THEN UNCHANGED <<heard, told>> ELSE Answered(m)
    /\ UNCHANGED <<groupEpoch, targetEpoch, target, life, owned, abandoned, commit>>

(* A static member stops, and will be back: what it has is kept for it.     *)
LeaveForAWhile(m) ==
    /\ m <= Static /\ heard[m] > 0 /\ Known(m)
    /\ member' = [member EXCEPT ![m].epoch = Away, ![m].pending = Nothing,
                     ![m].assigned = [p \in Partitions |-> IF @[p] = NotAssigned THEN @[p] ELSE 0]]
    /\ GivesUp(m) /\ UNCHANGED <<groupEpoch, targetEpoch, target, life, abandoned, commit>>

(* Its next process takes its place, with another id.                       *)
TakeOver(m) ==
    /\ m <= Static /\ life[m] < MaxLife /\ Known(m)
    /\ ReleaseFirst => member[m].epoch = Away
    /\ life' = [life EXCEPT ![m] = @ + 1]
    /\ member' = [member EXCEPT ![m] =
                     Reconciled(m, [@ EXCEPT !.epoch = 0, !.previous = 0], {}, target, targetEpoch)]
    /\ abandoned' = [abandoned EXCEPT ![m] = @ \cup owned[m]] /\ owned' = [owned EXCEPT ![m] = {}]
    /\ Answered(m) /\ UNCHANGED <<groupEpoch, targetEpoch, target, commit>>

-----------------------------------------------------------------------------
(* The client does what it was told: first it gives up, then it takes *)

Revoke(m) ==
    /\ owned[m] \ told[m] # {}
    /\ owned' = [owned EXCEPT ![m] = @ \cap told[m]]
    /\ UNCHANGED <<group, life, heard, told, abandoned, commit>>

Take(m) ==
    /\ owned[m] \subseteq told[m] /\ owned[m] # told[m]
    /\ owned' = [owned EXCEPT ![m] = told[m]]
    /\ UNCHANGED <<group, life, heard, told, abandoned, commit>>

-----------------------------------------------------------------------------
(* Commits, which may be on their way for long *)

SendCommit(m, p) ==
    /\ Commits /\ commit = NoCommit /\ p \in owned[m]
    /\ commit' = [member |-> m, life |-> life[m], partition |-> p, epoch |-> heard[m]]
    /\ UNCHANGED <<group, client>>

(* Of a partition that was taken away the assignment epoch is not known any *)
(* more; what is pending was assigned before.                               *)
\* @type: {member: Int, life: Int, partition: Int, epoch: Int, a} => Bool;
NotOlderThanAssignment(c) ==
    LET x == member[c.member] IN
    \E e \in {x.assigned[c.partition], x.pending[c.partition]} : e # NotAssigned /\ e <= c.epoch

\* @type: {member: Int, life: Int, partition: Int, epoch: Int, a} => Bool;
OfMember(c) == Known(c.member) /\ c.life = life[c.member]
\* @type: {member: Int, life: Int, partition: Int, epoch: Int, a} => Bool;
Current(c) == c.epoch = member[c.member].epoch
\* @type: {member: Int, life: Int, partition: Int, epoch: Int, a} => Bool;
SinceAssigned(c) == c.epoch <= member[c.member].epoch /\ NotOlderThanAssignment(c)
\* @type: {member: Int, life: Int, partition: Int, epoch: Int, a} => Bool;
Accepted(c) ==
    CASE CommitBy = "member" -> TRUE
      [] CommitBy = "memberEpoch" -> Current(c)
      [] CommitBy = "kip1251" -> Current(c) \/ SinceAssigned(c)
      [] CommitBy = "assignment" -> SinceAssigned(c)

TakeCommit ==
    /\ commit # NoCommit /\ OfMember(commit) /\ Accepted(commit)
    /\ commit' = NoCommit /\ UNCHANGED <<group, client>>

RefuseCommit ==
    /\ commit # NoCommit /\ ~(OfMember(commit) /\ Accepted(commit))
    /\ commit' = NoCommit /\ UNCHANGED <<group, client>>

Next ==
    \/ \E m \in Members, newTarget \in [Partitions -> 0..M] : Join(m, newTarget)
    \/ \E m \in Members : Fence(m)
    \/ \E newTarget \in [Partitions -> Members] : ComputeTarget(newTarget)
    \/ \E m \in Members, lost \in BOOLEAN : Heartbeat(m, lost)
    \/ \E m \in Members : Refused(m)
    \/ \E m \in Members, lost \in BOOLEAN : Rejoin(m, lost)
    \/ \E m \in Members : LeaveForAWhile(m)
    \/ \E m \in Members : TakeOver(m)
    \/ \E m \in Members : Revoke(m)
    \/ \E m \in Members : Take(m)
    \/ \E m \in Members, p \in Partitions : SendCommit(m, p)
    \/ TakeCommit
    \/ RefuseCommit

Spec == Init /\ [][Next]_vars

Fair ==
    /\ \A m \in Members : WF_vars(Heartbeat(m, FALSE)) /\ WF_vars(Refused(m)) /\ WF_vars(Rejoin(m, FALSE))
    /\ \A m \in Members : WF_vars(Revoke(m)) /\ WF_vars(Take(m))
    /\ WF_vars(\E newTarget \in [Partitions -> Members] : ComputeTarget(newTarget))
FairSpec == Spec /\ Fair

-----------------------------------------------------------------------------
(* Promises *)

(* At the coordinator a partition is one member's. *)
OneHolder == \A m, n \in Members : m # n => Holds(m) \cap Holds(n) = {}

(* Of the members that the coordinator knows no two own one partition, nor  *)
(* one of them and a process that was replaced.                             *)
OneOwner ==
    \A m, n \in Members : Known(n) =>
        /\ (m # n /\ Known(m)) => owned[m] \cap owned[n] = {}
        /\ abandoned[m] \cap owned[n] = {}

(* What a client owns the coordinator holds for it. *)
OwnedIsHeld == \A m \in Members : (Known(m) /\ heard[m] > 0) => owned[m] \subseteq Holds(m)

(* If not, its next heartbeat tells it so. *)
Noticed == \A m \in Members : (Known(m) /\ heard[m] > 0 /\ Welcome(m)) => owned[m] \subseteq Holds(m)

(* A commit is not taken of a partition that somebody else holds by now. *)
OnlyHoldersCommit ==
    (commit # NoCommit /\ OfMember(commit) /\ Accepted(commit)) =>
        \A n \in Members \ {commit.member} : commit.partition \notin Holds(n)

(* Whoever has had the partition since it sent the commit is not refused. *)
HoldersMayCommit ==
    (commit # NoCommit /\ OfMember(commit) /\ commit.partition \in Assigned(commit.member)
        /\ member[commit.member].assigned[commit.partition] <= commit.epoch
        /\ commit.epoch <= member[commit.member].epoch) => Accepted(commit)

(* Who is in no epoch has given everything up. *)
OutsideOwnsNothing == \A m \in Members : heard[m] = 0 => told[m] = {} /\ owned[m] = {}

(* A target is of members, and of a group that has some it leaves nothing   *)
(* out: each partition will be read.                                        *)
TargetCovers ==
    /\ \A p \in Partitions : target[p] = Nobody \/ Known(target[p])
    /\ targetEpoch = groupEpoch /\ (\E m \in Members : Known(m)) =>
        \A p \in Partitions : target[p] # Nobody

(* An epoch has one target, so two members that are led to it are led to    *)
(* the same.                                                                *)
OneTargetPerEpoch ==
    [][\A p \in Partitions : target'[p] \notin {target[p], Nobody} => targetEpoch' > targetEpoch]_target

(* The group's epoch counts who comes and goes: nothing else rebalances it. *)
EpochsCountMembers ==
    [][groupEpoch' = groupEpoch + Cardinality(
        {m \in Members : (member[m].epoch = 0) # (member'[m].epoch = 0)})]_<<groupEpoch, member>>

(* What a static member has is kept for it while it is away, until its next *)
(* process comes or it is fenced.                                           *)
AwayIsKept ==
    [][\A m \in Members : Away \in {member[m].epoch, member'[m].epoch} =>
        /\ m <= Static
        /\ \/ life'[m] > life[m] \/ member'[m].epoch = 0
           \/ member'[m].epoch = Away
              /\ \A p \in Partitions : (member'[m].assigned[p] = NotAssigned)
                                       = (member[m].assigned[p] = NotAssigned)]_member

(* Who comes with an epoch that is neither the member's nor the one before  *)
(* is told no other before it has given everything up.                      *)
StaleIsRefused ==
    [][\A m \in Members : heard'[m] \in {heard[m], 0}
        \/ heard[m] \in {0, member[m].epoch, member[m].previous}]_heard

(* A client commits what it owns, one thing at a time.                      *)
CommitsItsOwn ==
    [][commit' \notin {commit, NoCommit} =>
        commit = NoCommit /\ commit'.partition \in owned[commit'.member]]_commit

(* Availability: clients join, and join again where they are known; who owns*)
(* nothing that it must give up gets to the target's epoch with its next    *)
(* heartbeat; who is not known any more hears that.                         *)
Served ==
    /\ targetEpoch < groupEpoch /\ (\E m \in Members : Known(m)) =>
        ENABLED ((\E newTarget \in [Partitions -> Members] : ComputeTarget(newTarget))
                 /\ targetEpoch' = groupEpoch)
    /\ \A m \in Members :
        LET x == member[m]
            current == heard[m] = x.epoch
                       \/ (heard[m] = x.previous /\ owned[m] \subseteq In(x.assigned)) IN
        /\ heard[m] = 0 /\ x.epoch = 0 /\ groupEpoch < MaxEpoch =>
            ENABLED ((\E newTarget \in [Partitions -> 0..M] : Join(m, newTarget))
                     /\ heard'[m] # 0 /\ heard'[m] = member'[m].epoch)
        /\ heard[m] = 0 /\ x.epoch \notin {0, Away} =>
            ENABLED (Rejoin(m, FALSE) /\ member'[m].epoch = targetEpoch /\ heard'[m] = targetEpoch)
        /\ heard[m] > 0 /\ x.epoch # 0 /\ current /\ owned[m] = told[m]
                /\ owned[m] \subseteq {p \in Partitions : target[p] = m}
                /\ owned[m] \cap In(x.pending) = {} =>
            ENABLED (Heartbeat(m, FALSE) /\ member'[m].epoch = targetEpoch
                     /\ heard'[m] = targetEpoch /\ told'[m] = In(member'[m].assigned))
        /\ heard[m] > 0 /\ (x.epoch = 0 \/ heard[m] \notin {x.epoch, x.previous}) =>
            ENABLED (Refused(m) /\ heard'[m] = 0)
        /\ owned[m] \ told[m] # {} => ENABLED (Revoke(m) /\ owned'[m] = owned[m] \cap told[m])
        /\ owned[m] \subseteq told[m] /\ owned[m] # told[m] =>
            ENABLED (Take(m) /\ owned'[m] = told[m])

(* And a static member may stop for a while, and its next process take its  *)
(* place.                                                                   *)
ServedWhileAway ==
    \A m \in 1..Static :
        /\ heard[m] > 0 /\ member[m].epoch # 0 =>
            ENABLED (LeaveForAWhile(m) /\ member'[m].epoch = Away)
        /\ member[m].epoch = Away /\ life[m] < MaxLife =>
            ENABLED (TakeOver(m) /\ life'[m] > life[m] /\ heard'[m] > 0)

(* And who owns a partition may commit it, and is answered: yes, if it has  *)
(* had the partition since.                                                 *)
CommitsAreServed ==
    /\ Commits /\ commit = NoCommit => \A m \in Members : \A p \in owned[m] :
        ENABLED (SendCommit(m, p) /\ commit' # NoCommit)
    /\ commit # NoCommit =>
        LET x == member[commit.member] IN
        /\ ENABLED ((TakeCommit \/ RefuseCommit) /\ commit' = NoCommit)
        /\ x.epoch # 0 /\ commit.life = life[commit.member] /\ commit.epoch <= x.epoch
                /\ x.assigned[commit.partition] \in 0..commit.epoch => ENABLED TakeCommit

(* Liveness: when nobody comes or goes any more, everybody has its target. *)
Settled ==
    /\ targetEpoch = groupEpoch
    /\ \A m \in Members : Known(m) =>
            /\ member[m].epoch = targetEpoch /\ member[m].state = "stable"
            /\ owned[m] = {p \in Partitions : target[p] = m}
Settles == <>[](Settled \/ \A m \in Members : ~Known(m))

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverUnrevoked == \A m \in Members : member[m].state # "unrevoked"
NeverUnreleased == \A m \in Members : member[m].state # "unreleased"
NeverBehind == \A m \in Members : (Known(m) /\ heard[m] > 0) => heard[m] = member[m].epoch
NeverBack == \A m \in Members : life[m] > 1 => owned[m] = {}
=============================================================================
