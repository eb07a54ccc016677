----------------------- MODULE TruncationRestartProof -----------------------
(* Why KIP-320 keeps what was committed although processes end and start    *)
(* again: with whole logs, and high watermarks of the last checkpoint. When *)
(* the last of the ISR is gone nobody leads. Clean elections, no late       *)
(* requests. What differs from TruncationProof is that a leader epoch may   *)
(* have no leader.                                                          *)
EXTENDS TruncationProof

NothingIsLate == late = {} /\ answers = {}
LeaderInIsrOrNone ==
    \A e \in Passed : Isr(e) # {} /\ Leader(e) \in Isr(e) \cup {None}

(* Only its leader writes in an epoch, and has all of it as long as it is   *)
(* in that epoch, leading or not.                                           *)
WrittenByItsLeader ==
    \A r \in Replicas : \A i \in 1..LogEnd(r) : \A e \in Passed :
        log[r][i] = e =>
            /\ Leader(e) # None
            /\ e <= epoch[r]
            /\ e <= epoch[Leader(e)]
            /\ epoch[Leader(e)] = e => (i <= LogEnd(Leader(e)) /\ log[Leader(e)][i] = e)

SeenIsPast == \A l, f \in Replicas : seen[l][f] <= incarnation[f]
=============================================================================
