---------------------------- MODULE GroupMigration ----------------------------
(* A group that goes from the classic protocol to KIP-848's while its       *)
(* members are there, and back (group.consumer.migration.policy). The first *)
(* member of the consumer protocol makes a classic group a consumer group,  *)
(* in which the classic members live on; when the last one of that protocol *)
(* leaves, or its instance id is taken over by a classic process, the group *)
(* is classic again. Either kind has a size that it may not exceed.         *)
(*                                                                          *)
(* ClassicGroup and ConsumerGroup have what happens within one protocol.    *)
(* Here nothing is lost or late, and a request is one step with its answer, *)
(* but for joins and syncs that wait.                                       *)
EXTENDS Integers, FiniteSets

CONSTANTS
    M,            \* members 1..M, each of any protocol
    P,            \* partitions 1..P
    Static,       \* of the members, 1..Static have an instance id
    MaxLife,      \* bound: processes of a static member, each with an id of its own
    MaxEpoch,     \* bound: generations, which are group epochs
    Upgrades,     \* setting: the policy is bidirectional or upgrade
    Downgrades,   \* setting: the policy is bidirectional or downgrade
    ClassicMax,   \* setting: group.max.size
    ConsumerMax,  \* setting: group.consumer.max.size
    KeepClaimed,  \* what a member said that it owns and was not given again is nobody else's
    DowngradeTo,  \* what members have in a group that was downgraded: "held", or "target" as in Kafka
    RejoinAll,    \* a coordinator that loads a downgraded group has all join again
    Dropped       \* a rule that is left out: "answers", "size", "policy", "downgrade", "epoch", "unsettled",
                  \* "free", "last", "members", or "none"

ASSUME DowngradeTo \in {"held", "target"}

Members == 1..M
Partitions == 1..P
Nobody == 0
NoMember == [protocol |-> "none", epoch |-> 0, state |-> "stable", assigned |-> {}, pending |-> {}, said |-> {}]
NoTarget == [p \in Partitions |-> Nobody]

VARIABLES
    kind,         \* "none", "classic" or "consumer"
    phase,        \* of a classic group: "joining", "assigning" or "stable"
    epoch,        \* the group's generation, or its epoch
    targetEpoch,  \* of a consumer group: the epoch of its target
    target,       \* of a consumer group, per partition: whose it shall be
    leader,       \* of a classic group
    fresh,        \* a classic group that was downgraded, and nothing has happened since
    member,       \* per member, at the coordinator: its protocol, what it was assigned, and what it said
                  \* when it joined that it owns; in a consumer group its epoch and state as well
    life,         \* per member: its newest process
    waiting,      \* the clients whose request is not answered
    told,         \* per client: what it was told to own
    owned         \* per client: what it owns

group == <<kind, phase, epoch, targetEpoch, target, leader, fresh, member>>
vars == <<group, life, waiting, told, owned>>

Init ==
    /\ kind = "none" /\ phase = "stable" /\ epoch = 0 /\ targetEpoch = 0 /\ target = NoTarget
    /\ leader = Nobody /\ fresh = FALSE
    /\ member = [m \in Members |-> NoMember] /\ life = [m \in Members |-> 1]
    /\ waiting = {} /\ told = [m \in Members |-> {}] /\ owned = [m \in Members |-> {}]

-----------------------------------------------------------------------------
Known == {m \in Members : member[m].protocol # "none"}
Size == Cardinality(Known)
Min(s) == CHOOSE m \in s : \A n \in s : m <= n
Holds(m) == member[m].assigned \cup member[m].pending
TargetOf(t, m) == {p \in Partitions : t[p] = m}

Set(m, x) == [member EXCEPT ![m] = x]
Gone(m) == Set(m, NoMember)
Classic(assigned, said) == [NoMember EXCEPT !.protocol = "classic", !.assigned = assigned, !.said = said]

(* The client is gone, or begins anew.                                      *)
Forgets(m) == told' = [told EXCEPT ![m] = {}] /\ owned' = [owned EXCEPT ![m] = {}]
Stays == UNCHANGED <<told, owned>>

(* There is no group without members.                                       *)
NoGroup ==
    /\ kind' = "none" /\ phase' = "stable" /\ epoch' = 0 /\ targetEpoch' = 0 /\ target' = NoTarget
    /\ leader' = Nobody /\ fresh' = FALSE /\ waiting' = {}

-----------------------------------------------------------------------------
(* A classic group *)

(* Once all have joined the generation begins: the leader has its answer,   *)
(* and all others wait for what it assigns.                                 *)
Joined(ms, joined, led, g) ==
    IF joined = ms
    THEN LET by == IF led = Nobody THEN Min(ms) ELSE led
         IN  phase' = "assigning" /\ epoch' = g + 1 /\ leader' = by /\ waiting' = ms \ {by}
    ELSE phase' = "joining" /\ epoch' = g /\ leader' = led /\ waiting' = joined

(* Whose sync waits when a rebalance begins is answered, and has nothing.   *)
Cleared(ms) == IF phase = "assigning" THEN [m \in Members |-> [ms[m] EXCEPT !.assigned = {}]] ELSE ms
Waits == IF phase = "joining" THEN waiting ELSE {}

HasRoom == IF phase = "joining" THEN Cardinality(waiting) < ClassicMax ELSE Size < ClassicMax

(* The first member is not waited for longer than for others.               *)
JoinClassic(m) ==
    /\ kind # "consumer" /\ m \notin Known /\ HasRoom /\ epoch < MaxEpoch
    /\ kind' = "classic" /\ member' = [Cleared(member) EXCEPT ![m] = Classic({}, {})]
    /\ Joined(Known \cup {m}, Waits \cup {m}, IF leader = Nobody THEN m ELSE leader, epoch)
    /\ fresh' = FALSE /\ UNCHANGED <<targetEpoch, target, life>> /\ Stays

(* A cooperative member joins again when it has given something up, or is   *)
(* asked to, and says what it owns.                                         *)
Rejoin(m) ==
    /\ kind = "classic" /\ m \in Known \ waiting /\ epoch < MaxEpoch /\ owned[m] = told[m]
    /\ phase = "joining" \/ (phase = "stable" /\ owned[m] # member[m].said)
    /\ phase = "joining" => HasRoom
    /\ member' = Set(m, Classic(member[m].assigned, owned[m]))
    /\ Joined(Known, Waits \cup {m}, leader, epoch)
    /\ fresh' = FALSE /\ UNCHANGED <<kind, targetEpoch, target, life>> /\ Stays

(* New members were faster, and the group is full.                          *)
TurnAway(m) ==
    /\ kind = "classic" /\ phase = "joining" /\ m \in Known \ waiting /\ epoch < MaxEpoch
    /\ owned[m] = told[m] /\ ~HasRoom
    /\ member' = Gone(m) /\ Forgets(m)
    /\ Joined(Known \ {m}, waiting, IF leader = m THEN Min(Known \ {m}) ELSE leader, epoch)
    /\ fresh' = FALSE /\ UNCHANGED <<kind, targetEpoch, target, life>>

(* The leader's assignor is cooperative: what somebody owns is nobody       *)
(* else's until he has given it up.                                         *)
Complete(newTarget) ==
    /\ kind = "classic" /\ phase = "assigning"
    /\ \A p \in Partitions :
        IF \E m \in Known : p \in member[m].said
        THEN newTarget[p] = Nobody \/ (newTarget[p] \in Known /\ p \in member[newTarget[p]].said)
        ELSE newTarget[p] \in Known
    /\ phase' = "stable" /\ waiting' = {} /\ fresh' = FALSE
    /\ member' = [m \in Members |-> [member[m] EXCEPT !.assigned = TargetOf(newTarget, m)]]
    /\ told' = [m \in Members |-> TargetOf(newTarget, m)]
    /\ UNCHANGED <<kind, epoch, targetEpoch, target, leader, life, owned>>

LeaveClassic(m) ==
    /\ kind = "classic" /\ m \in Known \ waiting /\ epoch < MaxEpoch
    /\ Forgets(m) /\ UNCHANGED life
    /\ IF Known = {m} THEN NoGroup /\ member' = Gone(m)
       ELSE /\ member' = [Cleared(member) EXCEPT ![m] = NoMember]
            /\ Joined(Known \ {m}, Waits, IF leader = m THEN Min(Known \ {m}) ELSE leader, epoch)
            /\ fresh' = FALSE /\ UNCHANGED <<kind, targetEpoch, target>>

-----------------------------------------------------------------------------
(* To the consumer protocol *)

(* What becomes of a member x that reports what it owns: see ConsumerGroup. *)
Reconciled(ms, m, x, reported, t, e) ==
    LET kept == x.assigned \cap TargetOf(t, m)
        out == x.assigned \ kept
        new == TargetOf(t, m) \ kept
        free == {p \in new : Dropped = "free" \/ \A n \in Members \ {m} : p \notin ms[n].assigned \cup ms[n].pending}
    IN  IF \/ x.state = "stable" /\ x.epoch = e
           \/ x.state = "unrevoked" /\ reported \cap x.pending # {}
        THEN x
        ELSE IF reported \cap out # {}
        THEN [x EXCEPT !.state = "unrevoked", !.assigned = kept, !.pending = out]
        ELSE [x EXCEPT !.epoch = e, !.state = IF free = new THEN "stable" ELSE "unreleased",
                       !.assigned = kept \cup free, !.pending = {}]

(* Every member is in the epoch of its generation with its last assignment. *)
(* What it said that it owns and nobody was assigned is pending: it may own *)
(* that until it joins once more.                                           *)
AsConsumers ==
    LET given == UNION {member[m].assigned : m \in Known}
        claimed(m) == IF KeepClaimed THEN member[m].said \ given ELSE {}
    IN  [m \in Members |-> IF m \notin Known \/ (Dropped = "members" /\ member[m].assigned = {})
            THEN NoMember
            ELSE [member[m] EXCEPT !.epoch = epoch, !.pending = claimed(m),
                                   !.state = IF claimed(m) = {} THEN "stable" ELSE "unrevoked"]]
AsTarget == [p \in Partitions |-> IF \E m \in Known : p \in member[m].assigned
                                  THEN CHOOSE m \in Known : p \in member[m].assigned ELSE Nobody]

MayUpgrade ==
    /\ kind = "classic" /\ Known # {}
    /\ Upgrades \/ Dropped = "policy"
    /\ Size <= ConsumerMax \/ Dropped = "size"
MayEnter == Size < ConsumerMax \/ Dropped = "size"

(* A partition may have no owner. A new member begins an epoch anyway; the  *)
(* next process of a static one begins one then.                            *)
Unsettled ==
    /\ phase # "stable" \/ \E m \in Known : AsConsumers[m].pending # {}
    /\ Dropped # "unsettled"
NewEpoch == IF Dropped = "epoch" THEN 1 ELSE epoch + 1

Upgraded ==
    /\ kind' = "consumer" /\ phase' = "stable" /\ leader' = Nobody /\ fresh' = FALSE
    /\ waiting' = IF Dropped = "answers" THEN waiting ELSE {}

(* A new member of the consumer protocol: an epoch with its target begins.  *)
Upgrade(m, newTarget) ==
    /\ m \notin Known /\ MayUpgrade /\ MayEnter /\ epoch < MaxEpoch
    /\ \A p \in Partitions : newTarget[p] \in Known \cup {m}
    /\ LET new == [NoMember EXCEPT !.protocol = "consumer"]
       IN  member' = [AsConsumers EXCEPT ![m] = Reconciled(AsConsumers, m, new, {}, newTarget, NewEpoch)]
    /\ Upgraded /\ epoch' = NewEpoch /\ targetEpoch' = NewEpoch /\ target' = newTarget
    /\ told' = [told EXCEPT ![m] = member'[m].assigned] /\ UNCHANGED <<life, owned>>

(* The next process of a static member uses the consumer protocol. Where    *)
(* each partition has its owner nothing but the protocol changes.           *)
UpgradeBy(m, newTarget) ==
    /\ m <= Static /\ m \in Known /\ life[m] < MaxLife /\ MayUpgrade /\ MayEnter /\ epoch < MaxEpoch
    /\ IF Unsettled THEN \A p \in Partitions : newTarget[p] \in Known ELSE newTarget = AsTarget
    /\ epoch' = (IF Unsettled THEN epoch + 1 ELSE epoch) /\ targetEpoch' = epoch' /\ target' = newTarget
    /\ LET new == [AsConsumers[m] EXCEPT !.protocol = "consumer", !.epoch = 0, !.said = {}]
       IN  member' = [AsConsumers EXCEPT ![m] = Reconciled(AsConsumers, m, new, {}, newTarget, epoch')]
    /\ Upgraded /\ life' = [life EXCEPT ![m] = @ + 1]
    /\ told' = [told EXCEPT ![m] = member'[m].assigned] /\ owned' = [owned EXCEPT ![m] = {}]

-----------------------------------------------------------------------------
(* A consumer group, of members of both protocols *)

(* A new member, of either protocol: an epoch begins, and its target later. *)
Enter(m, protocol) ==
    /\ kind = "consumer" /\ m \notin Known /\ MayEnter /\ epoch < MaxEpoch
    /\ epoch' = epoch + 1
    /\ LET new == [NoMember EXCEPT !.protocol = protocol]
       IN  member' = Set(m, Reconciled(member, m, new, {}, target, targetEpoch))
    /\ told' = [told EXCEPT ![m] = member'[m].assigned]
    /\ UNCHANGED <<kind, phase, targetEpoch, target, leader, fresh, life, waiting, owned>>

ComputeTarget(newTarget) ==
    /\ kind = "consumer" /\ targetEpoch < epoch /\ \A p \in Partitions : newTarget[p] \in Known
    /\ targetEpoch' = epoch /\ target' = newTarget
    /\ UNCHANGED <<kind, phase, epoch, leader, fresh, member, life, waiting, told, owned>>

(* A heartbeat, or the JoinGroup of a classic member, which tells what it   *)
(* owns once it has done what it was told.                                  *)
Beat(m) ==
    /\ kind = "consumer" /\ m \in Known \ waiting
    /\ member[m].protocol = "classic" => owned[m] = told[m]
    /\ LET x == IF member[m].protocol = "classic" THEN [member[m] EXCEPT !.said = owned[m]] ELSE member[m]
       IN  member' = Set(m, Reconciled(member, m, x, owned[m], target, targetEpoch))
    /\ told' = [told EXCEPT ![m] = member'[m].assigned]
    /\ UNCHANGED <<kind, phase, epoch, targetEpoch, target, leader, fresh, life, waiting, owned>>

(* The next process of a static member uses the other protocol.             *)
Last(m) == member[m].protocol = "consumer" /\ \A n \in Known \ {m} : member[n].protocol = "classic"
MayDowngrade(ms) ==
    /\ Downgrades \/ Dropped = "policy"
    /\ Cardinality(ms) <= ClassicMax \/ Dropped = "size"
MaySucceed(m) == Last(m) /\ MayDowngrade(Known)

TakeOver(m) ==
    /\ kind = "consumer" /\ m <= Static /\ m \in Known \ waiting /\ life[m] < MaxLife
    /\ ~MaySucceed(m) /\ MayEnter
    /\ LET other == IF member[m].protocol = "classic" THEN "consumer" ELSE "classic"
           new == [member[m] EXCEPT !.protocol = other, !.epoch = 0, !.said = {}]
       IN  member' = Set(m, Reconciled(member, m, new, {}, target, targetEpoch))
    /\ life' = [life EXCEPT ![m] = @ + 1]
    /\ told' = [told EXCEPT ![m] = member'[m].assigned] /\ owned' = [owned EXCEPT ![m] = {}]
    /\ UNCHANGED <<kind, phase, epoch, targetEpoch, target, leader, fresh, waiting>>

-----------------------------------------------------------------------------
(* To the classic protocol *)

AsClassic(m) ==
    IF m \notin Known THEN NoMember
    ELSE Classic(IF DowngradeTo = "target" THEN TargetOf(target, m) ELSE Holds(m), member[m].said)
OnlyClassic(ms) == Dropped = "last" \/ \A n \in ms : member[n].protocol = "classic"

(* A member leaves, of either protocol: those that stay are a classic group *)
(* if they can be one.                                                      *)
LeaveConsumer(m) ==
    /\ kind = "consumer" /\ m \in Known \ waiting /\ epoch < MaxEpoch
    /\ Forgets(m) /\ UNCHANGED life
    /\ IF Known = {m} THEN NoGroup /\ member' = Gone(m)
       ELSE IF OnlyClassic(Known \ {m}) /\ MayDowngrade(Known \ {m}) /\ Dropped # "downgrade"
       THEN /\ kind' = "classic" /\ phase' = "joining" /\ epoch' = epoch /\ leader' = Min(Known \ {m})
            /\ fresh' = TRUE /\ waiting' = {} /\ targetEpoch' = 0 /\ target' = NoTarget
            /\ member' = [n \in Members |-> IF n = m THEN NoMember ELSE AsClassic(n)]
       ELSE /\ epoch' = epoch + 1 /\ member' = Gone(m)
            /\ target' = [p \in Partitions |-> IF target[p] = m THEN Nobody ELSE target[p]]
            /\ UNCHANGED <<kind, phase, targetEpoch, leader, fresh, waiting>>

(* A classic process takes over the instance id of the last member of the   *)
(* consumer protocol. If all have what they shall have nobody joins again.  *)
Settled ==
    /\ targetEpoch = epoch
    /\ DowngradeTo = "target" \/ \A n \in Known : member[n].state = "stable" /\ member[n].epoch = epoch

Succeed(m) ==
    /\ kind = "consumer" /\ m <= Static /\ m \in Known \ waiting /\ life[m] < MaxLife
    /\ MaySucceed(m) /\ epoch < MaxEpoch
    /\ life' = [life EXCEPT ![m] = @ + 1] /\ owned' = [owned EXCEPT ![m] = {}]
    /\ kind' = "classic" /\ targetEpoch' = 0 /\ target' = NoTarget /\ fresh' = FALSE
    /\ member' = [n \in Members |-> IF n = m THEN [AsClassic(m) EXCEPT !.said = {}] ELSE AsClassic(n)]
    /\ IF Settled
       THEN /\ phase' = "stable" /\ epoch' = epoch /\ leader' = Min(Known) /\ waiting' = {}
            /\ told' = [told EXCEPT ![m] = member'[m].assigned]
       ELSE Joined(Known, {m}, Min(Known), epoch) /\ told' = [told EXCEPT ![m] = {}]

(* Another coordinator loads the group, as it was written when it became    *)
(* classic: without a leader, so that all are asked to join again.          *)
Failover ==
    /\ fresh
    /\ phase' = IF RejoinAll THEN "joining" ELSE "stable"
    /\ leader' = IF RejoinAll THEN Nobody ELSE leader
    /\ UNCHANGED <<kind, epoch, targetEpoch, target, fresh, member, life, waiting>> /\ Stays

-----------------------------------------------------------------------------
(* A client that does what it was told: it gives up, and takes.             *)
Obey(m) ==
    /\ m \notin waiting /\ owned[m] # told[m]
    /\ owned' = [owned EXCEPT ![m] = told[m]]
    /\ UNCHANGED <<group, life, waiting, told>>

Next ==
    \/ \E m \in Members : JoinClassic(m)
    \/ \E m \in Members : Rejoin(m)
    \/ \E m \in Members : TurnAway(m)
    \/ \E newTarget \in [Partitions -> 0..M] : Complete(newTarget)
    \/ \E m \in Members : LeaveClassic(m)
    \/ \E m \in Members, newTarget \in [Partitions -> 0..M] : Upgrade(m, newTarget)
    \/ \E m \in Members, newTarget \in [Partitions -> 0..M] : UpgradeBy(m, newTarget)
    \/ \E m \in Members, protocol \in {"classic", "consumer"} : Enter(m, protocol)
    \/ \E newTarget \in [Partitions -> 0..M] : ComputeTarget(newTarget)
    \/ \E m \in Members : Beat(m)
    \/ \E m \in Members : TakeOver(m)
    \/ \E m \in Members : LeaveConsumer(m)
    \/ \E m \in Members : Succeed(m)
    \/ Failover
    \/ \E m \in Members : Obey(m)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* No two members own one partition.                                        *)
OneOwner == \A m, n \in Members : m # n => owned[m] \cap owned[n] = {}

(* The coordinator of a consumer group knows what a member may own, and     *)
(* gives it to nobody else.                                                 *)
KnownOwner == kind = "consumer" => \A m \in Known : owned[m] \subseteq Holds(m)
OneHolder == kind = "consumer" => \A m, n \in Members : m # n => Holds(m) \cap Holds(n) = {}

(* No group is larger than its kind may be; while members of a classic      *)
(* group join, only those that have joined count.                           *)
WithinSize ==
    /\ kind = "consumer" => Size <= ConsumerMax
    /\ kind = "classic" => (IF phase = "joining" THEN Cardinality(waiting) ELSE Size) <= ClassicMax

(* Who waits for a join waits for others, and who waits for a sync for the  *)
(* leader. In a consumer group nobody waits: all are told to join again.    *)
Answered ==
    /\ kind = "consumer" \/ phase = "stable" => waiting = {}
    /\ phase = "joining" => waiting \subseteq Known /\ waiting # Known
    /\ phase = "assigning" => leader \in Known /\ waiting = Known \ {leader}

(* A classic group has a phase and a leader, and a consumer group a target; *)
(* neither has what is the other's, and a group that nobody is in has       *)
(* nothing.                                                                 *)
NothingIsKept ==
    /\ kind # "classic" => phase = "stable" /\ leader = Nobody
    /\ kind # "consumer" => targetEpoch = 0 /\ target = NoTarget
    /\ kind = "none" => epoch = 0

(* A target is of the group's epoch or an earlier one, no member is beyond  *)
(* it, and only members are in it.                                          *)
TargetOfMembers ==
    kind = "consumer" =>
        /\ targetEpoch <= epoch
        /\ \A m \in Known : member[m].epoch <= targetEpoch
        /\ \A p \in Partitions : target[p] \in Known \cup {Nobody}

(* A client was told what it is given, where all are in the generation, and *)
(* in a consumer group once it has the epoch of the target.                 *)
KnowsAssignment ==
    phase = "stable" => \A m \in Members : member[m].epoch = targetEpoch => told[m] = member[m].assigned

(* Members that could be a classic group are one.                           *)
NotLeftAlone ==
    kind = "consumer" => \/ \E m \in Known : member[m].protocol = "consumer"
                         \/ ~Downgrades \/ Size > ClassicMax

(* Where nobody is asked to join, each partition is somebody's, or its      *)
(* owner is about to join.                                                  *)
Owned ==
    (kind = "classic" /\ phase = "stable") =>
        \A p \in Partitions : \E m \in Known : p \in member[m].assigned \cup member[m].said

(* A group goes over only where the policy lets it.                         *)
ByPolicy ==
    [][/\ (kind = "classic" /\ kind' = "consumer") => Upgrades
       /\ (kind = "consumer" /\ kind' = "classic") => Downgrades]_kind

(* Only classic members go over to a classic group, and whose next process  *)
(* is one.                                                                  *)
OnlyClassicStay ==
    [][(kind = "consumer" /\ kind' = "classic") =>
        \A m \in Known : \/ member'[m].protocol = "none" \/ member[m].protocol = "classic"
                         \/ life'[m] > life[m]]_kind

(* Whoever is a member stays one, but for the one that comes or goes.       *)
MembersStay ==
    [][(kind # "none" /\ kind' # "none") =>
        Cardinality({m \in Known : member'[m].protocol = "none"}) <= 1]_kind

(* Generations and epochs are one sequence.                                 *)
EpochNeverFalls == [][(kind # "none" /\ kind' # "none") => epoch' >= epoch]_vars

(* A member leads a classic group. Only where a downgraded group was loaded *)
(* nobody does, until all have joined.                                      *)
Led ==
    [][kind' = "classic" =>
        IF leader' = Nobody THEN kind = "classic" /\ phase' = "joining" /\ (fresh \/ leader = Nobody)
        ELSE leader' \in Known']_group

(* Another coordinator loads a downgraded group as it was written: nobody   *)
(* has joined or left since.                                                *)
LoadsAsWritten == [][fresh' => phase' = "joining" /\ waiting' = {} /\ (fresh => member' = member)]_group

(* A process has one protocol, and only an instance id has a next process.  *)
OneProtocol ==
    [][\A m \in Members :
        /\ life'[m] # life[m] => m <= Static
        /\ m \in Known \cap Known' =>
            (life'[m] = life[m]) = (member'[m].protocol = member[m].protocol)]_<<member, life>>

(* Each member that comes to a consumer group or leaves it begins an epoch, *)
(* and nothing else does.                                                   *)
EpochsCountMembers ==
    [][(kind = "consumer" /\ kind' = "consumer") =>
        epoch' = epoch + Cardinality({m \in Members : (m \in Known) # (m \in Known')})]_group

(* An epoch has one target.                                                 *)
OneTargetPerEpoch ==
    [][(kind = "consumer" /\ kind' = "consumer" /\ \E p \in Partitions : target'[p] \notin {target[p], Nobody}) =>
        targetEpoch' > targetEpoch]_group

(* Availability. Who is new is let in, unless the group is full or may not  *)
(* go over; a classic group that is being joined is full with those that    *)
(* have joined.                                                             *)
NewcomersAreAnswered ==
    epoch < MaxEpoch => \A m \in Members \ Known :
        /\ kind # "consumer" =>
            (ENABLED JoinClassic(m)) = ((IF phase = "joining" THEN Cardinality(waiting) ELSE Size) < ClassicMax)
        /\ kind = "classic" =>
            (ENABLED (\E newTarget \in [Partitions -> 0..M] : Upgrade(m, newTarget))) = (Upgrades /\ Size < ConsumerMax)
        /\ kind = "consumer" => \A protocol \in {"classic", "consumer"} :
            (ENABLED Enter(m, protocol)) = (Size < ConsumerMax)

(* The next process of a static member, with the other protocol, is let in  *)
(* unless the group is full or may not go over, as if it were a new member. *)
(* The last one of the consumer protocol makes the group classic.           *)
SuccessorsAreAnswered ==
    epoch < MaxEpoch => \A m \in (1..Static) \cap Known : life[m] < MaxLife =>
        /\ kind = "classic" =>
            (ENABLED (\E newTarget \in [Partitions -> 0..M] : UpgradeBy(m, newTarget))) = (Upgrades /\ Size < ConsumerMax)
        /\ kind = "consumer" =>
            LET last == {n \in Known : member[n].protocol = "consumer"} = {m}
            IN  IF last /\ Downgrades /\ Size <= ClassicMax
                THEN ENABLED Succeed(m) /\ ~ENABLED TakeOver(m)
                ELSE ~ENABLED Succeed(m) /\ (ENABLED TakeOver(m)) = (Size < ConsumerMax)

(* Members may leave, and send heartbeats. Who joins again while all are    *)
(* asked to is let in or turned away; otherwise a client joins again if it  *)
(* has something new to say, and only then. Leaders may assign, and targets *)
(* be computed.                                                             *)
MembersAreAnswered ==
    /\ phase = "assigning" => ENABLED (\E newTarget \in [Partitions -> 0..M] : Complete(newTarget))
    /\ kind = "consumer" /\ targetEpoch < epoch =>
        ENABLED (\E newTarget \in [Partitions -> 0..M] : ComputeTarget(newTarget))
    /\ \A m \in Known \ waiting :
        /\ kind = "classic" /\ epoch < MaxEpoch =>
            /\ ENABLED LeaveClassic(m)
            /\ owned[m] = told[m] =>
                IF phase = "joining" THEN (ENABLED Rejoin(m)) # (ENABLED TurnAway(m))
                ELSE (ENABLED Rejoin(m)) = (owned[m] # member[m].said)
        /\ kind = "consumer" =>
            /\ epoch < MaxEpoch => ENABLED LeaveConsumer(m)
            /\ member[m].protocol = "consumer" \/ owned[m] = told[m] => ENABLED Beat(m)

(* Only members are answered as such, and those that wait for no answer. A  *)
(* classic client joins once it has done what it was told.                  *)
OnlyMembersAsk ==
    \A m \in Members :
        /\ m \notin Known \ waiting =>
            ~ENABLED (Rejoin(m) \/ TurnAway(m) \/ LeaveClassic(m) \/ Beat(m) \/ TakeOver(m) \/ LeaveConsumer(m))
        /\ m \notin Known => ~ENABLED (\E newTarget \in [Partitions -> 0..M] : UpgradeBy(m, newTarget))
        /\ owned[m] # told[m] /\ member[m].protocol = "classic" => ~ENABLED (Rejoin(m) \/ TurnAway(m) \/ Beat(m))

-----------------------------------------------------------------------------
(* Probes *)
NeverDowngraded == ~fresh
NeverUpgradedWhileClaimed == ~(kind = "consumer" /\ \E m \in Known : member[m].protocol = "classic" /\ member[m].said \cap member[m].pending # {})
NeverTurnedAway == [][~\E m \in Members : TurnAway(m)]_vars
NeverSucceeded == ~(kind = "classic" /\ phase = "stable" /\ \E m \in Members : life[m] > 2)
NeverFull == ~(kind = "consumer" /\ Size = ConsumerMax)
=============================================================================
