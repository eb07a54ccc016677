------------------------ MODULE TruncationDiskProof ------------------------
(* Why KIP-320 keeps what was committed although brokers outside the ISR    *)
(* come back with empty disks: nobody is let into the ISR on the word of an *)
(* earlier incarnation (KIP-903), and who starts again hears of no decision *)
(* that was made before (Lossy = "registered"). Clean elections, no late    *)
(* requests. What differs from TruncationRestartProof is of whom a leader   *)
(* knows the end: of the ISR, and of who has not started again since.       *)
EXTENDS TruncationRestartProof

(* What a leader was told of a follower is so while the follower stays, and *)
(* has its disk.                                                            *)
EndsAreTrueSince ==
    \A l, f \in Replicas :
        (Leads(l) /\ f # l /\ ends[l][f] >= 0) =>
            /\ epoch[l] <= epoch[f]
            /\ ends[l][f] <= LogEnd(l)
            /\ (/\ epoch[f] = epoch[l]
                /\ f \in Isr(epoch[l]) \/ seen[l][f] = incarnation[f]) =>
                   /\ ends[l][f] <= LogEnd(f)
                   /\ Take(log[f], ends[l][f]) = Take(log[l], ends[l][f])
=============================================================================
