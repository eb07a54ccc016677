---------------------------- MODULE ProducerState ----------------------------
(* What the leader of one partition remembers of its producers (KIP-98,     *)
(* KIP-360, KIP-890): epochs, the last sequences, the open transaction; and *)
(* how it decides which batches and markers it takes.                       *)
(*                                                                          *)
(* Producers and their coordinators are the environment. A producer sends   *)
(* its batches on a connection that may break. It sends again what was not  *)
(* answered, and the rest of the old connection may still arrive. The       *)
(* coordinator is one state per producer; TransactionCoordinator has the    *)
(* rest of it. Replication is a high watermark: an election keeps any part  *)
(* of what is above. Sequences and epochs begin at 1 here, in Kafka at 0.   *)
EXTENDS Logs, FiniteSets, Apalache

CONSTANTS
    (* @type: Int; *)      Producers,        \* bound: producer ids 1..Producers
    (* @type: Int; *)      Batches,          \* bound: batches that a producer sends in one epoch
    (* @type: Int; *)      MaxTransactions,  \* bound: transactions, of all producers together
    (* @type: Int; *)      MaxBreaks,        \* bound: connections that break
    (* @type: Int; *)      MaxFailovers,     \* bound: elections of another leader
    (* @type: Int; *)      MaxCoordinators,  \* bound: the last coordinator epoch
    (* @type: Int; *)      MaxCopies,        \* bound: markers whose answer is lost, or that arrive late
    (* @type: Int; *)      MaxDrops,         \* bound: markers that the coordinator drops (KAFKA-20734)
    (* @type: Int; *)      MaxDays,          \* bound: days on which a producer sends nothing
    (* @type: Set(Str); *) Faults,           \* which others there are, see below
    (* @type: Int; *)      InFlight,         \* batches that wait for their answers: at most 5 in Kafka
    (* @type: Int; *)      Version,          \* transaction.version, 1 or 2; 0: no transactions, only idempotence
    (* @type: Int; *)      Window,           \* batches of a producer that are remembered: 5 in Kafka
    (* @type: Int; *)      Reload,           \* those of them that a new leader has. Kafka's snapshots: 1
    (* @type: Bool; *)     StrictMarkers,    \* 2: a marker of the epoch that is there ends nothing (KAFKA-19446)
    (* @type: Bool; *)     ExactMarkers,     \* 2: it ends only the epoch before its own. Kafka 4.3: FALSE
    (* @type: Bool; *)     FenceCoordinator, \* a marker of an older coordinator epoch is refused (KIP-98)
    (* @type: Bool; *)     Verify,           \* the coordinator is asked about the first write (KIP-890)
    (* @type: Bool; *)     GuardOfEpoch,     \* only its own transaction takes a write's guard. Kafka 4.3: FALSE
    (* @type: Bool; *)     ByClock,          \* producers expire by the broker's clock. Kafka 4.3: FALSE
    (* @type: Bool; *)     RefuseOverOpen,   \* no write of a later epoch while one is open. Kafka 4.3: FALSE
    (* @type: Str; *)      Dropped           \* the rule that is left out, "none" as it should be

(* Faults: "fence", the coordinator aborts a transaction for a new instance;*)
(* "late", a marker that was written arrives once more; "stamps", producers *)
(* stamp their records with old timestamps; "lag", followers take their time*)
(* (without it all is replicated at once); "unheard", the answer to a marker*)
(* is lost.                                                                 *)
ASSUME Faults \subseteq {"fence", "late", "stamps", "lag", "unheard"}
ASSUME Version \in {0, 1, 2}

(* Dropped: "sequence", a batch need not be the next one; "epoch", nor of   *)
(* the current epoch; "guard", a verified write is not asked whether its    *)
(* transaction has ended since (KAFKA-14884); "unique", another write's     *)
(* guard will do; "lowest", a batch may pass one that waits (KAFKA-14920);  *)
(* "ownGuard", the marker of the transaction before takes the guard of the  *)
(* next one's write (KAFKA-18575); "ownRetry", a marker that is written     *)
(* already is refused (KAFKA-19999); "open", a producer with an open        *)
(* transaction expires; "unreplicated", readers do not wait until a marker  *)
(* is replicated; "reload", a new leader does not know what is open; "acks",*)
(* a producer is answered before its batch is replicated.                   *)
ASSUME Dropped \in {"none", "sequence", "epoch", "guard", "unique", "lowest", "ownGuard", "ownRetry", "open",
                    "unreplicated", "reload", "acks"}

\* @typeAlias: entry = {kind: Str, producer: Int, epoch: Int, sequence: Int, transaction: Int, coordinator: Int};
\* @typeAlias: memory = {known: Bool, epoch: Int, coordinator: Int, seen: Seq(Int), first: Int, idle: Bool};
\* @typeAlias: batch = {epoch: Int, sequence: Int, transaction: Int};
\* @typeAlias: asking = {phase: Str, guarded: Bool};
\* @typeAlias: client = {phase: Str, epoch: Int, transaction: Int, sent: Int, arrived: Int, heard: Int};
\* @typeAlias: coordinator = {phase: Str, epoch: Int, transaction: Int, marker: Int};
Ids == 1..Producers
Transactions == 1..MaxTransactions
Connections == {"new", "old"}
NoTransaction == 0
Nothing == 0
Unknown == [known |-> FALSE, epoch |-> 0, coordinator |-> 0, seen |-> <<>>, first |-> 0, idle |-> FALSE]
NoGuard == [epoch |-> 0, lowest |-> 0]
NotAsking == [phase |-> "none", guarded |-> FALSE]
NoBatches == [epoch |-> 0, transaction |-> 0, next |-> 1, last |-> 0]

VARIABLES
    (* @type: Seq($entry); *)        log,            \* batches and markers
    (* @type: Int; *)                highWatermark,
    (* @type: Int -> $memory; *)     producers,      \* what the leader remembers of each
    (* @type: Set({first: Int, last: Int}); *) unreplicated, \* transactions whose marker is not replicated
    (* @type: Int -> {epoch: Int, lowest: Int}; *) guard, \* of the writes that wait for the coordinator
    (* @type: Int -> (Str -> $asking); *) asking,    \* per connection: the write at its head
    (* @type: Int -> $client; *)     client,
    (* @type: Int -> {epoch: Int, transaction: Int, next: Int, last: Int}; *) old, \* what a broken connection still holds
    (* @type: Int -> $coordinator; *) coordinator,   \* of each producer; where its marker is in the log, or 0
    (* @type: Int; *)                coordinatorEpoch,
    (* @type: Set($entry); *)        sent,           \* markers of which a copy may still arrive
    (* @type: Int -> Str; *)         decision,       \* per transaction
    (* @type: Int; *)                begun,          \* transactions that were begun
    (* @type: {breaks: Int, failovers: Int, copies: Int, drops: Int, days: Int}; *) count

partition == <<log, highWatermark, producers, unreplicated>>
verification == <<guard, asking>>
network == <<old, sent, count>>
coordinators == <<coordinator, coordinatorEpoch, decision>>
vars == <<partition, verification, client, begun, network, coordinators>>

Init ==
    /\ log = <<>> /\ highWatermark = 0
    /\ producers = [i \in Ids |-> Unknown]
    /\ unreplicated = {}
    /\ guard = [i \in Ids |-> NoGuard]
    /\ asking = [i \in Ids |-> [c \in Connections |-> NotAsking]]
    /\ client = [i \in Ids |-> [phase |-> IF Version = 0 THEN "in" ELSE "ready", epoch |-> 1,
                                transaction |-> NoTransaction, sent |-> 0, arrived |-> 0, heard |-> 0]]
    /\ old = [i \in Ids |-> NoBatches]
    /\ coordinator = [i \in Ids |-> [phase |-> "idle", epoch |-> 1, transaction |-> NoTransaction, marker |-> 0]]
    /\ coordinatorEpoch = 1
    /\ sent = {}
    /\ decision = [t \in Transactions |-> "none"]
    /\ begun = 0
    /\ count = [breaks |-> 0, failovers |-> 0, copies |-> 0, drops |-> 0, days |-> 0]

-----------------------------------------------------------------------------
(* The log *)

\* @type: $entry => Bool;
IsData(e) == e.kind = "data"

(* What a leader knows of a producer that has the first n entries: what it  *)
(* remembers is a replay of them.                                           *)
\* @type: (Seq($entry), Int, Int) => $memory;
Replayed(entries, i, window) ==
    LET (* @type: $entry => Bool; *)
        Mine(e) == e.producer = i
        mine == SelectSeq(entries, Mine)
        now == mine[Len(mine)].epoch
        (* @type: $entry => Bool; *)
        Sequenced(e) == e.producer = i /\ IsData(e) /\ e.epoch = now
        sequenced == SelectSeq(entries, Sequenced)
        (* @type: Int => Int; *)
        SequenceOf(k) == sequenced[k].sequence
        sequences == MkSeq(Len(sequenced), SequenceOf)
        Marks(k) == entries[k].producer = i /\ ~IsData(entries[k])
        markers == {k \in 1..Len(entries) : Marks(k)}
        since == IF markers = {} THEN 0 ELSE Max(markers)
        open == {k \in (since + 1)..Len(entries) : entries[k].producer = i /\ entries[k].transaction # NoTransaction}
    IN  IF mine = <<>> THEN Unknown
        ELSE [known |-> TRUE, epoch |-> now,
              coordinator |-> IF since = 0 THEN 0 ELSE entries[since].coordinator,
              seen |-> SubSeq(sequences, IF Len(sequences) > window THEN Len(sequences) - window + 1 ELSE 1, Len(sequences)),
              first |-> IF open = {} THEN 0 ELSE Min(open),
              idle |-> FALSE]

(* The marker that ends the entry at k among the first n, 0 for none.       *)
\* @type: (Int, Int) => Int;
MarkerOf(k, n) ==
    LET later == {m \in (k + 1)..n : log[m].producer = log[k].producer /\ ~IsData(log[m])}
    IN  IF later = {} THEN 0 ELSE Min(later)

(* Transactions with a marker that is in the log and not replicated.        *)
\* @type: (Int, Int) => Set({first: Int, last: Int});
Unreplicated(n, committed) ==
    LET Undecided(k) == IsData(log[k]) /\ log[k].transaction # NoTransaction /\ MarkerOf(k, n) > committed
        all == {k \in 1..n : Undecided(k)}
        First(k) == \A j \in all : log[j].producer = log[k].producer /\ MarkerOf(j, n) = MarkerOf(k, n) => j >= k
    IN  {[first |-> k, last |-> MarkerOf(k, n)] : k \in {j \in all : First(j)}}

(* The last stable offset: readers of committed records stop before the     *)
(* first one that is open, or whose end is not replicated yet.              *)
LastStable ==
    LET open == {producers[i].first - 1 : i \in {j \in Ids : producers[j].first # 0}}
        ending == IF Dropped = "unreplicated" THEN {} ELSE {u.first - 1 : u \in unreplicated}
    IN  Min({highWatermark} \cup open \cup ending)

(* How far the log is replicated, when it has n entries.                    *)
\* @type: Int => Int;
Replicated(n) == IF "lag" \in Faults THEN highWatermark ELSE n

(* Another entry is replicated.                                             *)
Commit ==
    /\ highWatermark < Len(log)
    /\ highWatermark' = highWatermark + 1
    /\ unreplicated' = {u \in unreplicated : u.last > highWatermark + 1}
    /\ UNCHANGED <<log, producers, verification, client, begun, network, coordinators>>

(* Another broker leads, with some of what is not replicated. It remembers  *)
(* what its log says, as if it had heard it now, and no write that waited.  *)
(* Whoever was not answered asks again.                                     *)
Failover(kept) ==
    LET n == highWatermark + kept
    IN  /\ count.failovers < MaxFailovers
        /\ n <= Len(log)
        /\ log' = Take(log, n)
        /\ producers' = [i \in Ids |->
                            LET replayed == Replayed(Take(log, n), i, Reload)
                            IN  IF Dropped = "reload" THEN [replayed EXCEPT !.first = 0] ELSE replayed]
        /\ unreplicated' = Unreplicated(n, highWatermark)
        /\ guard' = [i \in Ids |-> NoGuard]
        /\ asking' = [i \in Ids |-> [c \in Connections |-> NotAsking]]
        /\ client' = [i \in Ids |-> [client[i] EXCEPT !.arrived = client[i].heard]]
        /\ old' = [i \in Ids |-> NoBatches]
        /\ coordinator' = [i \in Ids |-> [coordinator[i] EXCEPT !.marker = 0]]
        /\ count' = [count EXCEPT !.failovers = @ + 1]
        /\ UNCHANGED <<highWatermark, begun, sent, coordinatorEpoch, decision>>

-----------------------------------------------------------------------------
(* What the leader takes *)

\* @type: Int => Int;
LastSequence(i) == IF producers[i].seen = <<>> THEN 0 ELSE producers[i].seen[Len(producers[i].seen)]

(* A batch is known by its sequence, as long as it is remembered.           *)
\* @type: (Int, $batch) => Bool;
Duplicate(i, b) ==
    b.epoch = producers[i].epoch /\ \E k \in 1..Len(producers[i].seen) : producers[i].seen[k] = b.sequence

(* The producer has a transaction open here, in this epoch.                 *)
\* @type: (Int, $batch) => Bool;
GoesOn(i, b) == producers[i].first # 0 /\ producers[i].epoch = b.epoch

(* A producer that is not known goes on anywhere (KIP-360), but begins its  *)
(* transaction with its first batch in version 2. No batch passes another   *)
(* one that waits.                                                          *)
\* @type: (Int, $batch) => Bool;
InSequence(i, b) ==
    /\ CASE ~producers[i].known -> Version = 2 => b.sequence = 1
         [] producers[i].known /\ producers[i].epoch # b.epoch -> b.sequence = 1
         [] OTHER -> b.sequence = LastSequence(i) + 1
    /\ Dropped # "lowest" /\ guard[i] # NoGuard => b.sequence <= guard[i].lowest

(* The first write of a transaction is taken with the coordinator's word,   *)
(* and only while the guard is there that was made for it.                  *)
\* @type: (Int, Str, $batch) => Bool;
MustAsk(i, c, b) == Version > 0 /\ Verify /\ ~GoesOn(i, b) /\ asking[i][c].phase # "verified"
\* @type: (Int, Str, $batch) => Bool;
Guarded(i, c, b) ==
    \/ Version = 0 \/ ~Verify \/ GoesOn(i, b) \/ Dropped = "guard"
    \/ IF Dropped = "unique" THEN guard[i] # NoGuard ELSE asking[i][c].guarded

\* @type: (Int, $batch) => Bool;
OfThisEpoch(i, b) == Dropped = "epoch" \/ b.epoch >= producers[i].epoch
\* @type: (Int, $batch) => Bool;
OverNothing(i, b) == producers[i].first = 0 \/ producers[i].epoch = b.epoch

\* @type: (Int, Str, $batch) => Bool;
Takes(i, c, b) ==
    /\ Guarded(i, c, b)
    /\ OfThisEpoch(i, b)
    /\ RefuseOverOpen => OverNothing(i, b)
    /\ Dropped # "sequence" => InSequence(i, b)

(* A connection's next batch.                                               *)
\* @type: (Int, Str) => $batch;
Batch(i, c) ==
    IF c = "new"
    THEN [epoch |-> client[i].epoch, sequence |-> client[i].arrived + 1, transaction |-> client[i].transaction]
    ELSE [epoch |-> old[i].epoch, sequence |-> old[i].next, transaction |-> old[i].transaction]

\* @type: (Int, Str) => Bool;
Waits(i, c) == IF c = "new" THEN client[i].phase = "in" /\ client[i].arrived < client[i].sent ELSE old[i].next <= old[i].last

(* At most one old connection has anything left.                            *)
\* @type: Int => Bool;
Drained(i) == old[i].next > old[i].last

\* @type: (Int, Str) => Bool;
GoOn(i, c) ==
    /\ client' = IF c = "new" THEN [client EXCEPT ![i].arrived = @ + 1] ELSE client
    /\ old' = IF c = "old" THEN [old EXCEPT ![i].next = @ + 1] ELSE old

(* What is refused its producer sends again; of an old connection nobody    *)
(* hears.                                                                   *)
\* @type: (Int, Str) => Bool;
Again(i, c) ==
    /\ client' = IF c = "new" THEN [client EXCEPT ![i].arrived = client[i].heard] ELSE client
    /\ old' = IF c = "old" THEN [old EXCEPT ![i].next = @ + 1] ELSE old
    /\ asking' = [asking EXCEPT ![i][c] = NotAsking]

(* The guard goes, and with it the right of all writes that wait.           *)
\* @type: Int => Bool;
Unguard(i) ==
    /\ guard' = [guard EXCEPT ![i] = NoGuard]
    /\ asking' = [asking EXCEPT ![i] = [c \in Connections |-> [asking[i][c] EXCEPT !.guarded = FALSE]]]

(* A batch is appended.                                                     *)
Produce(i, c) ==
    LET b == Batch(i, c)
        p == producers[i]
        before == IF p.epoch = b.epoch THEN p.seen ELSE <<>>
        longer == Append(before, b.sequence)
        kept == GuardOfEpoch /\ guard[i].epoch > b.epoch
    IN  /\ Waits(i, c)
        /\ ~MustAsk(i, c, b)
        /\ ~Duplicate(i, b)
        /\ Guarded(i, c, b)
        /\ OfThisEpoch(i, b)
        /\ RefuseOverOpen => OverNothing(i, b)
        /\ Dropped # "sequence" => InSequence(i, b)
        /\ log' = Append(log, [kind |-> "data", producer |-> i, epoch |-> b.epoch, sequence |-> b.sequence,
                               transaction |-> b.transaction, coordinator |-> 0])
        /\ producers' = [producers EXCEPT ![i] =
                            [p EXCEPT !.known = TRUE, !.epoch = b.epoch, !.idle = FALSE,
                                      !.seen = IF Len(longer) > Window THEN Tail(longer) ELSE longer,
                                      !.first = IF @ # 0 \/ Version = 0 THEN @ ELSE Len(log) + 1]]
        /\ guard' = [guard EXCEPT ![i] = IF kept THEN @ ELSE NoGuard]
        /\ asking' = [asking EXCEPT ![i] =
                         [d \in Connections |-> IF d = c THEN NotAsking
                                                ELSE [asking[i][d] EXCEPT !.guarded = @ /\ kept]]]
        /\ highWatermark' = Replicated(Len(log) + 1)
        /\ GoOn(i, c)
        /\ UNCHANGED <<unreplicated, begun, sent, count, coordinators>>

(* It is there already: the answer is that of the first time.               *)
AnswerDuplicate(i, c) ==
    /\ Waits(i, c)
    /\ Duplicate(i, Batch(i, c))
    /\ GoOn(i, c)
    /\ asking' = [asking EXCEPT ![i][c] = NotAsking]
    /\ UNCHANGED <<partition, guard, begun, sent, count, coordinators>>

Refuse(i, c) ==
    /\ Waits(i, c)
    /\ ~MustAsk(i, c, Batch(i, c))
    /\ ~Duplicate(i, Batch(i, c))
    /\ ~Takes(i, c, Batch(i, c))
    /\ Again(i, c)
    /\ UNCHANGED <<partition, guard, begun, sent, count, coordinators>>

(* A first write makes a guard, waits, and has the coordinator asked. The   *)
(* guard is one for all writes that wait, and remembers the lowest of them. *)
Ask(i, c) ==
    LET b == Batch(i, c)
        g == guard[i]
    IN  /\ Waits(i, c)
        /\ MustAsk(i, c, b)
        /\ ~Duplicate(i, b)
        /\ asking[i][c].phase = "none"
        /\ asking' = [asking EXCEPT ![i][c] = [phase |-> "asked", guarded |-> TRUE]]
        /\ guard' = [guard EXCEPT ![i] =
                        IF g = NoGuard \/ b.epoch > g.epoch THEN [epoch |-> b.epoch, lowest |-> b.sequence]
                        ELSE IF b.epoch = g.epoch /\ b.sequence < g.lowest THEN [g EXCEPT !.lowest = b.sequence]
                        ELSE g]
        /\ UNCHANGED <<partition, client, begun, network, coordinators>>

(* The coordinator says that the partition is in the transaction. In        *)
(* version 2 it adds it.                                                    *)
Verified(i, c) ==
    LET b == Batch(i, c)
    IN  /\ asking[i][c].phase = "asked"
        /\ coordinator[i].epoch = b.epoch
        /\ coordinator[i].phase = "ongoing" \/ (Version = 2 /\ coordinator[i].phase = "idle")
        /\ asking' = [asking EXCEPT ![i][c].phase = "verified"]
        /\ coordinator' = [coordinator EXCEPT ![i].phase = "ongoing", ![i].transaction = b.transaction]
        /\ UNCHANGED <<partition, guard, client, begun, network, coordinatorEpoch, decision>>

(* It says no. While a transaction ends the write goes on waiting.          *)
Denied(i, c) ==
    /\ asking[i][c].phase = "asked"
    /\ coordinator[i].epoch # Batch(i, c).epoch \/ (Version = 1 /\ coordinator[i].phase = "idle")
    /\ Again(i, c)
    /\ UNCHANGED <<partition, guard, begun, sent, count, coordinators>>

(* It cannot be asked, and the write is refused. What follows on the        *)
(* connection arrives before the producer sends again.                      *)
AskFails(i) ==
    /\ count.breaks < MaxBreaks
    /\ asking[i]["new"].phase = "asked"
    /\ Drained(i)
    /\ old' = [old EXCEPT ![i] = [epoch |-> client[i].epoch, transaction |-> client[i].transaction,
                                 next |-> client[i].arrived + 2, last |-> client[i].sent]]
    /\ client' = [client EXCEPT ![i].arrived = client[i].heard]
    /\ asking' = [asking EXCEPT ![i]["new"] = NotAsking]
    /\ count' = [count EXCEPT !.breaks = @ + 1]
    /\ UNCHANGED <<partition, guard, begun, sent, coordinators>>

-----------------------------------------------------------------------------
(* Markers *)

\* @type: (Int, Str) => $entry;
Marker(i, outcome) ==
    [kind |-> outcome, producer |-> i, epoch |-> coordinator[i].epoch, sequence |-> 0,
     transaction |-> coordinator[i].transaction, coordinator |-> coordinatorEpoch]

\* @type: $entry => Bool;
OfNoOlderCoordinator(m) == FenceCoordinator => m.coordinator >= producers[m.producer].coordinator
(* In version 2 each transaction has its own epoch: a marker of the epoch   *)
(* that is there is one that is written already, and one that is further    *)
(* ahead is of another transaction than the one that is open.               *)
\* @type: $entry => Bool;
OfNewEpoch(m) ==
    LET p == producers[m.producer]
    IN  /\ m.epoch >= p.epoch
        /\ Version = 2 /\ StrictMarkers => m.epoch > p.epoch \/ (p.first = 0 /\ Dropped # "ownRetry")
        /\ Version = 2 /\ ExactMarkers /\ p.first # 0 => m.epoch <= p.epoch + 1

(* In version 2 the epoch of a write tells that it is of a later            *)
(* transaction. Kafka 4.3 compares for equality, and keeps no guard when    *)
(* data is written.                                                         *)
\* @type: (Int, $entry) => Bool;
OfLaterTransaction(i, m) ==
    CASE Version < 2 \/ Dropped = "ownGuard" -> FALSE
      [] GuardOfEpoch -> guard[i].epoch >= m.epoch
      [] OTHER -> guard[i].epoch = m.epoch

\* @type: $entry => Bool;
AppendMarker(m) ==
    LET i == m.producer
        p == producers[i]
    IN  /\ OfNoOlderCoordinator(m)
        /\ OfNewEpoch(m)
        /\ log' = Append(log, m)
        /\ producers' = [producers EXCEPT ![i] =
                            [known |-> TRUE, epoch |-> m.epoch, coordinator |-> m.coordinator,
                             seen |-> IF p.epoch = m.epoch THEN p.seen ELSE <<>>, first |-> 0, idle |-> FALSE]]
        /\ highWatermark' = Replicated(Len(log) + 1)
        /\ unreplicated' = IF p.first = 0 \/ "lag" \notin Faults THEN unreplicated
                           ELSE unreplicated \cup {[first |-> p.first, last |-> Len(log) + 1]}
        /\ IF OfLaterTransaction(i, m) THEN UNCHANGED verification ELSE Unguard(i)

Ending(i) == coordinator[i].phase \in {"commit", "abort"}

(* The marker of a transaction that ends is written.                        *)
WriteMarker(i) ==
    /\ Ending(i)
    /\ coordinator[i].marker = 0
    /\ AppendMarker(Marker(i, coordinator[i].phase))
    /\ coordinator' = [coordinator EXCEPT ![i].marker = Len(log) + 1]
    /\ sent' = IF "late" \in Faults /\ count.copies < MaxCopies
               THEN sent \cup {Marker(i, coordinator[i].phase)} ELSE sent
    /\ UNCHANGED <<client, begun, old, count, coordinatorEpoch, decision>>

(* Its answer is lost, and the coordinator will send it again.              *)
LoseAnswer(i) ==
    /\ "unheard" \in Faults
    /\ count.copies < MaxCopies
    /\ coordinator[i].marker # 0
    /\ coordinator' = [coordinator EXCEPT ![i].marker = 0]
    /\ count' = [count EXCEPT !.copies = @ + 1]
    /\ UNCHANGED <<partition, verification, client, begun, old, sent, coordinatorEpoch, decision>>

(* A copy arrives, or a marker that an earlier coordinator had sent.        *)
LateMarker(i) ==
    /\ count.copies < MaxCopies
    /\ \E m \in sent : m.producer = i /\ AppendMarker(m)
    /\ count' = [count EXCEPT !.copies = @ + 1]
    /\ UNCHANGED <<client, begun, old, sent, coordinators>>

(* The marker is replicated, which is its answer.                           *)
Complete(i) ==
    /\ coordinator[i].marker # 0
    /\ coordinator[i].marker <= highWatermark
    /\ coordinator' = [coordinator EXCEPT ![i].phase = "idle", ![i].marker = 0, ![i].transaction = NoTransaction]
    /\ UNCHANGED <<partition, verification, client, begun, network, coordinatorEpoch, decision>>

(* Kafka 4.3 takes a partition that has no leader for one that was deleted. *)
DropMarker(i) ==
    /\ count.drops < MaxDrops
    /\ Ending(i) /\ coordinator[i].marker = 0
    /\ coordinator' = [coordinator EXCEPT ![i].phase = "idle", ![i].transaction = NoTransaction]
    /\ count' = [count EXCEPT !.drops = @ + 1]
    /\ UNCHANGED <<partition, verification, client, begun, old, sent, coordinatorEpoch, decision>>

(* Another coordinator takes over. What the one before has sent may be on   *)
(* its way.                                                                 *)
NewCoordinator ==
    /\ coordinatorEpoch < MaxCoordinators
    /\ coordinatorEpoch' = coordinatorEpoch + 1
    /\ sent' = IF count.copies < MaxCopies
               THEN sent \cup {Marker(i, coordinator[i].phase) : i \in {j \in Ids : Ending(j)}} ELSE sent
    /\ coordinator' = [i \in Ids |-> [coordinator[i] EXCEPT !.marker = 0]]
    /\ UNCHANGED <<partition, verification, client, begun, old, count, decision>>

-----------------------------------------------------------------------------
(* Producers *)

\* @type: Int => Bool;
Open(i) == producers[i].first # 0
(* What was sent and not answered stays on the old connection.              *)
\* @type: (Int, $client) => Bool;
LeftBehind(i, c) ==
    /\ old' = IF c.arrived < c.sent
              THEN [old EXCEPT ![i] = [epoch |-> c.epoch, transaction |-> c.transaction,
                                       next |-> c.arrived + 1, last |-> c.sent]]
              ELSE old
    /\ asking' = IF c.arrived < c.sent
                 THEN [asking EXCEPT ![i] = [d \in Connections |-> IF d = "old" THEN asking[i]["new"] ELSE NotAsking]]
                 ELSE asking

Begin(i) ==
    /\ client[i].phase = "ready"
    /\ begun < MaxTransactions
    /\ Version = 1 => coordinator[i].phase = "idle"
    /\ begun' = begun + 1
    /\ client' = [client EXCEPT ![i].phase = "in", ![i].transaction = begun + 1]
    /\ coordinator' = IF Version = 1
                      THEN [coordinator EXCEPT ![i].phase = "ongoing", ![i].transaction = begun + 1]
                      ELSE coordinator
    /\ UNCHANGED <<partition, verification, network, coordinatorEpoch, decision>>

Send(i) ==
    /\ client[i].phase = "in"
    /\ client[i].sent < Batches
    /\ client[i].sent - client[i].heard < InFlight
    /\ client' = [client EXCEPT ![i].sent = @ + 1]
    /\ UNCHANGED <<partition, verification, begun, network, coordinators>>

(* It hears of its next batch when that is replicated (acks=all).           *)
Hear(i) ==
    LET c == client[i]
    IN  /\ c.heard < c.arrived
        /\ \E k \in 1..(IF Dropped = "acks" THEN Len(log) ELSE highWatermark) :
            IsData(log[k]) /\ log[k].producer = i /\ log[k].epoch = c.epoch /\ log[k].sequence = c.heard + 1
        /\ client' = [client EXCEPT ![i].heard = @ + 1]
        /\ UNCHANGED <<partition, verification, begun, network, coordinators>>

(* The connection breaks, and the producer sends again.                     *)
Reconnect(i) ==
    /\ count.breaks < MaxBreaks
    /\ client[i].phase = "in"
    /\ client[i].heard < client[i].sent
    /\ Drained(i)
    /\ LeftBehind(i, client[i])
    /\ client' = [client EXCEPT ![i].arrived = client[i].heard]
    /\ count' = [count EXCEPT !.breaks = @ + 1]
    /\ UNCHANGED <<partition, guard, begun, sent, coordinators>>

(* EndTxn. The decision is told at once. In version 2 each end raises the   *)
(* epoch; in version 1 a producer that gave up a batch asks for another one.*)
EndTxn(i, outcome) ==
    LET c == client[i]
        all == c.heard = c.sent
        up == IF Version = 2 THEN 1 ELSE 0
    IN  /\ c.phase = "in" /\ Version > 0
        /\ outcome = "commit" => all /\ c.sent > 0
        /\ coordinator[i].epoch = c.epoch
        /\ coordinator[i].phase = "ongoing" \/ (Version = 2 /\ coordinator[i].phase = "idle")
        /\ Drained(i)
        /\ LeftBehind(i, c)
        /\ coordinator' = [coordinator EXCEPT ![i].phase = IF @ = "idle" THEN "idle" ELSE outcome, ![i].epoch = @ + up]
        /\ decision' = [decision EXCEPT ![c.transaction] = outcome]
        /\ client' = [client EXCEPT ![i] =
                         IF Version = 2
                         THEN [phase |-> "ready", epoch |-> c.epoch + 1, transaction |-> 0, sent |-> 0, arrived |-> 0, heard |-> 0]
                         ELSE [c EXCEPT !.phase = IF all THEN "ready" ELSE "starting", !.transaction = NoTransaction]]
        /\ UNCHANGED <<partition, guard, begun, sent, count, coordinatorEpoch>>

(* A new instance takes over: the transaction of the one before is aborted  *)
(* above its epoch. What that one has sent may still arrive.                *)
Fence(i) ==
    /\ "fence" \in Faults
    /\ client[i].phase = "in"
    /\ coordinator[i].phase = "ongoing"
    /\ Drained(i)
    /\ LeftBehind(i, client[i])
    /\ coordinator' = [coordinator EXCEPT ![i].phase = "abort", ![i].epoch = @ + 1]
    /\ decision' = [decision EXCEPT ![client[i].transaction] = "abort"]
    /\ client' = [client EXCEPT ![i].phase = "starting", ![i].transaction = NoTransaction]
    /\ UNCHANGED <<partition, guard, begun, sent, count, coordinatorEpoch>>

InitProducerId(i) ==
    /\ client[i].phase = "starting"
    /\ coordinator[i].phase = "idle"
    /\ coordinator' = [coordinator EXCEPT ![i].epoch = @ + 1]
    /\ client' = [client EXCEPT ![i] = [phase |-> "ready", epoch |-> coordinator[i].epoch + 1, transaction |-> 0,
                                        sent |-> 0, arrived |-> 0, heard |-> 0]]
    /\ UNCHANGED <<partition, verification, begun, network, coordinatorEpoch, decision>>

(* Nothing comes of a producer for producer.id.expiration.ms: no request is *)
(* under way that long (delivery.timeout.ms).                               *)
DayPasses(i) ==
    /\ count.days < MaxDays
    /\ producers[i].known /\ ~producers[i].idle
    /\ client[i].heard = client[i].sent \/ client[i].phase # "in"
    /\ Drained(i) /\ ~Ending(i) /\ sent = {}
    /\ producers' = [producers EXCEPT ![i].idle = TRUE]
    /\ count' = [count EXCEPT !.days = @ + 1]
    /\ UNCHANGED <<log, highWatermark, unreplicated, verification, client, begun, old, sent, coordinators>>

(* The leader forgets it. Kafka counts from its records' timestamps.        *)
Expire(i) ==
    /\ producers[i].known
    /\ producers[i].idle \/ (~ByClock /\ "stamps" \in Faults)
    /\ Dropped # "open" => ~Open(i)
    /\ producers' = [producers EXCEPT ![i] = Unknown]
    /\ UNCHANGED <<log, highWatermark, unreplicated, verification, client, begun, network, coordinators>>

Next ==
    \/ Commit
    \/ \E kept \in 0..3 : Failover(kept)
    \/ \E i \in Ids, c \in Connections : Produce(i, c)
    \/ \E i \in Ids, c \in Connections : AnswerDuplicate(i, c)
    \/ \E i \in Ids, c \in Connections : Refuse(i, c)
    \/ \E i \in Ids, c \in Connections : Ask(i, c)
    \/ \E i \in Ids, c \in Connections : Verified(i, c)
    \/ \E i \in Ids, c \in Connections : Denied(i, c)
    \/ \E i \in Ids : AskFails(i)
    \/ \E i \in Ids : WriteMarker(i)
    \/ \E i \in Ids : LoseAnswer(i)
    \/ \E i \in Ids : LateMarker(i)
    \/ \E i \in Ids : Complete(i)
    \/ \E i \in Ids : DropMarker(i)
    \/ NewCoordinator
    \/ \E i \in Ids : Begin(i)
    \/ \E i \in Ids : Send(i)
    \/ \E i \in Ids : Hear(i)
    \/ \E i \in Ids : Reconnect(i)
    \/ \E i \in Ids, outcome \in {"commit", "abort"} : EndTxn(i, outcome)
    \/ \E i \in Ids : Fence(i)
    \/ \E i \in Ids : InitProducerId(i)
    \/ \E i \in Ids : DayPasses(i)
    \/ \E i \in Ids : Expire(i)

Spec == Init /\ [][Next]_vars

(* What is under way gets on.                                               *)
Fair ==
    /\ Spec
    /\ WF_vars(Commit)
    /\ \A i \in Ids, c \in Connections :
        WF_vars(Produce(i, c) \/ AnswerDuplicate(i, c) \/ Refuse(i, c) \/ Ask(i, c) \/ Verified(i, c) \/ Denied(i, c))
    /\ \A i \in Ids : WF_vars(Hear(i)) /\ WF_vars(WriteMarker(i)) /\ WF_vars(Complete(i))

-----------------------------------------------------------------------------
(* Promises *)

Data(n) == SelectSeq(Take(log, n), IsData)

(* No batch is in the log twice, and none before the one that precedes it.  *)
Once ==
    \A j, k \in 1..Len(log) :
        IsData(log[j]) /\ IsData(log[k]) /\ log[j].producer = log[k].producer
            /\ log[j].epoch = log[k].epoch /\ log[j].sequence = log[k].sequence => j = k
InOrder ==
    \A k \in 1..Len(log) :
        IsData(log[k]) /\ log[k].sequence > 1 =>
            \E j \in 1..(k - 1) :
                /\ IsData(log[j]) /\ log[j].producer = log[k].producer
                /\ log[j].epoch = log[k].epoch /\ log[j].sequence = log[k].sequence - 1

(* What a producer has heard of is there.                                   *)
Kept ==
    \A i \in Ids, s \in 1..Batches :
        s <= client[i].heard =>
            \E k \in 1..highWatermark :
                IsData(log[k]) /\ log[k].producer = i /\ log[k].epoch = client[i].epoch /\ log[k].sequence = s

(* It is what Transaction says of one partition, as far as it is replicated.*)
Ended ==
    [t \in Transactions |->
        LET of == {k \in 1..highWatermark : log[k].transaction = t}
            ends == {IF IsData(log[k]) THEN MarkerOf(k, highWatermark) ELSE k : k \in of} \ {0}
        IN  IF ends = {} THEN "none" ELSE log[Min(ends)].kind]

T == INSTANCE Transaction WITH
    Partitions <- {1}, Dropped <- "none",
    begun <- 1..begun, told <- decision, ended <- [p \in {1} |-> Ended],
    records <- [p \in {1} |->
                   LET (* @type: $entry => Bool; *)
                       InTransaction(e) == IsData(e) /\ e.transaction # NoTransaction
                       found == SelectSeq(Take(log, highWatermark), InTransaction)
                       (* @type: Int => Int; *)
                       TransactionOf(k) == found[k].transaction
                   IN  MkSeq(Len(found), TransactionOf)]
RefinesTransaction == T!Spec

(* What readers of committed records see only grows: up to the last stable  *)
(* offset, without what was aborted.                                        *)
\* @type: $entry => Int;
Name(e) == (e.producer * (MaxTransactions + 1) + e.transaction) * (Batches + 1) + e.sequence
Names == 1..((Producers + 1) * (MaxTransactions + 1) * (Batches + 1))
Readable ==
    LET Committed(k) ==
            /\ IsData(log[k])
            /\ log[k].transaction # NoTransaction =>
                MarkerOf(k, Len(log)) # 0 /\ log[MarkerOf(k, Len(log))].kind = "commit"
        (* @type: Int => Int; *)
        Offset(k) == k
        offsets == SelectSeq(MkSeq(LastStable, Offset), Committed)
        (* @type: Int => Int; *)
        NameAt(n) == Name(log[offsets[n]])
    IN  MkSeq(Len(offsets), NameAt)
Abs == INSTANCE AbsLog WITH
    Readers <- {"reader"}, Records <- Names, MaxLength <- Cardinality(Names),
    LossAllowed <- FALSE, Dropped <- "none",
    committed <- Readable, views <- [reader \in {"reader"} |-> Readable]
RefinesAbsLog == Abs!Spec

(* No record stays open that the coordinator does not know of.              *)
NothingHangs ==
    \A i \in Ids :
        Open(i) => \/ coordinator[i].phase = "ongoing" /\ coordinator[i].transaction = log[producers[i].first].transaction
                   \/ Ending(i)

(* The leader remembers what its log says, but for what it has forgotten.   *)
StateIsReplay ==
    /\ unreplicated = Unreplicated(Len(log), highWatermark)
    /\ \A i \in Ids :
        LET p == producers[i]
            r == Replayed(log, i, Window)
        IN  IF p.known
            THEN /\ p.epoch = r.epoch /\ p.first = r.first
                 /\ p.coordinator \in {0, r.coordinator}
                 /\ Len(p.seen) <= Len(r.seen)
                 /\ p.seen = SubSeq(r.seen, Len(r.seen) - Len(p.seen) + 1, Len(r.seen))
            ELSE r.first = 0

(* Readers see all that is decided for good, and nothing else.              *)
LastStableIsDecided ==
    LastStable =
        Max({n \in 0..highWatermark :
                \A k \in 1..n : log[k].transaction # NoTransaction /\ IsData(log[k]) => MarkerOf(k, highWatermark) # 0})
LastStableGrows == [][LastStable' >= LastStable]_vars

(* No producer goes back to an epoch before.                                *)
EpochsAscend ==
    \A j, k \in 1..Len(log) : j < k /\ log[j].producer = log[k].producer => log[j].epoch <= log[k].epoch

(* A write that waits loses its guard only where it needs none, or where    *)
(* its transaction has been decided.                                        *)
GuardsAreKept ==
    \A i \in Ids, c \in Connections :
        asking[i][c].phase # "none" /\ ~asking[i][c].guarded =>
            GoesOn(i, Batch(i, c)) \/ decision[Batch(i, c).transaction] # "none"

(* The coordinator's own marker is never refused: it would wait for ever.   *)
MarkersAreTaken ==
    \A i \in Ids :
        Ending(i) /\ coordinator[i].marker = 0 =>
            LET m == Marker(i, coordinator[i].phase) IN OfNoOlderCoordinator(m) /\ OfNewEpoch(m)

(* What is sent arrives; a transaction that ends is complete; readers are   *)
(* not held up.                                                             *)
Delivered ==
    \A i \in Ids : (client[i].heard < client[i].sent) ~> (client[i].heard = client[i].sent \/ client[i].phase # "in")
EndsComplete == \A i \in Ids : Ending(i) ~> coordinator[i].phase = "idle"
ReadersGoOn == \A t \in Transactions : decision[t] # "none" ~> \A k \in 1..Len(log) : log[k].transaction = t => k <= LastStable

-----------------------------------------------------------------------------
(* Probes: states that must be reachable, or the promises say nothing.      *)
NeverTwice == ~\E i \in Ids, c \in Connections : Waits(i, c) /\ Duplicate(i, Batch(i, c))
NeverPasses ==
    ~\E i \in Ids, c \in Connections :
        asking[i][c].phase = "verified" /\ asking[i][c].guarded /\ Batch(i, c).sequence > guard[i].lowest
NeverUnguarded == ~\E i \in Ids, c \in Connections : asking[i][c].phase = "verified" /\ ~asking[i][c].guarded
NeverForgotten == ~\E i \in Ids : client[i].heard > 0 /\ ~producers[i].known
NeverWaitsForMarker == ~\E i \in Ids : Ending(i) /\ asking[i]["new"].phase = "asked"
NeverTwoOpen == ~\A i \in Ids : Open(i)
NeverCommitted == \A t \in Transactions : Ended[t] # "commit"
NeverTaken == ~\E m \in sent : OfNoOlderCoordinator(m) /\ OfNewEpoch(m)
NeverRefused == ~\E i \in Ids, c \in Connections : ENABLED Refuse(i, c)
=============================================================================
