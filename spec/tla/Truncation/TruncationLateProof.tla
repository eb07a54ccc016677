------------------------ MODULE TruncationLateProof ------------------------
(* Why KIP-320 keeps what was committed although requests arrive late, in   *)
(* an epoch that their sender has left: a leader may learn from them, and   *)
(* commit, what no later leader knows of. Clean elections, no restarts.     *)
(* What differs from TruncationProof is what a leader may still commit.     *)
EXTENDS TruncationProof

-----------------------------------------------------------------------------
(* Requests under way *)

LateIsPast ==
    \A k \in late :
        /\ k.epoch < epoch[k.from] /\ k.last <= k.epoch
        /\ (k.end = 0) = (k.last = 0)

(* What a late request says of its sender's log was so.                     *)
LateIsHistory ==
    \A k \in late : k.end > 0 =>
        /\ \A s \in Replicas : \A j \in 1..LogEnd(s) :
              (log[s][j] = k.last /\ j >= k.end) => log[s][k.end] = k.last
        /\ \A e \in Passed : e = k.last =>
              /\ e <= epoch[Leader(e)]
              /\ epoch[Leader(e)] = e => (k.end <= LogEnd(Leader(e)) /\ log[Leader(e)][k.end] = e)

-----------------------------------------------------------------------------
(* What may still be committed *)

(* A request under way from f, of epoch e, that reaches n in the log of s.  *)
LateReaches(f, e, s, n) ==
    \E k \in late : k.from = f /\ k.epoch = e /\ k.end >= n /\ Agrees(s, k.end, k.last)

(* May l still commit n? Members who moved on have told it, or it is under  *)
(* way.                                                                     *)
Reaches(l, n) ==
    \A m \in Isr(epoch[l]) \ {l} : epoch[m] > epoch[l] =>
        ends[l][m] >= n \/ LateReaches(m, epoch[l], l, n)

(* The same of whoever may yet lead epoch e, with the log of s.             *)
MayReach(e, s, n) ==
    /\ epoch[Leader(e)] < e
    /\ \A m \in Isr(e) : epoch[m] > e => LateReaches(m, e, s, n)
    /\ \E m \in Isr(e) : epoch[m] > e

(* A deposed leader commits nothing that its successors lack.               *)
SuccessorsHaveReachLate ==
    \A l \in Replicas : Leads(l) =>
        \A e \in Passed : e > epoch[l] =>
            \A r \in Isr(e) : epoch[r] <= e =>
                \/ r \in Isr(epoch[l]) /\ epoch[r] <= epoch[l]
                \/ \A n \in 1..LogEnd(l) : Reaches(l, n) => IsPrefix(Take(log[l], n), log[r])

SuccessorsMayReach ==
    \A d \in Passed : \A e \in Passed : d < e =>
        \A r \in Isr(e) : (epoch[r] <= e /\ ~(r \in Isr(d) /\ epoch[r] <= d)) =>
            \A s \in Replicas : \A n \in 1..LogEnd(s) :
                MayReach(d, s, n) => IsPrefix(Take(log[s], n), log[r])
=============================================================================
