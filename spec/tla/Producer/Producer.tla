------------------------------ MODULE Producer ------------------------------
(* A client that produces (KIP-98, KAFKA-5494, KIP-360): which batch of a   *)
(* partition it sends, under which epoch and sequence, what it makes of     *)
(* answers, and when it goes on in a new epoch because nobody knows what    *)
(* was written.                                                             *)
(*                                                                          *)
(* Each partition has a leader, and a connection to it that keeps order     *)
(* until it breaks. What a broken connection held may still arrive. When    *)
(* another broker leads, the connection to the former leader stays open as  *)
(* long as answers are missing. Of the leader there is what ProducerState   *)
(* has more of: it remembers as many batches of the producer's epoch as its *)
(* window holds. A batch has one record here, and its number in its         *)
(* partition. Sequences and epochs begin at 0, and -1 is none.              *)
EXTENDS Logs, Integers, FiniteSets

CONSTANTS
    (* @type: Int; *)  Partitions,   \* bound: partitions 1..Partitions
    (* @type: Int; *)  Batches,      \* bound: batches of each partition
    (* @type: Int; *)  MaxBreaks,    \* bound: connections that break
    (* @type: Bool; *) Late,         \* what a broken connection held may still arrive
    (* @type: Int; *)  MaxExpired,   \* bound: batches of which delivery.timeout.ms is over
    (* @type: Int; *)  MaxDenied,    \* bound: requests that a leader cannot take now, NOT_ENOUGH_REPLICAS for one
    (* @type: Int; *)  MaxRefused,   \* bound: batches that no leader takes, MESSAGE_TOO_LARGE for one
    (* @type: Int; *)  MaxLost,      \* bound: elections that lose acknowledged batches
    (* @type: Int; *)  MaxMoved,     \* bound: elections that lose nothing, while the former leader's connection is open
    (* @type: Int; *)  InFlight,     \* max.in.flight.requests.per.connection: at most 5 in Kafka
    (* @type: Int; *)  Window,       \* batches of a producer that a leader remembers: 5 in Kafka
    (* @type: Bool; *) Idempotent,   \* enable.idempotence
    (* @type: Bool; *) FirstAlone,   \* the first batch of an epoch is sent alone. Kafka 4.3: FALSE
    (* @type: Bool; *) WithinWindow, \* an unanswered batch and those sent after it are InFlight at most. Kafka 4.3: FALSE
    (* @type: Bool; *) RememberSent, \* a batch that expires with its first attempt under way is unresolved. Kafka 4.3: FALSE
    (* @type: Bool; *) AckOfEpoch,   \* an answer counts for the epoch that it was sent in. Kafka 4.3: FALSE
    (* @type: Str; *)  OnDoubt,      \* when nobody knows whether a sequence was used, see below
    (* @type: Str; *)  Dropped       \* the rule that is left out, "none" as it should be

(* OnDoubt:                                                                 *)
(*   "bump"   go on in a new epoch (KIP-360)                                *)
(*   "keep"   go on with the next sequence                                  *)
(*   "reuse"  go on with the sequence that may be used                      *)
ASSUME OnDoubt \in {"bump", "keep", "reuse"}

(* Dropped: "restart", in a new epoch a partition without batches in flight *)
(* goes on with its sequences (KAFKA-12152); "renumber", batches in flight  *)
(* keep their epoch; "wait", a new epoch begins while batches are in flight *)
(* that may be written; "lost", a leader that misses what was acknowledged  *)
(* is asked again for ever.                                                 *)
ASSUME Dropped \in {"none", "restart", "renumber", "wait", "lost"}

\* @typeAlias: sent = {batch: Int, epoch: Int, sequence: Int};
\* @typeAlias: answer = {batch: Int, epoch: Int, sequence: Int, error: Str};
\* @typeAlias: tracked = {batch: Int, epoch: Int, sequence: Int, renumbered: Bool, again: Bool};
\* @typeAlias: sequences = {epoch: Int, next: Int, acked: Int, unresolved: Int};
Ids == 1..Partitions
Numbers == 1..Batches
None == -1

VARIABLES
    (* @type: Int -> (Int -> Str); *)  outcome,    \* of each batch: none, waiting, written, failed
    (* @type: Int -> Seq(Int); *)      queue,      \* batches that wait to be sent, or sent again
    (* @type: Int -> Seq($tracked); *) tracked,    \* sent and without a result, by sequence
    (* @type: Int -> $sequences; *)    sequences,
    (* @type: Int; *)                  epoch,      \* of the producer
    (* @type: Set(Int); *)             restarting, \* partitions that begin again in the next epoch
    (* @type: Int -> Seq($sent); *)    wire,       \* requests on the way to the leader
    (* @type: Int -> Seq($answer); *)  answers,    \* answers on the way back
    (* @type: Int -> Seq($sent); *)    old,        \* what a broken connection still holds
    (* @type: Int -> Seq($answer); *)  former,     \* answers on the way back from the former leader
    (* @type: Int -> Seq($sent); *)    log,
    (* @type: Bool; *)                 needless,   \* ghost: a leader refused the order of what was in order
    (* @type: {breaks: Int, expired: Int, denied: Int, refused: Int, lost: Int, moved: Int}; *) count

client == <<outcome, queue, tracked, sequences, epoch, restarting>>
network == <<wire, answers, old, former>>
vars == <<client, network, log, needless, count>>

Init ==
    /\ outcome = [p \in Ids |-> [b \in Numbers |-> "none"]]
    /\ queue = [p \in Ids |-> <<>>]
    /\ tracked = [p \in Ids |-> <<>>]
    /\ sequences = [p \in Ids |-> [epoch |-> None, next |-> 0, acked |-> None, unresolved |-> None]]
    /\ epoch = 0
    /\ restarting = {}
    /\ wire = [p \in Ids |-> <<>>]
    /\ answers = [p \in Ids |-> <<>>]
    /\ old = [p \in Ids |-> <<>>]
    /\ former = [p \in Ids |-> <<>>]
    /\ log = [p \in Ids |-> <<>>]
    /\ needless = FALSE
    /\ count = [breaks |-> 0, expired |-> 0, denied |-> 0, refused |-> 0, lost |-> 0, moved |-> 0]

-----------------------------------------------------------------------------
(* Words *)

\* @type: Int => Int;
Begun(p) == Cardinality({b \in Numbers : outcome[p][b] # "none"})
\* @type: Int => Set(Int);
Waiting(p) == {b \in Numbers : outcome[p][b] = "waiting"}

\* @type: (Int, Int) => Bool;
IsTracked(p, b) == \E i \in 1..Len(tracked[p]) : tracked[p][i].batch = b

\* @type: (Seq($tracked), Int) => Seq($tracked);
Without(s, b) == LET Other(t) == t.batch # b IN SelectSeq(s, Other)

\* @type: (Seq(Int), Int) => Seq(Int);
Less(s, b) == LET Other(c) == c # b IN SelectSeq(s, Other)

(* The queue with one more batch that is sent again: those with a sequence  *)
(* come first, in order. Without sequences it comes before all.             *)
\* @type: (Int, Int) => Seq(Int);
Again(p, b) ==
    LET In(c) == c = b \/ \E i \in 1..Len(queue[p]) : queue[p][i] = c
        sent == [i \in 1..Len(tracked[p]) |-> tracked[p][i].batch]
        New(c) == ~IsTracked(p, c)
    IN  IF Idempotent THEN SelectSeq(sent, In) \o SelectSeq(queue[p], New) ELSE <<b>> \o queue[p]

(* Sequences of a partition that begins again in epoch e.                   *)
\* @type: (Int, Int) => Seq($tracked);
Renumbered(p, e) ==
    [i \in 1..Len(tracked[p]) |->
        IF Dropped = "renumber" THEN tracked[p][i]
        ELSE [tracked[p][i] EXCEPT !.epoch = e, !.sequence = i - 1, !.renumbered = TRUE]]
\* @type: (Int, Int) => $sequences;
Restarted(p, e) ==
    [epoch |-> e, next |-> IF Dropped = "renumber" THEN sequences[p].next ELSE Len(tracked[p]),
     acked |-> None, unresolved |-> None]

(* The sequence after b's is the first of which all is unknown.             *)
\* @type: (Int, Int) => Int;
Doubt(p, sequence) == Max({sequences[p].unresolved, sequence + 1})

(* Nothing is sent before all that is known of sequences has had its effect.*)
Resolvable(p) == sequences[p].unresolved # None /\ (tracked[p] = <<>> \/ Dropped = "wait")
MustSettle == restarting # {} \/ \E p \in Ids : Resolvable(p)

-----------------------------------------------------------------------------
(* The client *)

(* The application's next record is in a batch that may be sent.            *)
Enqueue(p) ==
    /\ Begun(p) < Batches
    /\ outcome' = [outcome EXCEPT ![p][Begun(p) + 1] = "waiting"]
    /\ queue' = [queue EXCEPT ![p] = Append(@, Begun(p) + 1)]
    /\ UNCHANGED <<tracked, sequences, epoch, restarting, network, log, needless, count>>

(* What is sent again waits until all before it is settled. What is new     *)
(* waits while a sequence is unresolved, while batches of an older epoch    *)
(* are in flight, and while the first of its epoch is not acknowledged:     *)
(* a leader takes any sequence of a producer that it does not know. It      *)
(* waits as well while it would be too far behind the first one in flight,  *)
(* which a leader must still remember when it is sent again: the former     *)
(* leader may hold that one, and InFlight bounds one connection alone.      *)
InTurn(p) ==
    LET b == Head(queue[p])
    IN  IF IsTracked(p, b) THEN tracked[p][1].batch = b
        ELSE /\ sequences[p].unresolved = None
             /\ tracked[p] # <<>> => sequences[p].epoch = epoch
             /\ FirstAlone /\ tracked[p] # <<>> => sequences[p].acked # None
             /\ WithinWindow /\ tracked[p] # <<>> => sequences[p].next - tracked[p][1].sequence < InFlight

Drain(p) ==
    /\ queue[p] # <<>>
    /\ Len(wire[p]) + Len(answers[p]) < InFlight
    /\ Idempotent => ~MustSettle
    /\ Idempotent => InTurn(p)
    /\ LET b == Head(queue[p])
           Mine(t) == t.batch = b
           fresh == sequences[p].epoch # epoch
           now == IF ~fresh THEN sequences[p]
                  ELSE [Restarted(p, epoch) EXCEPT
                            !.next = IF Dropped = "restart" THEN sequences[p].next ELSE 0,
                            !.acked = IF Dropped = "restart" THEN sequences[p].acked ELSE None]
           sent == IF ~Idempotent THEN [batch |-> b, epoch |-> None, sequence |-> None]
                   ELSE IF IsTracked(p, b)
                   THEN LET t == SelectSeq(tracked[p], Mine)[1]
                        IN  [batch |-> b, epoch |-> t.epoch, sequence |-> t.sequence]
                   ELSE [batch |-> b, epoch |-> epoch, sequence |-> now.next]
       IN  /\ queue' = [queue EXCEPT ![p] = Tail(@)]
           /\ wire' = [wire EXCEPT ![p] = Append(@, sent)]
           /\ IF ~Idempotent THEN UNCHANGED <<tracked, sequences>>
              ELSE IF IsTracked(p, b)
              THEN /\ tracked' = [tracked EXCEPT ![p] =
                          [i \in 1..Len(@) |-> IF @[i].batch = b THEN [@[i] EXCEPT !.renumbered = FALSE] ELSE @[i]]]
                   /\ UNCHANGED sequences
              ELSE /\ tracked' = [tracked EXCEPT ![p] = Append(@,
                          [batch |-> b, epoch |-> epoch, sequence |-> now.next, renumbered |-> FALSE, again |-> FALSE])]
                   /\ sequences' = [sequences EXCEPT ![p] = [now EXCEPT !.next = @ + 1]]
    /\ UNCHANGED <<outcome, epoch, restarting, answers, old, former, log, needless, count>>

(* The batch has no sequence to wait for any more.                          *)
\* @type: (Int, Int, Str) => Bool;
Settle(p, b, result) ==
    /\ outcome' = [outcome EXCEPT ![p][b] = result]
    /\ tracked' = [tracked EXCEPT ![p] = Without(@, b)]
    /\ UNCHANGED queue

\* @type: (Int, Int) => Bool;
Retry(p, b) ==
    /\ queue' = [queue EXCEPT ![p] = Again(p, b)]
    /\ tracked' = [tracked EXCEPT ![p] =
            [i \in 1..Len(@) |-> IF @[i].batch = b THEN [@[i] EXCEPT !.again = TRUE] ELSE @[i]]]
    /\ UNCHANGED outcome

(* The sequence was used, even if the batch has expired since.              *)
\* @type: (Int, $answer) => $sequences;
Acked(p, a) ==
    IF Idempotent /\ (AckOfEpoch => a.epoch = sequences[p].epoch)
    THEN [sequences[p] EXCEPT !.acked = Max({@, a.sequence})] ELSE sequences[p]

(* The leader expects another sequence. What comes before is still missing, *)
(* or was lost, and then nothing but a new epoch helps: if the batch is the *)
(* next one after what was acknowledged, or after what expired.             *)
\* @type: (Int, $tracked) => Bool;
Lost(p, t) ==
    /\ Dropped # "lost"
    /\ IF sequences[p].unresolved = None THEN ~t.renumbered /\ t.sequence = sequences[p].acked + 1
       ELSE t.sequence = sequences[p].unresolved

(* An answer comes. The batch may have expired before, and have another     *)
(* epoch since it was sent.                                                 *)
\* @type: (Int, $answer) => Bool;
Understand(p, a) ==
    LET b == a.batch
        Mine(t) == t.batch = b
        mine == SelectSeq(tracked[p], Mine)
    IN  IF a.error = "none"
        THEN /\ sequences' = [sequences EXCEPT ![p] = Acked(p, a)]
             /\ IF outcome[p][b] = "waiting" THEN Settle(p, b, "written")
                ELSE UNCHANGED <<outcome, tracked, queue>>
             /\ UNCHANGED restarting
        ELSE IF outcome[p][b] # "waiting"
        THEN UNCHANGED <<outcome, tracked, queue, sequences, restarting>>
        ELSE IF a.error \in {"order", "denied"}
        THEN /\ Retry(p, b)
             /\ restarting' = IF a.error = "order" /\ Lost(p, mine[1]) THEN restarting \cup {p} ELSE restarting
             /\ UNCHANGED sequences
        ELSE /\ Settle(p, b, "failed")
             /\ IF ~Idempotent THEN UNCHANGED <<sequences, restarting>>
                ELSE IF mine[1].again
                THEN /\ sequences' = [sequences EXCEPT ![p].unresolved = Doubt(p, mine[1].sequence)]
                     /\ UNCHANGED restarting
                ELSE restarting' = restarting \cup {p} /\ UNCHANGED sequences

TakeAnswer(p) ==
    /\ answers[p] # <<>>
    /\ Understand(p, Head(answers[p]))
    /\ answers' = [answers EXCEPT ![p] = Tail(@)]
    /\ UNCHANGED <<epoch, wire, old, former, log, needless, count>>

(* Likewise, by the connection to the former leader.                        *)
TakeFormer(p) ==
    /\ former[p] # <<>>
    /\ Understand(p, Head(former[p]))
    /\ former' = [former EXCEPT ![p] = Tail(@)]
    /\ UNCHANGED <<epoch, wire, answers, old, log, needless, count>>

(* delivery.timeout.ms is over for the oldest batch, wherever it is.        *)
Expire(p) ==
    /\ count.expired < MaxExpired
    /\ Waiting(p) # {}
    /\ LET b == Min(Waiting(p))
           Mine(t) == t.batch = b
           mine == SelectSeq(tracked[p], Mine)
       IN  /\ outcome' = [outcome EXCEPT ![p][b] = "failed"]
           /\ queue' = [queue EXCEPT ![p] = Less(@, b)]
           /\ tracked' = [tracked EXCEPT ![p] = Without(@, b)]
           /\ IF mine # <<>> /\ (RememberSent \/ mine[1].again)
              THEN sequences' = [sequences EXCEPT ![p].unresolved = Doubt(p, mine[1].sequence)]
              ELSE UNCHANGED sequences
    /\ count' = [count EXCEPT !.expired = @ + 1]
    /\ UNCHANGED <<epoch, restarting, network, log, needless>>

(* Nothing is in flight any more that could tell whether a sequence was     *)
(* used. If the last one was not acknowledged, nobody knows.                *)
Resolve(p) ==
    /\ Resolvable(p)
    /\ LET known == sequences[p].next = sequences[p].acked + 1
       IN  /\ restarting' = IF known \/ OnDoubt # "bump" THEN restarting ELSE restarting \cup {p}
           /\ sequences' = [sequences EXCEPT
                  ![p].unresolved = None,
                  ![p].next = IF ~known /\ OnDoubt = "reuse" THEN sequences[p].acked + 1 ELSE @]
    /\ UNCHANGED <<outcome, queue, tracked, epoch, network, log, needless, count>>

(* The producer goes on in another epoch. Batches in flight of a partition  *)
(* that begins again are numbered anew, and sent so when they are sent      *)
(* again. Other partitions finish what is in flight in the old one.         *)
Bump ==
    /\ restarting # {}
    /\ epoch' = epoch + 1
    /\ tracked' = [p \in Ids |-> IF p \in restarting THEN Renumbered(p, epoch + 1) ELSE tracked[p]]
    /\ sequences' = [p \in Ids |-> IF p \in restarting THEN Restarted(p, epoch + 1) ELSE sequences[p]]
    /\ restarting' = {}
    /\ UNCHANGED <<outcome, queue, network, log, needless, count>>

-----------------------------------------------------------------------------
(* The leader *)

\* @type: (Int, $sent) => Bool;
Duplicate(p, r) ==
    LET Now(e) == e.epoch = r.epoch
        seen == SelectSeq(log[p], Now)
        first == IF Len(seen) > Window THEN Len(seen) - Window + 1 ELSE 1
    IN  /\ log[p] # <<>> /\ log[p][Len(log[p])].epoch = r.epoch
        /\ \E i \in first..Len(seen) : seen[i].sequence = r.sequence

(* Nothing contradicts a producer that is not known.                        *)
\* @type: (Int, $sent) => Bool;
InSequence(p, r) ==
    \/ log[p] = <<>>
    \/ LET last == log[p][Len(log[p])]
       IN  r.sequence = IF r.epoch = last.epoch THEN last.sequence + 1 ELSE 0

\* @type: (Int, $sent) => Str;
Verdict(p, r) ==
    IF r.epoch = None \/ Duplicate(p, r) THEN "none"
    ELSE IF log[p] # <<>> /\ r.epoch < log[p][Len(log[p])].epoch THEN "epoch"
    ELSE IF InSequence(p, r) THEN "none" ELSE "order"

\* @type: (Int, $sent) => Seq($sent);
Taken(p, r) ==
    IF Verdict(p, r) = "none" /\ (r.epoch = None \/ ~Duplicate(p, r)) THEN Append(log[p], r) ELSE log[p]

(* Everything before it is written, and so there is no reason to refuse it. *)
\* @type: (Int, $sent) => Bool;
Complete(p, r) == \A b \in 1..(r.batch - 1) : \E i \in 1..Len(log[p]) : log[p][i].batch = b

\* @type: (Int, Str) => Bool;
Answer(p, error) ==
    LET r == Head(wire[p])
    IN  /\ wire' = [wire EXCEPT ![p] = Tail(@)]
        /\ answers' = [answers EXCEPT ![p] = Append(@,
               [batch |-> r.batch, epoch |-> r.epoch, sequence |-> r.sequence, error |-> error])]

(* The leader takes a request, or refuses its epoch or sequence.            *)
Arrive(p) ==
    /\ wire[p] # <<>>
    /\ LET r == Head(wire[p])
       IN  /\ Answer(p, Verdict(p, r))
           /\ log' = [log EXCEPT ![p] = Taken(p, r)]
           /\ needless' = (needless \/ (Verdict(p, r) = "order" /\ Complete(p, r)))
    /\ UNCHANGED <<client, old, former, count>>

(* It cannot take it now: not enough replicas, or it does not lead yet.     *)
Deny(p) ==
    /\ wire[p] # <<>> /\ count.denied < MaxDenied
    /\ Answer(p, "denied")
    /\ count' = [count EXCEPT !.denied = @ + 1]
    /\ UNCHANGED <<client, old, former, log, needless>>

(* It takes it never: the batch is too large, or a record is not valid.     *)
Refuse(p) ==
    /\ wire[p] # <<>> /\ count.refused < MaxRefused
    /\ Answer(p, "refused")
    /\ count' = [count EXCEPT !.refused = @ + 1]
    /\ UNCHANGED <<client, old, former, log, needless>>

(* Another leader is elected that misses what was acknowledged.             *)
Lose(p, n) ==
    /\ count.lost < MaxLost
    /\ n < Len(log[p])
    /\ log' = [log EXCEPT ![p] = Take(@, n)]
    /\ count' = [count EXCEPT !.lost = @ + 1]
    /\ UNCHANGED <<client, network, needless>>

(* Another leader is elected that has all of it. The former one refuses     *)
(* what it has not taken (NOT_LEADER_OR_FOLLOWER), and its answers may be   *)
(* late.                                                                    *)
Move(p) ==
    /\ count.moved < MaxMoved
    /\ former[p] = <<>>
    /\ Len(wire[p]) + Len(answers[p]) > 0
    /\ former' = [former EXCEPT ![p] = answers[p] \o [i \in 1..Len(wire[p]) |->
           [batch |-> wire[p][i].batch, epoch |-> wire[p][i].epoch, sequence |-> wire[p][i].sequence,
            error |-> "denied"]]]
    /\ wire' = [wire EXCEPT ![p] = <<>>]
    /\ answers' = [answers EXCEPT ![p] = <<>>]
    /\ count' = [count EXCEPT !.moved = @ + 1]
    /\ UNCHANGED <<client, old, log, needless>>

-----------------------------------------------------------------------------
(* Connections *)

(* Whatever waits for an answer is sent again.                              *)
\* @type: (Int, Seq(Int)) => Bool;
SendAgain(p, flying) ==
    LET Flies(b) == \E k \in 1..Len(flying) : flying[k] = b
        Waits(b) == outcome[p][b] = "waiting"
        again == SelectSeq(flying, Waits)
        sent == [i \in 1..Len(tracked[p]) |-> tracked[p][i].batch]
        Queued(b) == Flies(b) \/ \E i \in 1..Len(queue[p]) : queue[p][i] = b
        New(b) == ~IsTracked(p, b)
    IN  /\ queue' = [queue EXCEPT ![p] =
               IF Idempotent THEN SelectSeq(sent, Queued) \o SelectSeq(@, New)
               ELSE [i \in 1..Len(again) |-> again[Len(again) + 1 - i]] \o @]
        /\ tracked' = [tracked EXCEPT ![p] =
               [i \in 1..Len(@) |-> IF Flies(@[i].batch) THEN [@[i] EXCEPT !.again = TRUE] ELSE @[i]]]

Disconnect(p) ==
    /\ Len(wire[p]) + Len(answers[p]) > 0
    /\ count.breaks < MaxBreaks
    /\ SendAgain(p, [i \in 1..Len(answers[p]) |-> answers[p][i].batch]
                    \o [i \in 1..Len(wire[p]) |-> wire[p][i].batch])
    /\ old' = [old EXCEPT ![p] = IF Late THEN wire[p] ELSE <<>>]
    /\ wire' = [wire EXCEPT ![p] = <<>>]
    /\ answers' = [answers EXCEPT ![p] = <<>>]
    /\ count' = [count EXCEPT !.breaks = @ + 1]
    /\ UNCHANGED <<outcome, sequences, epoch, restarting, former, log, needless>>

(* The connection to the former leader breaks.                              *)
DisconnectFormer(p) ==
    /\ former[p] # <<>>
    /\ count.breaks < MaxBreaks
    /\ SendAgain(p, [i \in 1..Len(former[p]) |-> former[p][i].batch])
    /\ former' = [former EXCEPT ![p] = <<>>]
    /\ count' = [count EXCEPT !.breaks = @ + 1]
    /\ UNCHANGED <<outcome, sequences, epoch, restarting, wire, answers, old, log, needless>>

(* A request of the old connection arrives, and nobody hears the answer.    *)
ArriveLate(p) ==
    /\ old[p] # <<>>
    /\ log' = [log EXCEPT ![p] = Taken(p, Head(old[p]))]
    /\ old' = [old EXCEPT ![p] = Tail(@)]
    /\ UNCHANGED <<client, wire, answers, former, needless, count>>

Next ==
    \/ \E p \in Ids : Enqueue(p)
    \/ \E p \in Ids : Drain(p)
    \/ \E p \in Ids : TakeAnswer(p)
    \/ \E p \in Ids : TakeFormer(p)
    \/ \E p \in Ids : Expire(p)
    \/ \E p \in Ids : Resolve(p)
    \/ Bump
    \/ \E p \in Ids : Arrive(p)
    \/ \E p \in Ids : Deny(p)
    \/ \E p \in Ids : Refuse(p)
    \/ \E p \in Ids, n \in 0..Batches : Lose(p, n)
    \/ \E p \in Ids : Move(p)
    \/ \E p \in Ids : Disconnect(p)
    \/ \E p \in Ids : DisconnectFormer(p)
    \/ \E p \in Ids : ArriveLate(p)

Spec == Init /\ [][Next]_vars

(* What is sent arrives and is answered, and the client goes on.            *)
Fair == Spec /\ WF_vars(Bump)
        /\ \A p \in Ids : /\ WF_vars(Enqueue(p)) /\ WF_vars(Drain(p)) /\ WF_vars(TakeAnswer(p))
                          /\ WF_vars(TakeFormer(p)) /\ WF_vars(Resolve(p)) /\ WF_vars(Arrive(p))

-----------------------------------------------------------------------------
(* Promises *)

(* No batch is written twice. *)
Once == \A p \in Ids : \A i, j \in 1..Len(log[p]) : i # j => log[p][i].batch # log[p][j].batch

(* Batches are written in the order in which they were sent. *)
InOrder == \A p \in Ids : \A i, j \in 1..Len(log[p]) : i < j => log[p][i].batch <= log[p][j].batch

(* What the application is told to be written is written, unless a leader   *)
(* has lost it.                                                             *)
Kept == \A p \in Ids : \A b \in Numbers :
    outcome[p][b] = "written" => \E i \in 1..Len(log[p]) : log[p][i].batch = b

(* No batch is refused for its sequence while all before it is written.     *)
NoNeedlessRefusal == ~needless

(* Sequences in flight follow each other, and what was acknowledged.        *)
Consecutive == \A p \in Ids :
    /\ \A i \in 1..Len(tracked[p]) : tracked[p][i].epoch = sequences[p].epoch
    /\ \A i \in 1..(Len(tracked[p]) - 1) : tracked[p][i].sequence < tracked[p][i + 1].sequence

(* Liveness, under Fair: each batch has its result in the end. *)
Delivered == \A p \in Ids : \A b \in Numbers : <>(outcome[p][b] \in {"written", "failed"})

(* What a partition holds is a log that only grows. *)
Abs == INSTANCE AbsLog WITH
    Readers <- {1}, Records <- Numbers, MaxLength <- Batches, LossAllowed <- FALSE, Dropped <- "none",
    committed <- [i \in 1..Len(log[1]) |-> log[1][i].batch],
    views <- [reader \in {1} |-> <<>>]
Refines == Abs!Spec

-----------------------------------------------------------------------------
(* Probes *)
NeverAllInFlight == \A p \in Ids : Len(wire[p]) + Len(answers[p]) < InFlight
NeverBumped == epoch = 0
NeverTold == \A p \in Ids : \A i \in 1..Len(answers[p]) :
    ~(answers[p][i].error = "none" /\ outcome[p][answers[p][i].batch] = "failed")
NeverAtBoth == \A p \in Ids : former[p] = <<>> \/ wire[p] = <<>>
NeverLate == \A p \in Ids : old[p] = <<>>
NeverRefusedOrder == \A p \in Ids : \A i \in 1..Len(answers[p]) : answers[p][i].error # "order"
=============================================================================
