------------------------------ MODULE Consumer ------------------------------
(* A client that reads one partition for a group (KIP-320, KIP-429): where  *)
(* it begins, whether its position is of the leader's log, what it returns, *)
(* and what it commits automatically, at a poll and before a revocation.    *)
(*                                                                          *)
(* Of the leader there is its log, and its epoch. An election may lose the  *)
(* end of the log, as an unclean one does. One request at a time is under   *)
(* way; the client may learn of another leader, or move, before the answer. *)
(* Who is given the partition after a revocation or a loss is a member like *)
(* this one, and so it is this one. Offsets begin at 0, and -1 is none.     *)
EXTENDS Logs, Integers

CONSTANTS
    (* @type: Int; *) MaxRecords,   \* bound: records that are written
    (* @type: Int; *) MaxElections, \* bound: leaders that follow the first one
    (* @type: Int; *) MaxDenied,    \* bound: requests that are not answered
    (* @type: Int; *) MaxRevokes,   \* bound: rebalances in good order
    (* @type: Int; *) MaxLosses,    \* bound: members that crash, or are thrown out
    (* @type: Int; *) MaxSeeks,     \* bound: times that the application begins again
    (* @type: Str; *) Reset,        \* auto.offset.reset: "earliest" or "latest"
    (* @type: Str; *) Dropped       \* the rule that is left out, "none" as it should be

ASSUME Reset \in {"earliest", "latest"}

(* Dropped: "validation", a position is never compared with another         *)
(* leader's log (KIP-320); "fencing", a fetch does not name the epoch of    *)
(* its leader, and an old position is only out of range; "buffer", records  *)
(* fetched under an older leader are returned (Kafka 4.3); "committed",     *)
(* offsets are committed without their epoch; "returned", what is committed *)
(* is what was fetched; "poll", commits do not wait for a poll; "hold",     *)
(* records are returned while the commit before a revocation is under way   *)
(* (KAFKA-14196); "denied", a validation without an answer counts as        *)
(* truncation.                                                              *)
ASSUME Dropped \in {"none", "validation", "fencing", "buffer", "committed", "returned", "poll", "hold", "denied"}

\* @typeAlias: record = {id: Int, epoch: Int};
\* @typeAlias: at = {offset: Int, epoch: Int};
\* @typeAlias: question = {kind: Str, offset: Int, epoch: Int, leader: Int};
\* @typeAlias: answer = {to: $question, error: Str, offset: Int, epoch: Int, records: Seq($record)};
None == -1
Nowhere == [offset |-> None, epoch |-> None]
NoQuestion == [kind |-> "none", offset |-> None, epoch |-> None, leader |-> None]
NoAnswer == [to |-> NoQuestion, error |-> "none", offset |-> None, epoch |-> None, records |-> <<>>]

VARIABLES
    (* @type: Seq($record); *) log,
    (* @type: Int; *)          leader,     \* its epoch
    (* @type: Int; *)          written,    \* records so far
    (* @type: Str; *)          state,      \* of the position: initializing, resetting, validating, fetching
    (* @type: $at; *)          position,   \* of the next record to return
    (* @type: Int; *)          known,      \* the leader epoch of the client's metadata
    (* @type: Seq($record); *) buffer,     \* fetched, and not returned
    (* @type: $question; *)    wire,       \* the request under way
    (* @type: $answer; *)      answer,     \* the answer on the way back
    (* @type: Bool; *)         revoking,   \* the partition is being given up
    (* @type: Seq($at); *)     commits,    \* on the way to the group
    (* @type: $at; *)          committed,  \* the group's offset
    (* @type: Set(Int); *)     handed,     \* ghost: returned by the last poll, and not processed yet
    (* @type: Set(Int); *)     processed,  \* ghost: by any member
    (* @type: Bool; *)         repeated,   \* ghost: a record was returned that was returned before
    (* @type: {elections: Int, denied: Int, revokes: Int, losses: Int, seeks: Int}; *) count

broker == <<log, leader, written>>
client == <<state, position, known, buffer, revoking>>
network == <<wire, answer>>
group == <<commits, committed>>
ghosts == <<handed, processed, repeated>>
vars == <<broker, client, network, group, ghosts, count>>

Init ==
    /\ log = <<>> /\ leader = 1 /\ written = 0
    /\ state = "initializing" /\ position = Nowhere /\ known = 1
    /\ buffer = <<>> /\ revoking = FALSE
    /\ wire = NoQuestion /\ answer = NoAnswer
    /\ commits = <<>> /\ committed = Nowhere
    /\ handed = {} /\ processed = {} /\ repeated = FALSE
    /\ count = [elections |-> 0, denied |-> 0, revokes |-> 0, losses |-> 0, seeks |-> 0]

-----------------------------------------------------------------------------
(* Words *)

\* @type: Seq($record) => Set(Int);
IdsOf(s) == {s[i].id : i \in 1..Len(s)}

(* The leader's log before an offset ends with a record of this epoch.      *)
\* @type: Int => $at;
Here(o) == [offset |-> o, epoch |-> IF o = 0 THEN None ELSE log[o].epoch]

(* The largest epoch of the log that is not above this one, and its end.    *)
\* @type: Int => $at;
EndOf(e) ==
    LET Old(r) == r.epoch <= e
        old == SelectSeq(log, Old)
    IN  IF old = <<>> THEN Nowhere ELSE [offset |-> Len(old), epoch |-> old[Len(old)].epoch]

(* Without an epoch, there is nothing to compare.                           *)
\* @type: ($at, Int) => Str;
Standing(at, epoch) == IF at.epoch # None /\ epoch # None /\ Dropped # "validation" THEN "validating" ELSE "fetching"

\* @type: $at => Bool;
StandAt(at) == position' = at /\ buffer' = <<>> /\ state' = Standing(at, known)

ToReset == state' = "resetting" /\ position' = Nowhere /\ buffer' = <<>>

Fetchable == state = "fetching" /\ (~revoking \/ Dropped = "hold")

(* What may be committed: the position behind what was returned.            *)
Consumed ==
    [offset |-> position.offset + IF Dropped = "returned" THEN Len(buffer) ELSE 0,
     epoch |-> IF Dropped = "committed" THEN None ELSE position.epoch]

-----------------------------------------------------------------------------
(* The leader *)

Write ==
    /\ written < MaxRecords
    /\ log' = Append(log, [id |-> written + 1, epoch |-> leader])
    /\ written' = written + 1
    /\ UNCHANGED <<leader, client, network, group, ghosts, count>>

(* Another leader, whose log is as long as the old one's, or shorter.       *)
Elect(n) ==
    /\ count.elections < MaxElections
    /\ n <= Len(log)
    /\ log' = Take(log, n)
    /\ leader' = leader + 1
    /\ count' = [count EXCEPT !.elections = @ + 1]
    /\ UNCHANGED <<written, client, network, group, ghosts>>

\* @type: (Str, $at, Seq($record)) => Bool;
Say(error, at, records) ==
    answer' = [to |-> wire, error |-> error, offset |-> at.offset, epoch |-> at.epoch, records |-> records]

(* A question that names an older leader is refused (KIP-320).              *)
Answer ==
    /\ wire # NoQuestion
    /\ wire' = NoQuestion
    /\ LET fenced == wire.leader # leader /\ ~(wire.kind = "fetching" /\ Dropped = "fencing")
       IN  IF fenced THEN Say("fenced", Nowhere, <<>>)
           ELSE IF wire.kind = "resetting"
           THEN Say("none", Here(IF Reset = "earliest" THEN 0 ELSE Len(log)), <<>>)
           ELSE IF wire.kind = "validating" THEN Say("none", EndOf(wire.epoch), <<>>)
           ELSE IF wire.offset > Len(log) THEN Say("range", Nowhere, <<>>)
           ELSE Say("none", Nowhere, SubSeq(log, wire.offset + 1, Len(log)))
    /\ UNCHANGED <<broker, client, group, ghosts, count>>

(* The connection breaks.                                                   *)
Deny ==
    /\ count.denied < MaxDenied
    /\ wire # NoQuestion
    /\ wire' = NoQuestion
    /\ Say("denied", Nowhere, <<>>)
    /\ count' = [count EXCEPT !.denied = @ + 1]
    /\ UNCHANGED <<broker, client, group, ghosts>>

-----------------------------------------------------------------------------
(* The position *)

(* A member begins at the group's offset, or as Reset says.                 *)
Begin ==
    /\ state = "initializing"
    /\ IF committed = Nowhere THEN ToReset ELSE StandAt(committed)
    /\ UNCHANGED <<known, revoking, broker, network, group, ghosts, count>>

(* Metadata names another leader: it has to validate the position, and what *)
(* was fetched before is fetched again.                                     *)
Learn ==
    /\ known # leader
    /\ known' = leader
    /\ buffer' = IF Dropped = "buffer" THEN buffer ELSE <<>>
    /\ state' = IF state \in {"validating", "fetching"} THEN Standing(position, leader) ELSE state
    /\ UNCHANGED <<position, revoking, broker, network, group, ghosts, count>>

(* Ask for what is missing: the position, its validation, or records.       *)
Ask ==
    /\ wire = NoQuestion /\ answer = NoAnswer
    /\ state # "initializing"
    /\ state = "fetching" => Fetchable /\ buffer = <<>>
    /\ wire' = [kind |-> state, offset |-> position.offset, epoch |-> position.epoch, leader |-> known]
    /\ UNCHANGED <<answer, broker, client, group, ghosts, count>>

(* The position is still the one that the question was about.               *)
Same ==
    /\ answer.to.offset = position.offset
    /\ answer.to.leader = known \/ Dropped = "buffer"

(* An answer comes; if the position has moved since, it says nothing.       *)
TakeAnswer ==
    /\ answer # NoAnswer
    /\ answer' = NoAnswer
    /\ LET at == [offset |-> answer.offset, epoch |-> answer.epoch]
       IN  CASE answer.error = "denied" /\ answer.to.kind = "validating" /\ state = "validating" /\ Dropped = "denied" -> ToReset
             [] answer.error = "none" /\ answer.to.kind = "resetting" /\ state = "resetting" -> StandAt(at)
             [] answer.error = "none" /\ answer.to.kind = "validating" /\ state = "validating" /\ Same
                /\ answer.to.epoch = position.epoch /\ answer.to.leader = known ->
                    IF at = Nowhere THEN ToReset
                    ELSE IF at.offset < position.offset
                    THEN state' = "fetching" /\ position' = at /\ buffer' = <<>>
                    ELSE state' = "fetching" /\ UNCHANGED <<position, buffer>>
             [] answer.error = "none" /\ answer.to.kind = "fetching" /\ state \in {"validating", "fetching"} /\ Same
                /\ answer.records # <<>> ->
                    buffer' = answer.records /\ UNCHANGED <<state, position>>
             [] answer.error = "range" /\ state = "fetching" /\ Same -> ToReset
             [] OTHER -> UNCHANGED <<state, position, buffer>>
    /\ UNCHANGED <<wire, known, revoking, broker, group, ghosts, count>>

(* The application begins again.                                            *)
Seek ==
    /\ count.seeks < MaxSeeks
    /\ StandAt([offset |-> 0, epoch |-> None])
    /\ count' = [count EXCEPT !.seeks = @ + 1]
    /\ UNCHANGED <<known, revoking, broker, network, group, ghosts>>

-----------------------------------------------------------------------------
(* The application polls: what it was handed before is processed by then *)

Poll ==
    /\ Fetchable
    /\ buffer # <<>>
    /\ processed' = processed \cup handed
    /\ handed' = IdsOf(buffer)
    /\ repeated' = (repeated \/ IdsOf(buffer) \cap (processed \cup handed) # {})
    /\ position' = [offset |-> position.offset + Len(buffer), epoch |-> buffer[Len(buffer)].epoch]
    /\ buffer' = <<>>
    /\ UNCHANGED <<state, known, revoking, broker, network, group, count>>

(* The poll begins with an automatic commit.                                *)
AutoCommit ==
    /\ state = "fetching"
    /\ ~revoking
    /\ commits = <<>>
    /\ committed # Consumed
    /\ commits' = <<Consumed>>
    /\ IF Dropped = "poll" THEN UNCHANGED <<handed, processed>>
       ELSE processed' = processed \cup handed /\ handed' = {}
    /\ UNCHANGED <<committed, repeated, broker, client, network, count>>

(* The group takes a commit.                                                *)
Arrive ==
    /\ commits # <<>>
    /\ committed' = Head(commits)
    /\ commits' = Tail(commits)
    /\ UNCHANGED <<broker, client, network, ghosts, count>>

(* A rebalance takes the partition away: the last commit is sent, unless    *)
(* the position is not one of the leader's log.                             *)
Revoke ==
    /\ count.revokes < MaxRevokes
    /\ ~revoking
    /\ state # "initializing"
    /\ revoking' = TRUE
    /\ processed' = processed \cup handed
    /\ handed' = {}
    /\ commits' = IF state = "fetching" THEN Append(commits, Consumed) ELSE commits
    /\ count' = [count EXCEPT !.revokes = @ + 1]
    /\ UNCHANGED <<state, position, known, buffer, committed, repeated, broker, network>>

Another ==
    /\ state' = "initializing" /\ position' = Nowhere /\ buffer' = <<>> /\ revoking' = FALSE
    /\ wire' = NoQuestion /\ answer' = NoAnswer
    /\ UNCHANGED known

(* Its commit is answered, and another member has the partition.            *)
GiveUp ==
    /\ revoking
    /\ commits = <<>>
    /\ Another
    /\ processed' = processed \cup handed
    /\ handed' = {}
    /\ UNCHANGED <<broker, group, repeated, count>>

(* The member crashes, or the group goes on without it: what it was handed  *)
(* is not processed, and its commits are refused.                           *)
Lose ==
    /\ count.losses < MaxLosses
    /\ state # "initializing"
    /\ Another
    /\ handed' = {}
    /\ commits' = <<>>
    /\ count' = [count EXCEPT !.losses = @ + 1]
    /\ UNCHANGED <<broker, committed, processed, repeated>>

Next ==
    \/ Write
    \/ \E n \in 0..MaxRecords : Elect(n)
    \/ Answer
    \/ Deny
    \/ Begin
    \/ Learn
    \/ Ask
    \/ TakeAnswer
    \/ Seek
    \/ Poll
    \/ AutoCommit
    \/ Arrive
    \/ Revoke
    \/ GiveUp
    \/ Lose

Spec == Init /\ [][Next]_vars

(* Questions are asked and answered, and the application polls.             *)
Fair == Spec /\ WF_vars(Answer) /\ WF_vars(Begin) /\ WF_vars(Learn) /\ WF_vars(Ask) /\ WF_vars(TakeAnswer)
        /\ WF_vars(Poll) /\ WF_vars(Arrive) /\ WF_vars(GiveUp)

-----------------------------------------------------------------------------
(* Promises *)

(* Below a position that the leader has not to validate, each record of its *)
(* log was returned, and below the group's offset so processed that nobody  *)
(* misses it: a member that begins there skips nothing.                     *)
NothingSkipped ==
    state = "fetching" /\ known = leader =>
        \A i \in 1..Len(log) : i <= position.offset => log[i].id \in processed \cup handed

(* Rebalances in good order, and elections, repeat nothing. *)
NothingRepeated == ~repeated

(* A position that the leader has not to validate is in its log. *)
InRange == state = "fetching" /\ known = leader => position.offset <= Len(log)

(* Liveness, under Fair: whatever stays in the log is returned. *)
AllReturned == <>[](IdsOf(log) \subseteq processed \cup handed)

-----------------------------------------------------------------------------
(* Probes *)
NeverTruncated == ~(answer.to.kind = "validating" /\ answer.error = "none" /\ answer.offset < answer.to.offset)
NeverFenced == answer.error # "fenced"
NeverStale == ~(answer.to.kind = "fetching" /\ answer.records # <<>> /\ answer.to.leader # known)
NeverHeld == ~(revoking /\ buffer # <<>> /\ commits # <<>>)
NeverResumed == ~(state = "fetching" /\ position.offset > 0 /\ processed = {} /\ handed = {} /\ count.losses > 0)
=============================================================================
