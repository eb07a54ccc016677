----------------------- MODULE TransactionCoordinator -----------------------
(* One transactional id (KIP-98, KIP-360, KIP-890): instances of a producer *)
(* that come one after the other, the coordinator, the partitions that they *)
(* write to, and the markers that tell these of the end of a transaction.   *)
(*                                                                          *)
(* The coordinator's state is a record per change in one partition of       *)
(* __transaction_state. That is a log with a high watermark here; of what is*)
(* above, an election keeps any part. A change takes effect once its record *)
(* is committed, and a new coordinator loads the log to its end.            *)
(*                                                                          *)
(* Requests are steps of the coordinator, enabled by what the client waits  *)
(* for: a lost answer is a failover behind the commit, and the client asks  *)
(* again. Sequence numbers are not here. A producer writes one record to    *)
(* each partition, which stands for all that it writes there.               *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)      Producers,        \* bound: instances 1..Producers, started in this order
    (* @type: Int; *)      Partitions,       \* bound: partitions 1..Partitions
    (* @type: Int; *)      MaxTransactions,  \* bound: transactions, of all instances together
    (* @type: Int; *)      MaxEpoch,         \* bound: the last epoch that a producer is given, 32766 in Kafka
    (* @type: Int; *)      MaxIds,           \* bound: producer ids
    (* @type: Int; *)      MaxFailovers,     \* bound: failovers
    (* @type: Int; *)      MaxCopies,        \* bound: markers whose answer is lost, or that arrive once more
    (* @type: Int; *)      MaxDowns,         \* bound: times that a partition has no leader for a while
    (* @type: Set(Str); *) Faults,           \* which others there are, see below
    (* @type: Int; *)      Version,          \* transaction.version: with 2 each end raises the epoch (KIP-890)
    (* @type: Bool; *)     StrictMarkers,    \* 2: a marker of the epoch that is there ends nothing (KAFKA-19446)
    (* @type: Bool; *)     FenceCoordinator, \* a partition takes no marker of an older coordinator epoch (KIP-98)
    (* @type: Bool; *)     Verify,           \* the first write is checked with the coordinator (KIP-890)
    (* @type: Bool; *)     LoadCommitted,    \* it acts once what it has loaded is committed. Kafka 4.3: FALSE
    (* @type: Bool; *)     CheckExpected,    \* the expected epoch counts while a transaction is open. Kafka 4.3: FALSE
    (* @type: Bool; *)     KeepLastEpoch,    \* the epoch before is in the record (KAFKA-20357). Kafka 4.3: FALSE
    (* @type: Bool; *)     RetryIsOwn,       \* only who ended a transaction may end it again. Kafka 4.3: FALSE
    (* @type: Bool; *)     WaitForLeader,    \* a marker waits while its partition has no leader. Kafka 4.3: FALSE
    (* @type: Bool; *)     RefuseOverOpen,   \* no write of a later epoch while one is open. Kafka 4.3: FALSE
    (* @type: Str; *)      Dropped           \* the rule that is left out, "none" as it should be

(* Faults: "timeout", the coordinator aborts a transaction that takes long; *)
(* "crash", an instance dies; "again", an instance asks for a new epoch and *)
(* names the one that it has (KIP-360), whether or not it is the newest.    *)
ASSUME Faults \subseteq {"timeout", "crash", "again"}
ASSUME Version \in {1, 2}

(* Dropped: "ownRetry", a marker that has been written already is refused   *)
(* (KAFKA-19999); "rotate", an exhausted epoch begins anew under the same   *)
(* producer id; "whole", a load that fails serves what it has; "complete",  *)
(* a transaction is complete before all its markers are written; "fence", an*)
(* instance ends whatever is open, also its successor's transaction.        *)
ASSUME Dropped \in {"none", "ownRetry", "rotate", "whole", "complete", "fence"}

\* @typeAlias: identity = {id: Int, epoch: Int};
\* @typeAlias: state = {state: Str, at: $identity, next: $identity, last: $identity, partitions: Set(Int), transaction: Int, by: Int, fences: Bool};
\* @typeAlias: marker = {partition: Int, at: $identity, outcome: Str, coordinator: Int, transaction: Int};
Instances == 1..Producers
Parts == 1..Partitions
Transactions == 1..MaxTransactions
Ids == 1..MaxIds
Nobody == 0
NoTransaction == 0
NoIdentity == [id |-> 0, epoch |-> 0]
NothingPending == [kind |-> "none", who |-> Nobody]

VARIABLES
    (* @type: Seq($state); *)    log,          \* the records of __transaction_state
    (* @type: Int; *)            highWatermark,
    (* @type: Int; *)            coordinatorEpoch,
    (* @type: Str; *)            role,         \* "loading", "active"
    (* @type: $state; *)         memory,       \* the state as the coordinator has it
    (* @type: {kind: Str, who: Int}; *) pending,   \* the change that is under way, and for whom
    (* @type: Set(Int); *)       owed,         \* partitions that have not answered their marker
    (* @type: Int -> (Int -> {epoch: Int, coordinator: Int}); *) producers,   \* per partition and producer id: epochs
    (* @type: Int -> Seq(Int); *)      records,   \* per partition: the transaction of each record
    (* @type: Int -> (Int -> Str); *)  ended,     \* per partition and transaction: what its marker said
    (* @type: Set(Int); *)       leaderless,
    (* @type: Int; *)            downs,
    (* @type: Set($marker); *)   sent,         \* markers of which a copy may still arrive
    (* @type: Int; *)            copies,
    (* @type: Int -> {phase: Str, as: $identity, transaction: Int}; *) client,   \* per instance
    (* @type: Int -> Int; *)     owner,        \* per transaction: the producer id that began it, 0 for none yet
    (* @type: Int -> Str; *)     told,         \* per transaction: what its producer was told
    (* @type: Set(Int); *)       timedOut      \* ghost: transactions that the coordinator aborts for their time

coordinator == <<log, highWatermark, coordinatorEpoch, role, memory, pending, owed>>
partitions == <<producers, records, ended>>
leaders == <<leaderless, downs>>
network == <<sent, copies>>
clients == <<client, owner, told, timedOut>>
vars == <<coordinator, partitions, leaders, network, clients>>

First == [state |-> "Empty", at |-> [id |-> 1, epoch |-> 0], next |-> [id |-> 1, epoch |-> 0], last |-> NoIdentity,
          partitions |-> {}, transaction |-> NoTransaction, by |-> Nobody, fences |-> FALSE]

Init ==
    /\ log = <<First>> /\ highWatermark = 1
    /\ coordinatorEpoch = 1 /\ role = "active"
    /\ memory = First /\ pending = NothingPending /\ owed = {}
    /\ producers = [p \in Parts |-> [id \in Ids |-> [epoch |-> 0, coordinator |-> 0]]]
    /\ records = [p \in Parts |-> <<>>]
    /\ ended = [p \in Parts |-> [t \in Transactions |-> "none"]]
    /\ leaderless = {} /\ downs = 0
    /\ sent = {} /\ copies = 0
    /\ client = [i \in Instances |-> [phase |-> "off", as |-> NoIdentity, transaction |-> NoTransaction]]
    /\ owner = [t \in Transactions |-> 0]
    /\ told = [t \in Transactions |-> "none"]
    /\ timedOut = {}

-----------------------------------------------------------------------------
\* @type: $state => Bool;
Prepared(s) == s.state \in {"PrepareCommit", "PrepareAbort"}
\* @type: $state => Bool;
Idle(s) == s.state \in {"Empty", "CompleteCommit", "CompleteAbort"}
\* @type: $state => Str;
Outcome(s) == IF s.state \in {"PrepareCommit", "CompleteCommit"} THEN "commit" ELSE "abort"

(* The epoch above: that of a marker, and of an instance that is fenced. It *)
(* may be one more than a producer is ever given.                           *)
\* @type: $identity => $identity;
Above(a) == [a EXCEPT !.epoch = @ + 1]

(* What a producer is given next: where the epochs of an id are exhausted,  *)
(* another id.                                                              *)
\* @type: $identity => $identity;
After(a) ==
    IF a.epoch < MaxEpoch THEN Above(a)
    ELSE [id |-> IF Dropped = "rotate" THEN a.id ELSE a.id + 1, epoch |-> 0]

\* @type: ($identity, $identity) => Bool;
Below(a, b) == a.id < b.id \/ (a.id = b.id /\ a.epoch < b.epoch)

\* @type: (Int, Int) => Bool;
Wrote(t, p) == \E i \in 1..Len(records[p]) : records[p][i] = t
\* @type: (Int, Int) => Set(Int);
Open(p, id) == {t \in Transactions : owner[t] = id /\ Wrote(t, p) /\ ended[p][t] = "none"}

(* One change at a time: until it is committed all others are told to wait  *)
(* (CONCURRENT_TRANSACTIONS).                                               *)
Serving == role = "active" /\ pending = NothingPending

\* @type: ($state, Str, Int) => Bool;
Change(s, kind, who) ==
    /\ s.next.id <= MaxIds
    /\ log' = Append(log, s)
    /\ pending' = [kind |-> kind, who |-> who]
    /\ UNCHANGED <<highWatermark, coordinatorEpoch, role, memory, owed>>

(* The open transaction is aborted above the epoch of whoever has it.       *)
\* @type: Int => $state;
Fenced(who) ==
    [memory EXCEPT !.state = "PrepareAbort", !.at = Above(@), !.next = Above(memory.at),
                   !.last = NoIdentity, !.by = who, !.fences = TRUE]

-----------------------------------------------------------------------------
(* The log *)

(* Another record is committed. What was loaded is, when all is.            *)
Commit ==
    /\ highWatermark < Len(log)
    /\ highWatermark' = highWatermark + 1
    /\ role' = IF highWatermark' = Len(log) THEN "active" ELSE role
    /\ UNCHANGED <<log, coordinatorEpoch, memory, pending, owed, partitions, leaders, network, clients>>

(* The record of a change is committed: it takes effect, and whoever asked  *)
(* for it is told. A producer hears of the end before any partition does.   *)
Apply ==
    LET s == log[Len(log)]
        who == pending.who
        answered == \/ pending.kind = "init" /\ client[who].phase = "starting"
                    \/ pending.kind = "end" /\ client[who].phase \in {"commit", "abort"}
    IN  /\ pending # NothingPending /\ highWatermark = Len(log)
        /\ memory' = s /\ pending' = NothingPending
        /\ owed' = IF Prepared(s) THEN s.partitions ELSE {}
        /\ client' = IF answered
                     THEN [client EXCEPT ![who] = [phase |-> "ready", as |-> s.next, transaction |-> NoTransaction]]
                     ELSE client
        /\ told' = IF answered /\ pending.kind = "end"
                   THEN [told EXCEPT ![client[who].transaction] = client[who].phase] ELSE told
        /\ UNCHANGED <<log, highWatermark, coordinatorEpoch, role, owner, timedOut, partitions, leaders, network>>

(* What another coordinator loads. Kafka 4.3 writes no epoch before, but the*)
(* producer id before (KAFKA-20357).                                        *)
\* @type: $state => $state;
Loaded(s) ==
    IF KeepLastEpoch \/ s.last.id # s.at.id THEN s ELSE [s EXCEPT !.last = NoIdentity]

(* Another broker leads, with some of what is not committed. It loads to the*)
(* end, for what it has may be committed yet; and must not act on what may  *)
(* still be lost.                                                           *)
Failover(kept) ==
    LET n == highWatermark + kept
        read == IF Dropped = "whole" /\ n > 1 THEN n - 1 ELSE n
    IN  /\ coordinatorEpoch <= MaxFailovers
        /\ n <= Len(log)
        /\ coordinatorEpoch' = coordinatorEpoch + 1
        /\ log' = Take(log, n)
        /\ memory' = Loaded(log[read]) /\ pending' = NothingPending
        /\ owed' = IF Prepared(log[read]) THEN log[read].partitions ELSE {}
        /\ role' = IF LoadCommitted /\ kept > 0 THEN "loading" ELSE "active"
        /\ UNCHANGED <<highWatermark, partitions, leaders, network, clients>>

-----------------------------------------------------------------------------
(* Producers *)

(* An instance starts, when the one before has been initialised.            *)
Start(i) ==
    /\ client[i].phase = "off"
    /\ \A j \in 1..(i - 1) : client[j].phase \notin {"off", "starting"}
    /\ client' = [client EXCEPT ![i].phase = "starting"]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

(* KIP-360: after an abort an instance asks for a new epoch, and names the  *)
(* one that it has. It may have been asleep in between.                     *)
AskAgain(i) ==
    /\ "again" \in Faults
    /\ client[i].phase = "ready"
    /\ client' = [client EXCEPT ![i].phase = "starting"]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

Expected(i) == client[i].as \in {NoIdentity, memory.at}

(* Nothing is open: the next epoch. The one before is kept, for the answer  *)
(* may be lost.                                                             *)
InitProducerId(i) ==
    /\ client[i].phase = "starting"
    /\ Serving /\ Idle(memory)
    /\ Expected(i)
    /\ Change([First EXCEPT !.at = After(memory.at), !.next = After(memory.at),
                            !.last = client[i].as, !.by = i, !.fences = TRUE], "init", i)
    /\ UNCHANGED <<partitions, leaders, network, clients>>

(* It asks once more for what it was given.                                 *)
InitAgain(i) ==
    /\ client[i].phase = "starting"
    /\ Serving /\ Idle(memory)
    /\ client[i].as = memory.last /\ memory.last # NoIdentity
    /\ client' = [client EXCEPT ![i].phase = "ready", ![i].as = memory.at]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

(* A transaction of an earlier instance is open: it is aborted first, and   *)
(* whoever asks is to come again.                                           *)
InitFences(i) ==
    /\ client[i].phase = "starting"
    /\ Serving /\ memory.state = "Ongoing"
    /\ CheckExpected => Expected(i)
    /\ Change(Fenced(i), "fence", i)
    /\ UNCHANGED <<partitions, leaders, network, clients>>

(* It names an epoch that is not the last any more.                         *)
InitRefused(i) ==
    /\ client[i].phase = "starting"
    /\ Serving
    /\ \/ Idle(memory)
       \/ memory.state = "Ongoing" /\ CheckExpected
    /\ client[i].as \notin {NoIdentity, memory.at, memory.last}
    /\ client' = [client EXCEPT ![i].phase = "fenced"]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

Begin(i, t) ==
    /\ client[i].phase = "ready"
    /\ owner[t] = 0 /\ \A u \in 1..(t - 1) : owner[u] # 0
    /\ client' = [client EXCEPT ![i].phase = "in", ![i].transaction = t]
    /\ owner' = [owner EXCEPT ![t] = client[i].as.id]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, told, timedOut>>

(* AddPartitionsToTxn, by the producer or, in version 2, by the leader of   *)
(* the partition.                                                           *)
AddPartition(i, p) ==
    /\ client[i].phase = "in"
    /\ Serving /\ ~Prepared(memory)
    /\ client[i].as = memory.at
    /\ p \notin memory.partitions
    /\ Change([memory EXCEPT !.state = "Ongoing", !.partitions = @ \cup {p},
                             !.transaction = client[i].transaction, !.by = i, !.fences = FALSE], "add", i)
    /\ UNCHANGED <<partitions, leaders, network, clients>>

(* The coordinator says that the partition is in the transaction.           *)
Verified(i, p) ==
    /\ role = "active" /\ memory.state = "Ongoing"
    /\ memory.at = client[i].as /\ p \in memory.partitions

(* The producer has added it, as in version 1 it must before it writes.     *)
Added(i, p) ==
    \E k \in 1..Len(log) : log[k].transaction = client[i].transaction /\ p \in log[k].partitions

(* A record is written and acknowledged. Where the producer has a           *)
(* transaction open in this epoch, nobody is asked; before KIP-890 never.   *)
Produce(i, p) ==
    LET as == client[i].as
        goesOn == Open(p, as.id) # {} /\ producers[p][as.id].epoch = as.epoch
    IN  /\ client[i].phase = "in"
        /\ p \notin leaderless
        /\ ~Wrote(client[i].transaction, p)
        /\ as.epoch >= producers[p][as.id].epoch
        /\ RefuseOverOpen => Open(p, as.id) = {} \/ goesOn
        /\ Version = 1 => Added(i, p)
        /\ Verify => goesOn \/ Verified(i, p)
        /\ records' = [records EXCEPT ![p] = Append(@, client[i].transaction)]
        /\ producers' = [producers EXCEPT ![p][as.id].epoch = as.epoch]
        /\ UNCHANGED <<ended, coordinator, leaders, network, clients>>

(* The application commits or aborts what it has written.                   *)
Finish(i, outcome) ==
    /\ client[i].phase = "in"
    /\ \E p \in Parts : Wrote(client[i].transaction, p)
    /\ client' = [client EXCEPT ![i].phase = outcome]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

(* EndTxn. In version 2 each end raises the epoch, and with its last epoch a*)
(* producer is given another id.                                            *)
EndTxn(i) ==
    LET at == IF Version = 2 THEN Above(memory.at) ELSE memory.at
        next == IF Version = 2 THEN After(memory.at) ELSE memory.at
        state == IF client[i].phase = "commit" THEN "PrepareCommit" ELSE "PrepareAbort"
    IN  /\ client[i].phase \in {"commit", "abort"}
        /\ Serving /\ memory.state = "Ongoing"
        /\ Dropped # "fence" => client[i].as = memory.at
        /\ Change([memory EXCEPT !.state = state, !.at = at, !.next = next, !.by = i, !.fences = FALSE,
                                 !.last = IF Version = 2 THEN memory.at ELSE @], "end", i)
        /\ UNCHANGED <<partitions, leaders, network, clients>>

(* The producer of the transaction that ended last, which may have ended for*)
(* its time.                                                                *)
\* @type: $identity => Bool;
EndedAs(a) ==
    IF Version = 2 THEN (Above(a) = memory.at /\ memory.at.epoch <= MaxEpoch) \/ a = memory.last ELSE a = memory.at

(* Whether the transaction that ended last is the one that i wants ended.   *)
IsRetry(i) ==
    /\ EndedAs(client[i].as)
    /\ RetryIsOwn => memory.by = Nobody \/ (memory.by = i /\ ~memory.fences)

(* It has ended already, as is wanted: the answer was lost.                 *)
EndAgain(i) ==
    /\ client[i].phase \in {"commit", "abort"}
    /\ Serving /\ memory.state \in {"CompleteCommit", "CompleteAbort"}
    /\ IsRetry(i)
    /\ Outcome(memory) = client[i].phase
    /\ client' = [client EXCEPT ![i] = [phase |-> "ready", as |-> memory.at, transaction |-> NoTransaction]]
    /\ told' = [told EXCEPT ![client[i].transaction] = client[i].phase]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, timedOut>>

(* There is nothing that i may end: its transaction was ended for it.       *)
EndRefused(i) ==
    /\ client[i].phase \in {"commit", "abort"}
    /\ Serving
    /\ ~(memory.state = "Ongoing" /\ client[i].as = memory.at)
    /\ ~(IsRetry(i) /\ (Prepared(memory) \/ Outcome(memory) = client[i].phase))
    /\ client' = [client EXCEPT ![i].phase = "fenced"]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

Die(i) ==
    /\ "crash" \in Faults
    /\ client[i].phase \notin {"off", "dead", "fenced"}
    /\ client' = [client EXCEPT ![i].phase = "dead"]
    /\ UNCHANGED <<coordinator, partitions, leaders, network, owner, told, timedOut>>

-----------------------------------------------------------------------------
(* The coordinator ends a transaction *)

(* What takes long is aborted. Nobody has taken the place of its producer,  *)
(* which may abort as well, or ask for its next epoch (KIP-588). With its   *)
(* last epoch it has none, and is fenced.                                   *)
TimeOut ==
    /\ "timeout" \in Faults
    /\ Serving /\ memory.state = "Ongoing"
    /\ Change([Fenced(Nobody) EXCEPT !.last = IF memory.at.epoch < MaxEpoch THEN memory.at ELSE NoIdentity], "fence", Nobody)
    /\ timedOut' = timedOut \cup {memory.transaction}
    /\ UNCHANGED <<client, owner, told, partitions, leaders, network>>

\* @type: Int => $marker;
Marker(p) ==
    [partition |-> p, at |-> memory.at, outcome |-> Outcome(memory), coordinator |-> coordinatorEpoch,
     transaction |-> memory.transaction]

(* Whether a partition takes a marker: of no older coordinator, of no older *)
(* epoch; and in version 2 only of a later one, or as the same one again.   *)
\* @type: $marker => Bool;
Takes(m) ==
    LET seen == producers[m.partition][m.at.id]
        again == Dropped # "ownRetry" /\ Open(m.partition, m.at.id) = {}
    IN  /\ FenceCoordinator => m.coordinator >= seen.coordinator
        /\ m.at.epoch >= seen.epoch
        /\ Version = 2 /\ StrictMarkers => m.at.epoch > seen.epoch \/ again

(* A marker ends whatever its producer has open.                            *)
\* @type: $marker => Bool;
Arrives(m) ==
    /\ m.partition \notin leaderless
    /\ Takes(m)
    /\ ended' = [ended EXCEPT ![m.partition] =
                    [t \in Transactions |->
                        IF @[t] = "none" /\ t \in Open(m.partition, m.at.id) \cup {m.transaction}
                        THEN m.outcome ELSE @[t]]]
    /\ producers' = [producers EXCEPT ![m.partition][m.at.id] =
                        [epoch |-> m.at.epoch, coordinator |-> m.coordinator]]
    /\ UNCHANGED <<records, leaders>>

(* The partition writes the marker and answers. A copy may be on its way.   *)
WriteMarker(p) ==
    /\ role = "active" /\ Prepared(memory)
    /\ p \in owed
    /\ Arrives(Marker(p))
    /\ owed' = owed \ {p}
    /\ sent' = IF copies < MaxCopies THEN sent \cup {Marker(p)} ELSE sent
    /\ UNCHANGED <<log, highWatermark, coordinatorEpoch, role, memory, pending, copies, clients>>

(* The answer is lost, and the coordinator will send the marker again.      *)
WriteMarkerUnheard(p) ==
    /\ copies < MaxCopies
    /\ role = "active" /\ Prepared(memory)
    /\ p \in owed
    /\ Arrives(Marker(p))
    /\ copies' = copies + 1
    /\ UNCHANGED <<coordinator, sent, clients>>

(* A copy arrives late, when the coordinator has long had the answer.       *)
LateMarker(p) ==
    /\ copies < MaxCopies
    /\ \E m \in sent : m.partition = p /\ Arrives(m)
    /\ copies' = copies + 1
    /\ UNCHANGED <<coordinator, sent, clients>>

(* Kafka 4.3 takes a partition without leader for one that was deleted.     *)
SkipMarker(p) ==
    /\ ~WaitForLeader
    /\ role = "active" /\ Prepared(memory)
    /\ p \in owed \cap leaderless
    /\ owed' = owed \ {p}
    /\ UNCHANGED <<log, highWatermark, coordinatorEpoch, role, memory, pending, partitions, leaders, network, clients>>

Complete ==
    /\ Serving /\ Prepared(memory)
    /\ Dropped # "complete" => owed = {}
    /\ Change([memory EXCEPT !.state = IF @ = "PrepareCommit" THEN "CompleteCommit" ELSE "CompleteAbort",
                             !.at = memory.next, !.partitions = {}, !.transaction = NoTransaction], "complete", Nobody)
    /\ UNCHANGED <<partitions, leaders, network, clients>>

LoseLeader(p) ==
    /\ downs < MaxDowns
    /\ p \notin leaderless
    /\ leaderless' = leaderless \cup {p} /\ downs' = downs + 1
    /\ UNCHANGED <<coordinator, partitions, network, clients>>

ElectLeader(p) ==
    /\ p \in leaderless
    /\ leaderless' = leaderless \ {p}
    /\ UNCHANGED <<downs, coordinator, partitions, network, clients>>

Next ==
    \/ Commit \/ Apply \/ TimeOut \/ Complete
    \/ \E kept \in 0..3 : Failover(kept)
    \/ \E i \in Instances : Start(i) \/ AskAgain(i) \/ InitProducerId(i) \/ InitAgain(i) \/ InitFences(i) \/ InitRefused(i)
    \/ \E i \in Instances : EndTxn(i) \/ EndAgain(i) \/ EndRefused(i) \/ Die(i)
    \/ \E i \in Instances, t \in Transactions : Begin(i, t)
    \/ \E i \in Instances, p \in Parts : AddPartition(i, p) \/ Produce(i, p)
    \/ \E i \in Instances, outcome \in {"commit", "abort"} : Finish(i, outcome)
    \/ \E p \in Parts : WriteMarker(p) \/ WriteMarkerUnheard(p) \/ LateMarker(p) \/ SkipMarker(p)
    \/ \E p \in Parts : LoseLeader(p) \/ ElectLeader(p)

Spec == Init /\ [][Next]_vars

(* What is under way gets on, and partitions get leaders again.             *)
Fair ==
    /\ Spec
    /\ WF_vars(Commit) /\ WF_vars(Apply) /\ WF_vars(Complete)
    /\ \A p \in Parts : WF_vars(WriteMarker(p)) /\ WF_vars(ElectLeader(p))

-----------------------------------------------------------------------------
(* It is what Transaction says. The decision is the committed record of it. *)
Decision ==
    [t \in Transactions |->
        LET decisions == {k \in 1..highWatermark : log[k].transaction = t /\ Prepared(log[k])}
        IN  IF decisions = {} THEN "none" ELSE Outcome(log[Max(decisions)])]

T == INSTANCE Transaction WITH
    Partitions <- Parts, Dropped <- "none",
    begun <- {t \in Transactions : owner[t] # 0}, decision <- Decision

RefinesTransaction == T!Spec
Atomic == T!Atomic
ToldTruly == T!ToldTruly

(* No record stays open that the coordinator does not know of: it would     *)
(* stand in the way of all readers of committed records for ever.           *)
NothingHangs ==
    Serving /\ highWatermark = Len(log) =>
        \A t \in Transactions, p \in Parts :
            Wrote(t, p) /\ ended[p][t] = "none" =>
                /\ memory.transaction = t /\ p \in memory.partitions
                /\ Prepared(memory) => p \in owed

(* Who gives way does so for a newer instance, or took too long.            *)
FencedForCause ==
    \A i \in Instances :
        client[i].phase = "fenced" =>
            \/ \E j \in (i + 1)..Producers : client[j].phase # "off"
            \/ client[i].transaction \in timedOut

(* An instance for which an earlier one was fenced has that fence for good, *)
(* also where epochs are exhausted.                                         *)
FenceIsFinal ==
    \A i \in Instances, k \in 1..highWatermark :
        log[k].fences /\ log[k].by > i /\ client[i].phase \in {"ready", "in"} => Below(client[i].as, log[k].at)

(* The coordinator's own marker is never refused: it would wait for ever.   *)
MarkersAreTaken ==
    role = "active" /\ Prepared(memory) => \A p \in owed : Takes(Marker(p))

(* A decided transaction ends in each partition that has records of it.     *)
DecidedEnds ==
    \A t \in Transactions, p \in Parts :
        (Decision[t] # "none" /\ Wrote(t, p)) ~> (ended[p][t] # "none")
(* And the next one may begin.                                              *)
PreparedCompletes == Prepared(memory) ~> Idle(memory)

-----------------------------------------------------------------------------
(* Probes: states that must be reachable, or the promises say nothing.      *)
NeverTold == \A t \in Transactions : told[t] = "none"
NeverCommittedInAll == \A t \in Transactions : \E p \in Parts : ended[p][t] # "commit" \/ ~Wrote(t, p)
NeverTwo == \E t \in Transactions : told[t] = "none"
NeverFencedInTransaction == \A i \in Instances : ~(client[i].phase = "fenced" /\ client[i].transaction # NoTransaction)
NeverLoading == role = "active"
NeverAnsweredLate ==
    \A i \in Instances : ~(client[i].phase \in {"commit", "abort"} /\ Serving /\ Idle(memory) /\ IsRetry(i))
NeverRotated == memory.at.id = 1
NeverRotatedByEnd == ~(memory.state = "PrepareCommit" /\ memory.next.id # memory.at.id)
NeverGivenAgain ==
    \A i \in Instances : ~(client[i].phase = "starting" /\ Serving /\ client[i].as = memory.last /\ memory.last # NoIdentity)
NeverWaitsForLeader == \A p \in Parts : ~(p \in owed /\ p \in leaderless)
=============================================================================
