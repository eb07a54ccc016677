------------------------ MODULE TransactionalOffsets -------------------------
(* Consume, process, produce (KIP-447): the offsets of a group that are     *)
(* committed with a transaction. Each member has a transactional id of its  *)
(* own, so no producer epoch fences a member that has lost its partition:   *)
(* only the generation does.                                                *)
(*                                                                          *)
(* A member reads from the committed offset, writes what it makes of one    *)
(* record, and adds the next offset to the transaction. That is pending     *)
(* until the marker arrives. What the transaction wrote elsewhere becomes   *)
(* visible with its decision: other partitions may have their markers first.*)
(* TransactionCoordinator has the decision, ProducerState the markers.      *)
EXTENDS Naturals

CONSTANTS
    (* @type: Int; *)  Members,          \* bound: members 1..Members
    (* @type: Int; *)  Records,          \* bound: records 1..Records of the input
    (* @type: Int; *)  MaxGeneration,    \* bound: generations, or member epochs (KIP-848)
    (* @type: Int; *)  MaxTopic,         \* bound: topics that bear the name, one after the other
    (* @type: Bool; *) CheckGeneration,  \* TxnOffsetCommit of another generation is refused (KIP-447)
    (* @type: Bool; *) PolledGeneration, \* it names the generation of the poll. Kafka's KIP-848 consumer: FALSE
    (* @type: Bool; *) RequireStable,    \* no fetch while a transaction may change the offset (KAFKA-9346)
    (* @type: Bool; *) SameTopic,        \* it names the topic's id. Kafka 4.3: FALSE, no version has a field for it
    (* @type: Bool; *) TopicTakesPending, \* with a topic its pending offsets go
    (* @type: Bool; *) KeepPending,      \* a group with pending offsets is not cleaned up (KAFKA-19163)
    (* @type: Bool; *) WaitForLeader     \* a marker waits for a leader of the offsets. Kafka 4.3: FALSE (KAFKA-20734)

\* @typeAlias: offset = {position: Int, topic: Int};
\* @typeAlias: member = {phase: Str, generation: Int, polled: Int, position: Int, topic: Int};
Ids == 1..Members
Nobody == 0
None == [position |-> 0, topic |-> 0]
Out == [phase |-> "out", generation |-> 0, polled |-> 0, position |-> 0, topic |-> 0]

VARIABLES
    (* @type: Int; *)              generation,
    (* @type: Int; *)              owner,      \* the member that has the partition
    (* @type: Int; *)              topic,      \* which topic bears the name
    (* @type: $offset; *)          committed,
    (* @type: Int -> $offset; *)   pending,    \* per producer
    (* @type: Int -> $member; *)   member,
    (* @type: Int -> (Int -> Int); *) processed \* per topic and record: in how many committed transactions

\* @type: <<Int, Int>>;
group == <<generation, owner>>
offsets == <<committed, pending>>
vars == <<group, topic, offsets, member, processed>>

NothingPending == [i \in Ids |-> None]
Unpended(i) == pending' = [pending EXCEPT ![i] = None]

Init ==
    /\ generation = 1 /\ owner = Nobody /\ topic = 1
    /\ committed = None /\ pending = NothingPending
    /\ member = [i \in Ids |-> Out]
    /\ processed = [t \in 1..MaxTopic |-> [r \in 1..Records |-> 0]]

-----------------------------------------------------------------------------
(* The group *)

(* A rebalance gives the partition to i. Whoever had it does not hear of    *)
(* that. A member in a transaction is told of the generation behind its     *)
(* application's back.                                                      *)
Rebalance(i) ==
    /\ generation < MaxGeneration
    /\ generation' = generation + 1 /\ owner' = i
    /\ member' = [member EXCEPT ![i] =
                     IF @.phase \in {"out", "joined", "polled"}
                     THEN [Out EXCEPT !.phase = "joined", !.generation = generation + 1]
                     ELSE [@ EXCEPT !.generation = generation + 1]]
    /\ UNCHANGED <<topic, offsets, processed>>

(* All members leave, or their sessions end.                                *)
Leave ==
    /\ owner # Nobody
    /\ generation < MaxGeneration
    /\ owner' = Nobody /\ generation' = generation + 1
    /\ UNCHANGED <<topic, offsets, member, processed>>

(* A group without members and offsets is cleaned up, with all that it has. *)
CleanUp ==
    /\ owner = Nobody
    /\ committed = None
    /\ KeepPending => pending = NothingPending
    /\ pending' = NothingPending
    /\ UNCHANGED <<group, topic, committed, member, processed>>

-----------------------------------------------------------------------------
(* A member *)

(* OffsetFetch, and the first poll: where nothing is committed, from the    *)
(* start. A consumer takes its positions in poll, so between transactions:  *)
(* a member that joins again keeps its epoch (Rejoin of ConsumerGroup), and *)
(* a commit of before, still on its way, would count after the answer.      *)
Fetch(i) ==
    /\ member[i].phase = "joined"
    /\ member[i].generation = generation
    /\ RequireStable => pending = NothingPending
    /\ member' = [member EXCEPT ![i].phase = "polled", ![i].polled = generation, ![i].topic = topic,
                                ![i].position = IF committed.topic = topic THEN committed.position ELSE 1]
    /\ UNCHANGED <<group, topic, offsets, processed>>

Process(i) ==
    /\ member[i].phase = "polled"
    /\ member[i].position <= Records
    /\ member' = [member EXCEPT ![i].phase = "made"]
    /\ UNCHANGED <<group, topic, offsets, processed>>

(* The generation that a member names with its offsets.                     *)
Named(i) == IF PolledGeneration THEN member[i].polled ELSE member[i].generation

(* TxnOffsetCommit.                                                         *)
AddOffsets(i) ==
    /\ member[i].phase = "made"
    /\ CheckGeneration => Named(i) = generation
    /\ CheckGeneration => owner = i
    /\ SameTopic => member[i].topic = topic
    /\ pending' = [pending EXCEPT ![i] = [position |-> member[i].position + 1, topic |-> member[i].topic]]
    /\ member' = [member EXCEPT ![i].phase = "added"]
    /\ UNCHANGED <<group, topic, committed, processed>>

(* The transaction is decided: what it wrote is visible, its offsets not yet.*)
Commit(i) ==
    /\ member[i].phase = "added"
    /\ processed' = [processed EXCEPT ![member[i].topic][member[i].position] = @ + 1]
    /\ member' = [member EXCEPT ![i].phase = "committed"]
    /\ UNCHANGED <<group, topic, offsets>>

(* It gives up, or is told to, or its transaction takes too long.           *)
Abort(i) ==
    /\ member[i].phase \in {"made", "added"}
    /\ member' = [member EXCEPT ![i] = IF @.phase = "made" THEN Out ELSE [@ EXCEPT !.phase = "aborted"]]
    /\ UNCHANGED <<group, topic, offsets, processed>>

(* The marker arrives at the group's coordinator. The member goes on with   *)
(* the next record.                                                         *)
WriteMarker(i) ==
    /\ member[i].phase \in {"committed", "aborted"}
    /\ committed' = IF member[i].phase = "committed" /\ pending[i] # None THEN pending[i] ELSE committed
    /\ Unpended(i)
    /\ member' = [member EXCEPT ![i] = IF @.phase = "committed" /\ @.topic = topic
                                       THEN [@ EXCEPT !.phase = "polled", !.position = @ + 1] ELSE Out]
    /\ UNCHANGED <<group, topic, processed>>

(* Kafka 4.3 drops it where the partition of the offsets has no leader.     *)
DropMarker(i) ==
    /\ ~WaitForLeader
    /\ member[i].phase \in {"committed", "aborted"}
    /\ member' = [member EXCEPT ![i] = Out]
    /\ UNCHANGED <<group, topic, offsets, processed>>

(* The topic is deleted, and another one made of the name.                  *)
RecreateTopic ==
    /\ topic < MaxTopic
    /\ topic' = topic + 1
    /\ committed' = None
    /\ pending' = IF TopicTakesPending THEN NothingPending ELSE pending
    /\ member' = [i \in Ids |-> IF member[i].phase = "polled" THEN Out ELSE member[i]]
    /\ UNCHANGED <<group, processed>>

Next ==
    \/ \E i \in Ids : Rebalance(i)
    \/ Leave
    \/ CleanUp
    \/ \E i \in Ids : Fetch(i)
    \/ \E i \in Ids : Process(i)
    \/ \E i \in Ids : AddOffsets(i)
    \/ \E i \in Ids : Commit(i)
    \/ \E i \in Ids : Abort(i)
    \/ \E i \in Ids : WriteMarker(i)
    \/ \E i \in Ids : DropMarker(i)
    \/ RecreateTopic

Spec == Init /\ [][Next]_vars
Fair == Spec /\ \A i \in Ids : WF_vars(Commit(i) \/ Abort(i)) /\ WF_vars(WriteMarker(i) \/ DropMarker(i))

-----------------------------------------------------------------------------
(* Promises *)

(* Each record takes part in one committed transaction at most.             *)
Once == \A t \in 1..MaxTopic, r \in 1..Records : processed[t][r] <= 1

(* And none is passed by.                                                   *)
NoneSkipped == \A r \in 1..Records : r < committed.position => processed[topic][r] >= 1

(* What is committed is of the topic that bears the name.                   *)
OfThisTopic == committed.topic \in {0, topic}

(* The committed offset moves on, unless the topic goes.                    *)
MovesOn == [][committed'.topic = committed.topic => committed'.position >= committed.position]_committed

(* No offset is pending for ever.                                           *)
PendingEnds == \A i \in Ids : (pending[i] # None) ~> (pending[i] = None)

-----------------------------------------------------------------------------
(* Probes: states that must be reachable, or the promises say nothing.      *)
NeverAll == \E r \in 1..Records : processed[1][r] = 0
NeverHandedOver == \A i \in Ids : ~(member[i].phase = "committed" /\ owner \notin {i, Nobody})
NeverUnstable == \A i, j \in Ids : ~(member[i].phase = "joined" /\ pending[j] # None)
NeverAborted == \A i \in Ids : ~(member[i].phase = "aborted" /\ pending[i] # None)
NeverRefused == \A i \in Ids : ~(member[i].phase = "made" /\ member[i].polled # generation)
=============================================================================
