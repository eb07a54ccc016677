-------------------------- MODULE ProducerStateProof -------------------------
(* Why an idempotent producer's batches are in the log once and in order,   *)
(* and why a window as long as its batches in flight is enough: whatever    *)
(* connections break and however long it is silent, no batch that it waits  *)
(* for is refused. That is of one leader, which forgets who is silent.      *)
EXTENDS ProducerState, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
Sequences0 == 0..Batches
Ends == {"commit", "abort"}
Begun == 0..MaxTransactions
Coordinators == 0..MaxCoordinators
Epochs == 0..1
(* The log has no bound where Batches has none.                             *)
Offsets == 0..(Batches + 20)
Entry == [kind : {"data", "commit", "abort"}, producer : Ids, epoch : Epochs, sequence : Sequences0,
          transaction : Begun, coordinator : Coordinators]

InRange ==
    /\ log \in SeqOf(Entry, 0, Batches + 20)
    /\ highWatermark \in Offsets
    /\ producers \in [Ids -> [known : BOOLEAN, epoch : Epochs, coordinator : Coordinators,
                              seen : SeqOf(Sequences0, 0, Window), first : Offsets, idle : BOOLEAN]]
    /\ unreplicated \in SUBSET [first : Offsets, last : Offsets]
    /\ guard \in [Ids -> [epoch : Epochs, lowest : Sequences0]]
    /\ asking \in [Ids -> [Connections -> [phase : {"none", "asked", "verified"}, guarded : BOOLEAN]]]
    /\ client \in [Ids -> [phase : {"ready", "in", "starting"}, epoch : Epochs, transaction : Begun,
                           sent : Sequences0, arrived : Sequences0, heard : Sequences0]]
    /\ old \in [Ids -> [epoch : Epochs, transaction : Begun, next : 1..(Batches + 1), last : Sequences0]]
    /\ coordinator \in [Ids -> [phase : {"idle", "ongoing", "commit", "abort"}, epoch : Epochs,
                                transaction : Begun, marker : Offsets]]
    /\ coordinatorEpoch \in 1..MaxCoordinators
    /\ sent \in SUBSET Entry
    /\ decision \in [Transactions -> {"none", "commit", "abort"}]
    /\ begun \in Begun
    /\ count \in [breaks : 0..MaxBreaks, failovers : 0..MaxFailovers, copies : 0..MaxCopies, drops : 0..MaxDrops,
                  days : 0..MaxDays]

-----------------------------------------------------------------------------
(* No transactions: one epoch, no markers, nobody is asked.                 *)
OneEpoch ==
    /\ \A k \in 1..Len(log) : IsData(log[k]) /\ log[k].epoch = 1 /\ log[k].transaction = NoTransaction
    /\ \A i \in Ids :
        /\ client[i].phase = "in" /\ client[i].epoch = 1 /\ client[i].transaction = NoTransaction
        /\ ~Drained(i) => old[i].epoch = 1 /\ old[i].transaction = NoTransaction
        /\ guard[i] = NoGuard
        /\ coordinator[i].phase = "idle" /\ coordinator[i].marker = 0
        /\ producers[i].first = 0
        /\ IF producers[i].known THEN producers[i].epoch = 1 ELSE producers[i].epoch = 0
        /\ \A c \in Connections : asking[i][c] = NotAsking

(* What is on its way.                                                      *)
ClientCounts ==
    \A i \in Ids :
        LET c == client[i]
        IN  /\ c.heard <= c.arrived /\ c.arrived <= c.sent
            /\ c.sent - c.heard <= InFlight
            /\ old[i].last <= c.sent

(* Within the log a producer's sequences ascend.                            *)
SequencesAscend ==
    \A k \in 1..Len(log) : \A j \in 1..(k - 1) :
        log[j].producer = log[k].producer => log[j].sequence < log[k].sequence

(* The leader knows the last of them, and that its producer sent it.        *)
LastIsLast ==
    \A i \in Ids :
        IF producers[i].known
        THEN /\ Len(producers[i].seen) > 0
             /\ LastSequence(i) <= client[i].sent /\ client[i].arrived <= LastSequence(i)
             /\ \A k \in 1..Len(log) : log[k].producer = i => log[k].sequence <= LastSequence(i)
             /\ \E k \in 1..Len(log) : log[k].producer = i /\ log[k].sequence = LastSequence(i)
        ELSE Len(producers[i].seen) = 0

(* Who is forgotten, or soon will be, has heard of all that is there.       *)
SilentHasHeard ==
    \A i \in Ids :
        ~producers[i].known \/ producers[i].idle =>
            /\ \A k \in 1..Len(log) : log[k].producer = i => log[k].sequence <= client[i].heard
            /\ client[i].arrived = client[i].heard
            /\ Drained(i) \/ old[i].next = client[i].heard + 1

(* The window is the end of the log, and reaches to what is not heard.      *)
WindowReaches ==
    \A i \in Ids :
        LET seen == producers[i].seen
        IN  /\ \A k \in 2..Window : k <= Len(seen) => seen[k] = seen[k - 1] + 1
            /\ producers[i].known => Len(seen) = Window \/ seen[1] <= client[i].heard + 1

(* The last batch that a producer has heard of is there, and replicated; by *)
(* InOrder those before it are, too (Kept).                                 *)
HeardIsThere ==
    \A i \in Ids :
        client[i].heard > 0 =>
            \E k \in 1..highWatermark : log[k].producer = i /\ log[k].sequence = client[i].heard

HighWatermarkInLog == highWatermark <= Len(log)

-----------------------------------------------------------------------------
(* Promises: Once and InOrder; and no batch that its producer waits for is  *)
(* refused.                                                                 *)
NoneRefused ==
    \A i \in Ids :
        Waits(i, "new") => Duplicate(i, Batch(i, "new")) \/ Takes(i, "new", Batch(i, "new"))
LogGrows == IsPrefix(log, log')
=============================================================================
