------------------------ MODULE TruncationMissedProof ------------------------
(* Why Kafka with the fix keeps what was committed: a leader that leads on  *)
(* in the next epoch keeps what it knew of its followers, and forgets it    *)
(* when it has missed an epoch (ResetFollowers = "missed"). The conjuncts   *)
(* that differ from TruncationProof's speak of a reign: epochs one after    *)
(* the other with one leader.                                               *)
EXTENDS TruncationProof

(* All epochs from c to d have one leader.                                  *)
OneReign(c, d) == \A e \in c..d : Leader(e) = Leader(d)

(* What a leader was told holds as long as the follower stays in its reign. *)
EndsAreTrueInReign ==
    \A l, f \in Replicas :
        (Leads(l) /\ f # l /\ ends[l][f] > 0) =>
            /\ ends[l][f] <= LogEnd(l)
            /\ epoch[f] <= epoch[l] => OneReign(epoch[f], epoch[l])
            /\ OneReign(epoch[f], epoch[l]) /\ OneReign(epoch[l], epoch[f]) =>
                   /\ ends[l][f] <= LogEnd(f)
                   /\ Take(log[f], ends[l][f]) = Take(log[l], ends[l][f])

(* What l may still commit in epoch c, its own or a later one of its reign. *)
ReachIn(l, c) ==
    Min({LogEnd(l)} \cup {ends[l][m] : m \in {x \in Isr(c) \ {l} : epoch[x] > c}})

MayLead(l, c) == Leads(l) /\ epoch[l] <= c /\ OneReign(epoch[l], c)

(* A leader of an older epoch commits nothing that its successors lack.     *)
SuccessorsHaveReachIn ==
    \A l \in Replicas : \A c \in Passed : MayLead(l, c) =>
        \A e \in Passed : e > c =>
            \A r \in Isr(e) : epoch[r] <= e =>
                \/ r \in Isr(c) /\ epoch[r] <= c
                \/ IsPrefix(Take(log[l], ReachIn(l, c)), log[r])

(* After e nothing is committed: the leader has not been told of its epoch, *)
(* or somebody in its ISR has not been told of its reign.                   *)
IdleSince(e) ==
    \A d \in Passed : d > e =>
        \/ epoch[Leader(d)] < d
        \/ \E r \in Isr(d) : epoch[r] < d /\ ~OneReign(epoch[r], d)

CommittedInEachIsrSince ==
    \A e \in Passed : IdleSince(e) =>
        \A r \in Isr(e) : epoch[r] <= e => IsPrefix(committed, log[r])
=============================================================================
