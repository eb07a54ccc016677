--------------------- MODULE TransactionCoordinatorProof ---------------------
(* Why a transaction ends alike in all its partitions, and as its producer  *)
(* was told, however often coordinators fail over and epochs rise: with     *)
(* transaction.version 2, in which each transaction has an epoch of its own.*)
EXTENDS TransactionCoordinator, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside. Epochs *)
(* and the log have no bound where MaxEpoch has none.                       *)
Ends == {"commit", "abort"}
Epochs == 0..(MaxEpoch + MaxTransactions + 1)
Coordinators == 0..(MaxFailovers + 1)
Identity == [id : 0..MaxIds, epoch : Epochs]
State == [state : {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"},
          at : Identity, next : Identity, last : Identity, partitions : SUBSET Parts,
          transaction : 0..MaxTransactions, by : 0..Producers, fences : BOOLEAN]
Copy == [partition : Parts, at : Identity, outcome : Ends, coordinator : Coordinators, transaction : Transactions]

InRange ==
    /\ log \in SeqOf(State, 1, MaxEpoch + 20)
    /\ highWatermark \in 1..(MaxEpoch + 20)
    /\ coordinatorEpoch \in Coordinators
    /\ role \in {"loading", "active"}
    /\ memory \in State
    /\ pending \in [kind : {"none", "init", "fence", "add", "end", "complete"}, who : 0..Producers]
    /\ owed \in SUBSET Parts
    /\ producers \in [Parts -> [Ids -> [epoch : Epochs, coordinator : Coordinators]]]
    /\ records \in [Parts -> SeqOf(Transactions, 0, MaxTransactions)]
    /\ ended \in [Parts -> [Transactions -> {"none", "commit", "abort"}]]
    /\ leaderless \in SUBSET Parts
    /\ downs \in 0..MaxDowns
    /\ sent \in SUBSET Copy
    /\ copies \in 0..MaxCopies
    /\ client \in [Instances -> [phase : {"off", "starting", "ready", "in", "commit", "abort", "fenced", "dead"},
                                 as : Identity, transaction : 0..MaxTransactions]]
    /\ owner \in [Transactions -> 0..MaxIds]
    /\ told \in [Transactions -> {"none", "commit", "abort"}]
    /\ timedOut \in SUBSET Transactions

-----------------------------------------------------------------------------
(* The log and what the coordinator has of it *)

Newest == log[Len(log)]
Committed == log[highWatermark]
(* The states that may be in force, now or when the next election is over.  *)
Live == {Committed, Newest, memory}

(* One record at most is not committed. A coordinator that acts has the     *)
(* state before its own change, or the newest one.                          *)
LogIsRead ==
    /\ highWatermark <= Len(log) /\ Len(log) <= highWatermark + 1
    /\ role = "loading" =>
        /\ pending = NothingPending /\ highWatermark < Len(log)
        /\ Prepared(memory) => owed = memory.partitions
    /\ IF pending = NothingPending
       THEN /\ memory = Newest
            /\ role = "active" => highWatermark = Len(log)
       ELSE Len(log) > 1 /\ memory = log[Len(log) - 1]

(* What may follow a state in the log.                                      *)
Follows(a, b) ==
    \/ /\ ~Prepared(a) /\ b.state = "Ongoing"
       /\ b.at = a.at /\ b.next = a.next /\ b.last = a.last
       /\ a.state = "Ongoing" => b.transaction = a.transaction /\ a.partitions \subseteq b.partitions
    \/ /\ a.state = "Ongoing" /\ Prepared(b)
       /\ b.transaction = a.transaction /\ b.partitions = a.partitions
       /\ b.at = Above(a.at) /\ Below(a.next, b.next)
    \/ /\ Prepared(a) /\ b.state = (IF a.state = "PrepareCommit" THEN "CompleteCommit" ELSE "CompleteAbort")
       /\ b.at = a.next /\ b.next = a.next /\ b.last = a.last /\ b.by = a.by /\ b.fences = a.fences
    \/ Idle(a) /\ b.state = "Empty" /\ Below(a.next, b.next)
NewestFollows ==
    highWatermark < Len(log) \/ pending # NothingPending => Follows(log[Len(log) - 1], Newest)

StatesAreWhole ==
    \A s \in Live :
        /\ s.at.id > 0 /\ ~Below(s.next, s.at)
        /\ ~Prepared(s) => s.at = s.next
        /\ IF Idle(s) THEN s.transaction = NoTransaction
           ELSE s.transaction # NoTransaction /\ owner[s.transaction] = s.at.id

LogIsBegun ==
    \A k \in 1..Len(log) : log[k].transaction # NoTransaction => owner[log[k].transaction] # 0

-----------------------------------------------------------------------------
(* Decisions *)

(* The records up to this one of a transaction that is not decided before.  *)
UndecidedBefore(n) ==
    LET s == log[n]
    IN  ~Idle(s) =>
            \A k \in 1..n : log[k].transaction = s.transaction => log[k].state = "Ongoing" \/ (k = n /\ Prepared(s))
DecidedOnce == UndecidedBefore(highWatermark) /\ UndecidedBefore(Len(log))

Decides(k, t) == log[k].transaction = t /\ Prepared(log[k])
IsDecision(t, outcome) ==
    /\ \E k \in 1..highWatermark : Decides(k, t)
    /\ \A k \in 1..highWatermark : Decides(k, t) => Outcome(log[k]) = outcome

EndedAsDecided ==
    \A p \in Parts, t \in Transactions : ended[p][t] # "none" => IsDecision(t, ended[p][t])
ToldAsDecided == \A t \in Transactions : told[t] # "none" => IsDecision(t, told[t])
SentAsDecided == \A m \in sent : IsDecision(m.transaction, m.outcome)

-----------------------------------------------------------------------------
(* Partitions *)

WrittenOnce ==
    \A p \in Parts : \A j \in 1..Len(records[p]) : \A i \in 1..(j - 1) : records[p][i] # records[p][j]

(* A record that is open is of the transaction that the coordinator has,    *)
(* whatever part of its log survives, and its marker is owed.               *)
OpenIsKnown ==
    \A t \in Transactions, p \in Parts :
        Wrote(t, p) /\ ended[p][t] = "none" =>
            /\ \A s \in Live : s.transaction = t /\ p \in s.partitions
            /\ role = "active" /\ Prepared(memory) => p \in owed
            /\ LET e == producers[p][Committed.at.id].epoch
               IN  Committed.at.epoch = IF Prepared(Committed) THEN e + 1 ELSE e

(* None ends before the coordinator has its decision.                       *)
OngoingIsOpen ==
    role = "active" /\ memory.state = "Ongoing" =>
        /\ \A p \in Parts : ended[p][memory.transaction] = "none"
        /\ \A m \in sent : m.transaction # memory.transaction

(* No marker that was sent is of a later epoch than the coordinator's, and  *)
(* of the same one it is its own.                                           *)
SentBehind ==
    \A m \in sent :
        \/ Below(m.at, Committed.at)
        \/ m.at = Committed.at /\ (Prepared(Committed) => m.transaction = Committed.transaction)

(* Nor is a partition ahead of the coordinator.                             *)
PartitionsBehind ==
    \A p \in Parts, id \in Ids :
        /\ producers[p][id].coordinator <= coordinatorEpoch
        /\ id = Committed.at.id => producers[p][id].epoch <= Committed.at.epoch
        /\ id > Committed.at.id => producers[p][id].epoch = 0
SentByCoordinators == \A m \in sent : m.coordinator <= coordinatorEpoch

-----------------------------------------------------------------------------
(* Producers *)

InTransaction == {"in", "commit", "abort"}
Left == {"fenced", "dead"}

ClientsAreWhole ==
    \A i \in Instances :
        LET c == client[i]
        IN  /\ c.phase \in {"off", "starting", "ready"} => c.transaction = NoTransaction
            /\ c.phase \in InTransaction => c.transaction # NoTransaction
            /\ c.phase = "ready" => c.as.id > 0
            /\ c.transaction # NoTransaction => c.as.id > 0 /\ owner[c.transaction] = c.as.id

(* An epoch is given to one instance, and a transaction begun by one.       *)
GivenToOne ==
    \A i, j \in Instances :
        i # j =>
            /\ client[i].as # NoIdentity => client[i].as # client[j].as
            /\ client[i].transaction # NoTransaction => client[i].transaction # client[j].transaction

(* None is given above what is committed, or above what is in force.        *)
GivenBehind ==
    \A i \in Instances :
        /\ ~Below(Committed.next, client[i].as)
        /\ role = "active" => ~Below(memory.next, client[i].as)

(* While an instance has the epoch before, nobody has the next one.         *)
GivenInTurn ==
    \A s \in Live :
        s.last # NoIdentity =>
            /\ Below(s.last, s.next)
            /\ \A i, j \in Instances : client[i].as = s.last => client[j].as # s.next

(* Whoever waits for its answer has asked for the newest change.            *)
PendingIsAsked ==
    /\ pending.kind = "none" => pending = NothingPending
    /\ pending # NothingPending /\ Prepared(memory) => owed = {}
    /\ pending.kind \in {"init", "end"} => pending.who # Nobody
    /\ \A i \in Instances :
        i = pending.who =>
            /\ pending.kind = "init" =>
                /\ Newest.state = "Empty" /\ client[i].phase \in {"starting", "dead"}
                /\ client[i].phase = "starting" => client[i].as = Newest.last
            /\ pending.kind = "end" =>
                /\ Prepared(Newest) /\ client[i].phase \in Ends \cup {"dead"}
                /\ client[i].phase \in Ends =>
                    /\ client[i].as = Newest.last /\ client[i].transaction = Newest.transaction
                    /\ client[i].phase = Outcome(Newest)

(* Whoever has the epoch of the transaction that is there began it.         *)
TheirTransaction ==
    \A s \in Live, i \in Instances :
        (s.state = "Ongoing" /\ client[i].as = s.at) \/ (Prepared(s) /\ Above(client[i].as) = s.at) =>
            client[i].phase \in InTransaction \cup Left /\ client[i].transaction = s.transaction

(* Its producer, or time, has ended this one.                               *)
EndedForItself(s) ==
    s.state \in {"PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"} /\ (s.by = Nobody \/ ~s.fences)
        /\ s.next.epoch <= MaxEpoch
LastHadIt ==
    \A s \in Live :
        EndedForItself(s) =>
            /\ s.last # NoIdentity
            /\ Prepared(s) => s.at = Above(s.last)
            /\ s.next = Above(s.last) \/ s.next.epoch = 0

(* Only a fence or a time-out with the last epoch leads above it.           *)
NextIsWithin ==
    \A s \in Live :
        s.next.epoch <= MaxEpoch \/ (~(s.state \in {"Empty", "Ongoing"}) /\ s.fences /\ s.last = NoIdentity)

RetryIsTold ==
    \A s \in Live, i \in Instances :
        EndedForItself(s) /\ client[i].as = s.last =>
            /\ client[i].phase \in InTransaction \cup Left
            /\ IF Prepared(s) THEN client[i].transaction = s.transaction
               ELSE IsDecision(client[i].transaction, Outcome(s))

(* A transaction that is not in the log yet has an epoch in which none is.  *)
NewIsUndecided ==
    \A i \in Instances :
        client[i].phase \in InTransaction /\ client[i].as = Committed.next /\ Committed.state # "Ongoing" =>
            \A k \in 1..highWatermark : log[k].transaction # client[i].transaction

-----------------------------------------------------------------------------
(* Promises: as in Transaction, and what was told is what readers see once  *)
(* the coordinator owes no marker.                                          *)
EndsAlike ==
    \A t \in Transactions, p, q \in Parts :
        ended[p][t] = "none" \/ ended[q][t] \in {"none", ended[p][t]}
ToldIsEnded ==
    \A t \in Transactions, p \in Parts :
        told[t] # "none" /\ Wrote(t, p) =>
            \/ ended[p][t] = told[t]
            \/ ended[p][t] = "none" /\ Decides(highWatermark, t) /\ p \in Committed.partitions

(* No producer is given an epoch above the last one.                        *)
GivenWithin == \A i \in Instances : client[i].as.epoch <= MaxEpoch

EndsOnce == \A p \in Parts, t \in Transactions : ended[p][t] # "none" => ended'[p][t] = ended[p][t]
ToldOnce == \A t \in Transactions : told[t] # "none" => told'[t] = told[t]
(* Nothing is written where its transaction has ended.                      *)
WritesBefore ==
    \A p \in Parts, t \in Transactions :
        ended[p][t] # "none" => ~(\E i \in (Len(records[p]) + 1)..Len(records'[p]) : records'[p][i] = t)
=============================================================================
