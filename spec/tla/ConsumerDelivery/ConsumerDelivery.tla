-------------------------- MODULE ConsumerDelivery --------------------------
(* What a record may suffer in a group of the consumer protocol (KIP-848):  *)
(* to be processed twice, or never. ConsumerGroup says who owns a           *)
(* partition, this module what its members read, process and commit while   *)
(* they do: the disciplines of ConsumerCommit under a whole group protocol, *)
(* as ClassicDelivery has them under the classic one.                       *)
(*                                                                          *)
(* There is one partition. Offsets count records, as in ConsumerCommit.     *)
EXTENDS ConsumerGroup

CONSTANTS
    (* @type: Int; *)  LogEnd,       \* records in the partition
    (* @type: Int; *)  MaxProcessed, \* bound: how often a record is processed
    (* @type: Str; *)  CommitWhen,   \* "after" processing, "before" it, or what was "polled", as in ConsumerCommit
    (* @type: Bool; *) Revoking,     \* who gives the partition up of its own accord commits first what it may
    (* @type: Bool; *) Faults        \* members die or fall silent, and answers are lost; otherwise all come and go in
                  \* good order, and have processed what they were handed out, but for who commits
                  \* what was polled

ASSUME CommitWhen \in {"after", "before", "polled"} /\ P = 1 /\ ~Commits /\ Static = 0

VARIABLES
    (* @type: Int -> Int; *)           position,   \* per client: offset up to which it was handed records out
    (* @type: Int -> Int; *)           done,       \* per client: offset up to which it has processed
    (* @type: Int -> Int; *)           allowed,    \* per client: offset up to which its commits are answered
    (* @type: Int; *)                  committed,  \* the group's committed offset
    (* @type: Int -> {member: Int, life: Int, partition: Int, epoch: Int, offset: Int}; *) sent,       \* per client: a commit under way, in which epoch and up to which offset
    (* @type: Int -> Int; *)           processed   \* ghost: how often each record was processed

delivery == <<position, done, allowed, committed, sent, processed>>
all == <<vars, delivery>>

NotSent == [member |-> Nobody, life |-> 0, partition |-> 0, epoch |-> 0, offset |-> 0]
Records == 1..LogEnd
Reads(m) == 1 \in owned[m]
Offset(m) == IF CommitWhen = "after" THEN done[m] ELSE position[m]
CommitOf(m) ==
    [member |-> m, life |-> life[m], partition |-> 1, epoch |-> heard[m], offset |-> Offset(m)]

DeliveryInit ==
    /\ Init
    /\ position = [m \in Members |-> 0] /\ done = [m \in Members |-> 0]
    /\ allowed = [m \in Members |-> 0]
    /\ committed = 0 /\ sent = [m \in Members |-> NotSent]
    /\ processed = [o \in Records |-> 0]

-----------------------------------------------------------------------------
Taken(c) == OfMember(c) /\ Accepted(c)

(* A heartbeat with epoch -1: as if fenced, but the client knows.           *)
Leave(m) ==
    /\ heard[m] > 0 /\ Known(m) /\ groupEpoch < MaxEpoch
    /\ groupEpoch' = groupEpoch + 1
    /\ member' = [member EXCEPT ![m] = Unknown]
    /\ target' = [p \in Partitions |-> IF target[p] = m THEN Nobody ELSE target[p]]
    /\ GivesUp(m) /\ UNCHANGED <<targetEpoch, life, abandoned, commit>>

(* A step of the group. Whoever takes the partition starts where the        *)
(* committed offset says. Whoever gives it up of its own accord, because it *)
(* was told to or because it leaves, may commit first. What it sent before  *)
(* does not arrive later: a connection is in order. Who was fenced hears of *)
(* it too late for a commit.                                                *)
LosesIt(m) == Reads(m) /\ 1 \notin owned'[m]
CommitsFirst(m) == Revoking /\ LosesIt(m) /\ Offset(m) > 0 /\ Taken(CommitOf(m))

Follow(willing) ==
    LET first == {m \in willing : CommitsFirst(m)}
        from == IF first = {} THEN committed ELSE Offset(CHOOSE m \in first : TRUE)
        \* @type: (Int -> Int) => Int -> Int;
        start(old) == [m \in Members |-> IF 1 \in owned'[m] /\ ~Reads(m) THEN from
                                         ELSE IF 1 \in owned'[m] THEN old[m] ELSE 0]
    IN  /\ ~Faults => \A m \in Members : LosesIt(m) => done[m] = position[m] \/ CommitWhen = "polled"
        /\ committed' = from
        /\ position' = start(position) /\ done' = start(done) /\ allowed' = start(allowed)
        /\ sent' = [m \in Members |-> IF m \in first THEN NotSent ELSE sent[m]]
        /\ UNCHANGED processed

Group ==
    \/ \E m \in Members, newTarget \in [Partitions -> 0..M] : Join(m, newTarget) /\ Follow({})
    \/ \E newTarget \in [Partitions -> Members] : ComputeTarget(newTarget) /\ Follow({})
    \/ \E m \in Members, lost \in {FALSE, Faults} : Heartbeat(m, lost) /\ Follow({})
    \/ \E m \in Members, lost \in {FALSE, Faults} : Rejoin(m, lost) /\ Follow({})
    \/ \E m \in Members : Faults /\ Fence(m) /\ Follow({})
    \/ \E m \in Members : Refused(m) /\ Follow({})
    \/ \E m \in Members : Leave(m) /\ Follow({m})
    \/ \E m \in Members : Revoke(m) /\ Follow({m})
    \/ \E m \in Members : Take(m) /\ Follow({})

-----------------------------------------------------------------------------
(* A member that owns the partition; a commit may be late.                  *)

Poll(m) ==
    /\ Reads(m) /\ position[m] = done[m] /\ position[m] < LogEnd
    /\ position' = [position EXCEPT ![m] = @ + 1]
    /\ UNCHANGED <<vars, done, allowed, committed, sent, processed>>

Process(m) ==
    /\ Reads(m) /\ done[m] < position[m]
    /\ CommitWhen = "before" => allowed[m] >= position[m]
    /\ processed[position[m]] < MaxProcessed
    /\ processed' = [processed EXCEPT ![position[m]] = @ + 1]
    /\ done' = [done EXCEPT ![m] = position[m]]
    /\ UNCHANGED <<vars, position, allowed, committed, sent>>

Send(m) ==
    /\ sent[m] = NotSent /\ Reads(m) /\ heard[m] > 0 /\ Offset(m) > allowed[m]
    /\ sent' = [sent EXCEPT ![m] = CommitOf(m)]
    /\ UNCHANGED <<vars, position, done, allowed, committed, processed>>

(* The answer reaches who still reads the partition. A commit in an older   *)
(* epoch is taken from who has had the partition since (KIP-1251).          *)
Receive(m) ==
    /\ sent[m] # NotSent /\ Taken(sent[m])
    /\ committed' = sent[m].offset /\ sent' = [sent EXCEPT ![m] = NotSent]
    /\ allowed' = IF Reads(m) /\ position[m] >= sent[m].offset
                  THEN [allowed EXCEPT ![m] = sent[m].offset] ELSE allowed
    /\ UNCHANGED <<vars, position, done, processed>>

Refuse(m) ==
    /\ sent[m] # NotSent /\ ~Taken(sent[m])
    /\ sent' = [sent EXCEPT ![m] = NotSent]
    /\ UNCHANGED <<vars, position, done, allowed, committed, processed>>

DeliveryNext ==
    \/ Group
    \/ \E m \in Members : Poll(m) \/ Process(m) \/ Send(m) \/ Receive(m) \/ Refuse(m)

DeliverySpec == DeliveryInit /\ [][DeliveryNext]_all

-----------------------------------------------------------------------------
(* Promises *)

(* What the group has passed was processed, or somebody is about to.        *)
AboutTo(m, o) == Reads(m) /\ done[m] < o /\ o <= position[m]
NothingLost ==
    \A o \in Records : o <= committed => processed[o] >= 1 \/ \E m \in Members : AboutTo(m, o)

NothingRepeated == \A o \in Records : processed[o] <= 1

(* Whoever does not own the partition has nothing of it in hand.            *)
OnlyOwnersRead ==
    \A m \in Members : ~Reads(m) => position[m] = 0 /\ done[m] = 0 /\ allowed[m] = 0

(* Whoever owns it, and is known, knows up to where the group is, but for a *)
(* commit that it sent before it was refused and came back.                 *)
OwnersKnow ==
    \A m \in Members : Reads(m) /\ Known(m) =>
        allowed[m] <= committed /\ (Faults \/ allowed[m] = committed)

(* A commit that would be taken is news, but for one as late as that.       *)
OnlyNewsCommit ==
    \A m \in Members : sent[m] # NotSent /\ Taken(sent[m]) => Faults \/ sent[m].offset > committed

(* A commit is refused, or the group passes what it says.                   *)
CommitsCount ==
    [][\A m \in Members :
        sent[m] # NotSent /\ sent'[m] # sent[m] => ~Taken(sent[m]) \/ committed' >= sent[m].offset]_sent

(* The group passes records for who holds the partition alone.              *)
OnlyHoldersPass ==
    [][committed' # committed =>
        \E m \in Members : 1 \in Holds(m) /\ (sent'[m] # sent[m] \/ LosesIt(m))]_committed

(* A target gives partitions to members alone.                              *)
TargetIsKnown == \A p \in Partitions : target[p] = Nobody \/ Known(target[p])

(* Whoever owns the partition may read on, process what it was handed out   *)
(* as soon as its discipline lets it, and commit; and hears of that.        *)
Available ==
    \A m \in Members :
        /\ sent[m] # NotSent => ENABLED ((Receive(m) \/ Refuse(m)) /\ sent'[m] = NotSent)
        /\ Reads(m) =>
            /\ position[m] = done[m] /\ position[m] < LogEnd => ENABLED Poll(m)
            /\ done[m] < position[m] /\ (CommitWhen # "before" \/ allowed[m] = position[m])
                /\ processed[position[m]] < MaxProcessed => ENABLED Process(m)
            /\ sent[m] = NotSent /\ heard[m] > 0 /\ Offset(m) > allowed[m] =>
                ENABLED (Send(m) /\ sent'[m] # NotSent)
        /\ Known(m) /\ heard[m] > 0 /\ groupEpoch < MaxEpoch /\ done[m] = position[m] =>
            ENABLED (Leave(m) /\ ~Known(m)')
=============================================================================
