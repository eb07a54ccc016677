--------------------- MODULE TruncationLateRestartProof ---------------------
(* Why KIP-320 keeps what was committed although processes end and start    *)
(* again, with whole logs, while their requests are still under way. What   *)
(* differs from TruncationLateProof: a leader epoch may have no leader, and *)
(* a late request may be of its sender's epoch, and of an earlier process.  *)
EXTENDS TruncationLateProof, TruncationRestartProof

-----------------------------------------------------------------------------
(* Requests under way *)

LateIsPastOrOver ==
    \A k \in late :
        /\ k.epoch <= epoch[k.from] /\ k.incarnation <= incarnation[k.from]
        /\ k.epoch = epoch[k.from] => k.incarnation < incarnation[k.from]
        /\ k.last <= k.epoch /\ (k.end = 0) = (k.last = 0)

(* In the same epoch its sender still has what it told of, unless its       *)
(* leader has made it cut that: then the two do not agree.                  *)
LateIsKept ==
    \A k \in late : (k.epoch = epoch[k.from] /\ k.end > 0) =>
        \/ \E i \in 1..LogEnd(k.from) : i = k.end /\ log[k.from][i] = k.last
        \/ \A e \in Passed : e = k.epoch =>
               /\ Leader(e) # None /\ e <= epoch[Leader(e)]
               /\ epoch[Leader(e)] = e => ~Agrees(Leader(e), k.end, k.last)

(* As LateIsHistory, where an epoch may have no leader.                     *)
LateIsHistoryOrNone ==
    \A k \in late : k.end > 0 =>
        /\ \A s \in Replicas : \A j \in 1..LogEnd(s) :
              (log[s][j] = k.last /\ j >= k.end) => log[s][k.end] = k.last
        /\ \A e \in Passed : e = k.last =>
              /\ Leader(e) # None /\ e <= epoch[Leader(e)]
              /\ epoch[Leader(e)] = e => (k.end <= LogEnd(Leader(e)) /\ log[Leader(e)][k.end] = e)
=============================================================================
