--------------------------- MODULE ClassicDelivery ---------------------------
(* What a record may suffer in a group of the classic protocol: to be       *)
(* processed twice, or never. ClassicGroup says who owns a partition, this  *)
(* module what its members read, process and commit while they do: the      *)
(* disciplines of ConsumerCommit under a whole group protocol.              *)
(*                                                                          *)
(* There is one partition. Offsets count records, as in ConsumerCommit.     *)
EXTENDS ClassicGroup

CONSTANTS
    (* @type: Int; *)  LogEnd,       \* records in the partition
    (* @type: Int; *)  MaxProcessed, \* bound: how often a record is processed
    (* @type: Str; *)  CommitWhen,   \* "after" processing, "before" it, or what was "polled", as in ConsumerCommit
    (* @type: Bool; *) Revoking,     \* who gives the partition up of its own accord commits first what it may
    (* @type: Bool; *) Faults        \* members die, or fall silent; otherwise all come and go in good order, and
                  \* have processed what they were handed out, but for who commits what was polled

ASSUME CommitWhen \in {"after", "before", "polled"} /\ P = 1

VARIABLES
    (* @type: Int -> Int; *) position,   \* per client: offset up to which it was handed records out
    (* @type: Int -> Int; *) done,       \* per client: offset up to which it has processed
    (* @type: Int -> Int; *) allowed,    \* per client: offset up to which its commits are answered
    (* @type: Int; *)        committed,  \* the group's committed offset
    (* @type: $sent; *)      sent,       \* a commit under way: of which member, generation and offset
    (* @type: Int -> Int; *) processed   \* ghost: how often each record was processed

\* @typeAlias: sent = {member: Int, generation: Int, offset: Int};
delivery == <<position, done, allowed, committed, sent, processed>>
all == <<vars, delivery>>

NotSent == [member |-> Nobody, generation |-> 0, offset |-> 0]
Records == 1..LogEnd
Reads(m) == 1 \in owned[m]
Offset(m) == IF CommitWhen = "after" THEN done[m] ELSE position[m]

DeliveryInit ==
    /\ Init
    /\ position = [m \in Members |-> 0] /\ done = [m \in Members |-> 0]
    /\ allowed = [m \in Members |-> 0]
    /\ committed = 0 /\ sent = NotSent
    /\ processed = [o \in Records |-> 0]

-----------------------------------------------------------------------------
\* @type: $sent => Bool;
Taken(c) ==
    /\ Rule("member") => c.member \in In(phase)
    /\ Rule("generation") => c.generation = generation
    /\ Rule("completing") => state # "CompletingRebalance"

(* A step of the group. Whoever is given the partition starts where the     *)
(* committed offset says. Whoever gives it up of its own accord, and not    *)
(* because it was told that it had lost it, may commit first: an eager      *)
(* member before it joins, a cooperative one when it hears its assignment.  *)
(* What it sent before does not arrive later: a connection is in order.     *)
GivesUp(m) == Reads(m) /\ 1 \notin owned'[m]
CommitsFirst(m) ==
    /\ Revoking /\ GivesUp(m)
    /\ m \in In(phase) /\ believes[m] = generation
    /\ Rule("completing") => state # "CompletingRebalance" \/ state' = "Stable"
    /\ Offset(m) > 0

Follow(willing) ==
    LET first == {m \in willing : CommitsFirst(m)}
        from == IF first = {} THEN committed ELSE Offset(Least(first))
        \* @type: (Int -> Int) => Int -> Int;
        start(old) == [m \in Members |-> IF 1 \in owned'[m] /\ ~Reads(m) THEN from
                                         ELSE IF 1 \in owned'[m] THEN old[m] ELSE 0]
    IN  /\ ~Faults => \A m \in Members : GivesUp(m) => done[m] = position[m] \/ CommitWhen = "polled"
        /\ committed' = from
        /\ position' = start(position) /\ done' = start(done) /\ allowed' = start(allowed)
        /\ sent' = IF sent.member \in first THEN NotSent ELSE sent
        /\ UNCHANGED processed

Group ==
    \/ \E m \in Members : (AskId(m) \/ JoinPending(m) \/ JoinStatic(m)) /\ Follow({})
    \/ \E m \in Members : Faults /\ ReplaceStatic(m) /\ Follow({})
    \/ \E m \in Members : state = "PreparingRebalance" /\ Join(m, FALSE) /\ Follow(Members)
    \/ \E m \in Members, to \in [Partitions -> 0..M] : SyncLeader(m, to) /\ Follow(Members)
    \/ \E m \in Members : Sync(m) /\ Follow(Members)
    \/ \E m \in Members : Leave(m) /\ Follow({m})
    \/ \E m \in Members : Faults /\ Expire(m) /\ Follow({})
    \/ (Faults \/ initial) /\ JoinTimer /\ Follow({})
    \/ Faults /\ SyncTimer /\ Follow({})
    \/ \E m \in Members : Lose(m) /\ Follow({})

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
    /\ sent = NotSent /\ Reads(m) /\ Offset(m) > allowed[m]
    /\ sent' = [member |-> m, generation |-> believes[m], offset |-> Offset(m)]
    /\ UNCHANGED <<vars, position, done, allowed, committed, processed>>

Receive ==
    /\ sent # NotSent /\ Taken(sent)
    /\ committed' = sent.offset /\ sent' = NotSent
    /\ allowed' = IF Reads(sent.member) /\ believes[sent.member] = sent.generation
                  THEN [allowed EXCEPT ![sent.member] = sent.offset] ELSE allowed
    /\ UNCHANGED <<vars, position, done, processed>>

Refused ==
    /\ sent # NotSent /\ ~Taken(sent)
    /\ sent' = NotSent
    /\ UNCHANGED <<vars, position, done, allowed, committed, processed>>

DeliveryNext ==
    \/ Group
    \/ \E m \in Members : Poll(m) \/ Process(m) \/ Send(m)
    \/ Receive \/ Refused

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

(* Whoever owns it in the group's generation knows up to where the group is.*)
OwnersKnow == \A m \in Members : Owns(m, 1) => allowed[m] = committed

(* A commit that would be taken is its owner's, and news.                   *)
OwnersCommit == sent # NotSent /\ Taken(sent) => Owns(sent.member, 1) /\ sent.offset > committed

(* Its commit is taken, but for while the assignment is awaited.            *)
OwnersMayCommit ==
    (sent # NotSent /\ Owns(sent.member, 1) /\ sent.generation = generation
        /\ state # "CompletingRebalance") => Taken(sent)

(* A commit is refused, or the group passes what it says.                   *)
CommitsCount == [][sent # NotSent /\ sent' # sent => ~Taken(sent) \/ committed' >= sent.offset]_sent

(* Whoever owns the partition may read on, process what it was handed out   *)
(* as soon as its discipline lets it, and commit; and hears of that.        *)
Available ==
    /\ sent # NotSent => ENABLED ((Receive \/ Refused) /\ sent' = NotSent)
    /\ \A m \in Members : Reads(m) =>
        /\ position[m] = done[m] /\ position[m] < LogEnd => ENABLED Poll(m)
        /\ done[m] < position[m] /\ (CommitWhen # "before" \/ allowed[m] = position[m])
            /\ processed[position[m]] < MaxProcessed => ENABLED Process(m)
        /\ sent = NotSent /\ Offset(m) > allowed[m] => ENABLED (Send(m) /\ sent' # NotSent)
=============================================================================
