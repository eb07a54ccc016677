--------------------------- MODULE TruncationProof ---------------------------
(* Why KIP-320 keeps what was committed: a conjunction that holds in Init,  *)
(* that every action keeps, and that implies the promises. Clean elections, *)
(* no restarts, no late requests.                                           *)
EXTENDS Truncation, Ranges

Leader(e) == leaderAndIsr[e].leader
Isr(e) == leaderAndIsr[e].isr
Passed == 1..Current

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
Requests ==
    IF LateFetches
    THEN [from : Replicas, epoch : 1..MaxEpoch, incarnation : 0..MaxRestarts,
          end : 0..MaxRecords, last : 0..MaxEpoch]
    ELSE {}

InRange ==
    /\ log \in [Replicas -> SeqOf(1..MaxEpoch, 0, MaxRecords)]
    /\ highWatermark \in [Replicas -> 0..MaxRecords]
    /\ epoch \in [Replicas -> 1..MaxEpoch]
    /\ isr \in [Replicas -> SUBSET Replicas]
    /\ ends \in [Replicas -> [Replicas -> Nothing..MaxRecords]]
    /\ leaderAndIsr \in SeqOf([leader : (IF MaxRestarts = 0 THEN 1 ELSE 0)..N,
                              isr : SUBSET Replicas], 1, MaxEpoch)
    /\ up \in SUBSET Replicas
    /\ late \in SUBSET Requests
    /\ answers \in SUBSET {}
    /\ incarnation \in [Replicas -> 0..MaxRestarts]
    /\ seen \in [Replicas -> [Replicas -> 0..MaxRestarts]]
    /\ committed \in SeqOf(1..MaxEpoch, 0, MaxRecords)

-----------------------------------------------------------------------------
(* Who knows what *)

EpochsDecided == \A r \in Replicas : epoch[r] <= Current
LeaderInIsr == \A e \in Passed : Leader(e) \in Isr(e)
(* A leader may not have heard yet who was fenced in its epoch.             *)
LeaderKnowsIsr == \A l \in Replicas : Leads(l) => Isr(epoch[l]) \subseteq isr[l]

-----------------------------------------------------------------------------
(* Logs *)

(* An epoch starts at one offset, and within it the logs are one.           *)
OneHistory ==
    \A r, s \in Replicas : \A j \in 1..LogEnd(s) : \A i \in 1..j :
        (i <= LogEnd(r) /\ log[r][i] = log[s][j]) => Take(log[r], i) = Take(log[s], i)

(* Only its leader writes in an epoch, and has all of it while it leads.    *)
WrittenByLeader ==
    \A r \in Replicas : \A i \in 1..LogEnd(r) : \A e \in Passed :
        log[r][i] = e =>
            /\ e <= epoch[r]
            /\ e <= epoch[Leader(e)]
            /\ epoch[Leader(e)] = e => (i <= LogEnd(Leader(e)) /\ log[Leader(e)][i] = e)

LogsAscend ==
    \A r \in Replicas : \A j \in 1..LogEnd(r) : \A i \in 1..j : log[r][i] <= log[r][j]

NoFutureRecords == \A r \in Replicas : \A i \in 1..LogEnd(r) : log[r][i] <= Current

(* What a leader was told of a follower is so while the follower stays.     *)
EndsAreTrue ==
    \A l, f \in Replicas :
        (Leads(l) /\ f # l /\ ends[l][f] >= 0) =>
            /\ epoch[l] <= epoch[f]
            /\ ends[l][f] <= LogEnd(l)
            /\ epoch[f] = epoch[l] => (/\ ends[l][f] <= LogEnd(f)
                                       /\ Take(log[f], ends[l][f]) = Take(log[l], ends[l][f]))

-----------------------------------------------------------------------------
(* Epochs follow one another *)

(* What l may still commit: members who moved on have told it all they will.*)
Reach(l) ==
    Min({LogEnd(l)} \cup {ends[l][m] : m \in {x \in Isr(epoch[l]) \ {l} : epoch[x] > epoch[l]}})

(* A later ISR has new members only after somebody of the older moved on.   *)
SomebodyMovedOn ==
    \A e \in Passed : \A d \in 1..(e - 1) :
        Isr(e) \subseteq Isr(d) \/ \E m \in Isr(d) : epoch[m] > d

(* Nobody joins unheard: who is new to an ISR has left the older epochs.    *)
JoinedLater ==
    \A e \in Passed : \A d \in 1..(e - 1) : \A r \in Isr(e) \ Isr(d) : epoch[r] > d

(* A deposed leader commits nothing that its successors lack.               *)
SuccessorsHaveReach ==
    \A l \in Replicas : Leads(l) =>
        \A e \in Passed : e > epoch[l] =>
            \A r \in Isr(e) : epoch[r] <= e =>
                \/ r \in Isr(epoch[l]) /\ epoch[r] <= epoch[l]
                \/ IsPrefix(Take(log[l], Reach(l)), log[r])

-----------------------------------------------------------------------------
(* What is committed *)

(* In each epoch after e somebody in the ISR has not been told: no commits. *)
Idle(e) == \A d \in Passed : d > e => \E r \in Isr(d) : epoch[r] < d

(* Implies CommittedInIsr: Idle(Current) is true.                           *)
CommittedInEachIsr ==
    \A e \in Passed : Idle(e) =>
        \A r \in Isr(e) : epoch[r] <= e => IsPrefix(committed, log[r])

(* The leader knows how far commits went: by its high watermark in its own  *)
(* epoch, and by its epoch's start before (KAFKA-7128).                     *)
LeaderKnowsCommitted ==
    \A l \in Replicas : (Leads(l) /\ epoch[l] = Current) =>
        Len(committed) <= Max({highWatermark[l], EpochStart(l)})

ViewsCommitted == \A r \in Replicas : IsPrefix(Take(log[r], highWatermark[r]), committed)
CommittedGrows == IsPrefix(committed, committed')
=============================================================================
