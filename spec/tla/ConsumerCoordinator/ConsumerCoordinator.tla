------------------------- MODULE ConsumerCoordinator -------------------------
(* A group of the consumer protocol as its coordinators run it: the rules   *)
(* are ConsumerGroup's, the requests anybody's, who claims any epoch and    *)
(* any partitions, and another coordinator takes over with what of the log  *)
(* has reached it (GroupLog). To this spec recordings of the broker's       *)
(* coordinators are held: each step is a request or a timer, or part of     *)
(* what is done for one.                                                    *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    (* @type: Int; *)  M,                 \* member ids 1..M
    (* @type: Int; *)  P,                 \* partitions 1..P
    (* @type: Int; *)  MaxEpoch,          \* bound: group epochs
    (* @type: Int; *)  MaxOffset,         \* bound: committed offsets
    (* @type: Int; *)  MaxLog,            \* bound: changes that are not replicated
    (* @type: Bool; *) WaitUntilFree, (* @type: Bool; *) WaitUntilRevoked,
    (* @type: Bool; *) Subset, (* @type: Str; *) CommitBy   \* as in ConsumerGroup

VARIABLES
    (* @type: Int; *) groupEpoch, (* @type: Int; *) targetEpoch, (* @type: Int -> Int; *) target,
    (* @type: Int -> $member; *) member,      \* as in ConsumerGroup
    (* @type: Int -> Int; *)     committed,   \* per partition: the offset that is committed
    (* @type: Seq($group); *)    log,         \* what each change that is not replicated has left
    (* @type: Set(Seq($group)); *) others,    \* such logs of coordinators before, which others may have that lead later
    (* @type: $group; *)         stable       \* what the last change that is replicated has left

now == <<groupEpoch, targetEpoch, target, member, committed>>
group == <<groupEpoch, targetEpoch, target, member>>
vars == <<now, log, others, stable>>

(* What is asked and answered is said in the requests, so what the clients  *)
(* of ConsumerGroup know is nothing here.                                   *)
G == INSTANCE ConsumerGroup WITH
    heard <- [n \in 1..M |-> 0], owned <- [n \in 1..M |-> {}], told <- [n \in 1..M |-> {}],
    life <- [n \in 1..M |-> 1], abandoned <- [n \in 1..M |-> {}],
    commit <- [member |-> 0, life |-> 0, partition |-> 0, epoch |-> 0],
    Static <- 0, MaxLife <- 1, Commits <- FALSE, Batched <- TRUE, LateJoins <- FALSE,
    ReportWhenDone <- TRUE, RejoinByZero <- TRUE, ReleaseFirst <- TRUE

\* @typeAlias: member = {epoch: Int, previous: Int, state: Str, assigned: Int -> Int, pending: Int -> Int};
\* @typeAlias: group = <<Int, Int, Int -> Int, Int -> $member, Int -> Int>>;
Members == 1..M
Partitions == 1..P
Nobody == 0
Unknown == G!Unknown
Known(m) == G!Known(m)
\* @type: (Int, $member, Set(Int), Int -> Int, Int) => $member;
Reconciled(m, x, reported, targets, epoch) == G!Reconciled(m, x, reported, targets, epoch)

Init ==
    /\ groupEpoch = 1 /\ targetEpoch = 1 /\ target = [p \in Partitions |-> Nobody]
    /\ member = [m \in Members |-> Unknown]
    /\ committed = [p \in Partitions |-> 0]
    /\ log = <<>> /\ others = {} /\ stable = now

-----------------------------------------------------------------------------
(* Whatever is changed is written down.                                     *)
Written ==
    /\ log' = IF now' = now THEN log ELSE Append(log, now')
    /\ Len(log') <= MaxLog
    /\ UNCHANGED <<others, stable>>

(* A target gives partitions to members; where the topic is smaller than P, *)
(* the rest to nobody.                                                      *)
\* @type: (Set(Int), Int -> Int) => Bool;
GivesTo(those, newTarget) == \A p \in Partitions : newTarget[p] \in those \cup {Nobody}

-----------------------------------------------------------------------------
(* Members come and go *)

(* A member that is not known joins; a target is computed with it, if the   *)
(* last one is old enough.                                                  *)
\* @type: (Int, Bool, Int -> Int) => Bool;
Join(m, computed, newTarget) ==
    /\ ~Known(m) /\ groupEpoch < MaxEpoch
    /\ groupEpoch' = groupEpoch + 1
    /\ IF computed
       THEN GivesTo({n \in Members : Known(n)} \cup {m}, newTarget) /\ targetEpoch' = groupEpoch'
       ELSE newTarget = target /\ targetEpoch' = targetEpoch
    /\ target' = newTarget
    /\ member' = [member EXCEPT ![m] = Reconciled(m, Unknown, {}, newTarget, targetEpoch')]
    /\ UNCHANGED committed /\ Written

(* It joins again, which is answered as a heartbeat is.                     *)
Rejoin(m) == G!Rejoin(m, TRUE) /\ UNCHANGED committed /\ Written

(* A session or a rebalance has taken too long, or the member leaves.       *)
Fence(m) == G!Fence(m) /\ UNCHANGED committed /\ Written
Leave(m) == G!Fence(m) /\ UNCHANGED committed /\ Written

(* The topics are not what they were.                                       *)
ChangeTopics ==
    /\ groupEpoch < MaxEpoch
    /\ groupEpoch' = groupEpoch + 1
    /\ UNCHANGED <<targetEpoch, target, member, committed>> /\ Written

\* @type: (Int -> Int) => Bool;
ComputeTarget(newTarget) ==
    /\ targetEpoch < groupEpoch
    /\ GivesTo({m \in Members : Known(m)}, newTarget)
    /\ targetEpoch' = groupEpoch /\ target' = newTarget
    /\ UNCHANGED <<groupEpoch, member, committed>> /\ Written

-----------------------------------------------------------------------------
(* Requests of members *)

(* It claims an epoch, and to own some partitions. One that says nothing of *)
(* what it owns may own anything.                                           *)
Heartbeat(m, epoch, owns) ==
    /\ epoch # 0 /\ Known(m) /\ G!IsWelcome(m, epoch, owns)
    /\ member' = [member EXCEPT ![m] = Reconciled(m, @, owns, target, targetEpoch)]
    /\ UNCHANGED <<groupEpoch, targetEpoch, target, committed>> /\ Written

RefuseHeartbeat(m, epoch, owns) ==
    /\ epoch # 0
    /\ ~Known(m) \/ ~G!IsWelcome(m, epoch, owns)
    /\ UNCHANGED vars

Commit(m, p, epoch) == [member |-> m, life |-> 1, partition |-> p, epoch |-> epoch]
\* @type: {member: Int, life: Int, partition: Int, epoch: Int} => Bool;
IsAccepted(c) == G!OfMember(c) /\ G!Accepted(c)

TakeCommit(m, p, epoch, offset) ==
    /\ IsAccepted(Commit(m, p, epoch))
    /\ committed' = [committed EXCEPT ![p] = offset]
    /\ UNCHANGED group
    /\ log' = Append(log, now') /\ Len(log') <= MaxLog /\ UNCHANGED <<others, stable>>

(* One partition that is not its own, and the whole request is refused.     *)
RefuseCommit(m, those, epoch) ==
    /\ \E p \in those : ~IsAccepted(Commit(m, p, epoch))
    /\ UNCHANGED vars

-----------------------------------------------------------------------------
(* The log *)

\* @type: (Int, Seq(a)) => Seq(a);
From(n, l) == SubSeq(l, n + 1, Len(l))
\* @type: (Seq(a), Seq(a)) => Bool;
Starts(l, with) == Len(l) >= Len(with) /\ SubSeq(l, 1, Len(with)) = with

(* So many changes are replicated by now.                                   *)
Replicate(n) ==
    /\ n \in 1..Len(log)
    /\ stable' = log[n] /\ log' = From(n, log)
    /\ others' = {From(n, l) : l \in {o \in others : Starts(o, SubSeq(log, 1, n))}} \ {<<>>}
    /\ UNCHANGED now

(* Another coordinator, or the same one again, loads what has reached it:   *)
(* all that is replicated, and the first n changes of what is not, or of    *)
(* what another one had.                                                    *)
Load(n) ==
    /\ \E l \in others \cup {log} :
        /\ n \in 0..Len(l)
        /\ log' = SubSeq(l, 1, n)
        /\ others' = (others \cup {log}) \ {<<>>}
    /\ LET loaded == IF n = 0 THEN stable ELSE log'[n]
       IN  /\ groupEpoch' = loaded[1] /\ targetEpoch' = loaded[2] /\ target' = loaded[3]
           /\ member' = loaded[4] /\ committed' = loaded[5]
    /\ UNCHANGED stable

Next ==
    \/ \E m \in Members, computed \in BOOLEAN, newTarget \in [Partitions -> 0..M] :
            Join(m, computed, newTarget)
    \/ \E m \in Members : Rejoin(m)
    \/ \E m \in Members : Fence(m)
    \/ \E m \in Members : Leave(m)
    \/ ChangeTopics
    \/ \E newTarget \in [Partitions -> 0..M] : ComputeTarget(newTarget)
    \/ \E m \in Members, epoch \in 1..MaxEpoch, owns \in SUBSET Partitions : Heartbeat(m, epoch, owns)
    \/ \E m \in Members, epoch \in 1..MaxEpoch, owns \in SUBSET Partitions :
            RefuseHeartbeat(m, epoch, owns)
    \/ \E m \in Members, p \in Partitions, epoch \in 1..MaxEpoch, offset \in 1..MaxOffset :
            TakeCommit(m, p, epoch, offset)
    \/ \E m \in Members, those \in SUBSET Partitions, epoch \in 1..MaxEpoch :
            RefuseCommit(m, those, epoch)
    \/ \E n \in 1..MaxLog : Replicate(n)
    \/ \E n \in 0..MaxLog : Load(n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises, whatever clients say *)

OneHolder == G!OneHolder

(* No claim lets a member commit what somebody else holds.                  *)
OnlyHoldersCommit ==
    \A m \in Members, p \in Partitions, epoch \in 1..MaxEpoch :
        IsAccepted(Commit(m, p, epoch)) => \A n \in Members \ {m} : p \notin G!Holds(n)

(* A change is what a request or a timer has made: whoever begins to        *)
(* coordinate makes none, but may read one in another one's log.            *)
Changed == Len(log') > Len(log) /\ ~(\E l \in others : Starts(l, log'))

(* A commit names an epoch that its member has reached.                     *)
CommitsAreOfTheirEpoch ==
    \A m \in Members, p \in Partitions, epoch \in 1..MaxEpoch :
        IsAccepted(Commit(m, p, epoch)) => epoch <= member[m].epoch

(* Only members are given something, and they have what the target of their *)
(* epoch gives, whatever they say.                                          *)
OnlyMembersAreGiven == \A p \in Partitions : target[p] = Nobody \/ Known(target[p])
AsTheTargetSays ==
    \A m \in Members : member[m].epoch = targetEpoch =>
        \A p \in G!Assigned(m) : target[p] = m
EpochsFollow ==
    /\ targetEpoch <= groupEpoch
    /\ \A m \in Members : member[m].epoch <= targetEpoch

(* An epoch begins when somebody comes or goes, or the topics change.       *)
Came == {m \in Members : Known(m)}
OneEpochEach ==
    [][Changed => IF Came' # Came THEN groupEpoch' = groupEpoch + 1
                  ELSE groupEpoch' = groupEpoch \/ (groupEpoch' = groupEpoch + 1 /\ UNCHANGED member)]_vars

(* Each request has one answer: it is taken or refused.                     *)
HeartbeatsAreAnswered ==
    Len(log) < MaxLog =>
        \A m \in Members, epoch \in 1..MaxEpoch, owns \in SUBSET Partitions :
            (ENABLED Heartbeat(m, epoch, owns)) # (ENABLED RefuseHeartbeat(m, epoch, owns))
CommitsAreAnswered ==
    \A m \in Members, p \in Partitions, epoch \in 1..MaxEpoch :
        IsAccepted(Commit(m, p, epoch)) # (ENABLED RefuseCommit(m, {p}, epoch))
OnlyAcceptedAreTaken ==
    [][Changed /\ committed' # committed
        => \E m \in Members, p \in Partitions, epoch \in 1..MaxEpoch :
               committed'[p] # committed[p] /\ IsAccepted(Commit(m, p, epoch))]_<<log, committed>>

-----------------------------------------------------------------------------
(* Promises of the log *)

(* What a coordinator knows is what the last change has left.               *)
LastIsKnown == now = IF log = <<>> THEN stable ELSE log[Len(log)]

(* A change is replicated once, and then no coordinator is without it:      *)
(* neither epochs nor offsets begin anew.                                   *)
ReplicatedOnce == [][stable' # stable => Len(log') < Len(log)]_<<log, stable>>
ReplicatedStays ==
    /\ groupEpoch >= stable[1] /\ targetEpoch >= stable[2]
    /\ \A p \in Partitions : stable[5][p] > 0 => committed[p] > 0

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverUnrevoked == \A m \in Members : member[m].state # "unrevoked"
NeverAnotherLog == others = {}
NeverOtherTopics == [][Changed /\ groupEpoch' > groupEpoch => member' # member]_groupEpoch
NeverRetargeted == [][Changed /\ groupEpoch' = groupEpoch => target' = target]_target
NeverBack == ~(log = <<>> /\ groupEpoch = 3 /\ committed # [p \in Partitions |-> 0])
=============================================================================
