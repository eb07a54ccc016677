--------------------------- MODULE DurableIsrProof ---------------------------
(* Why eligible leader replicas (KIP-966) keep what was acknowledged,       *)
(* however often brokers crash and stop: a conjunction that holds in Init,  *)
(* that every action keeps, and that implies the promises.                  *)
EXTENDS DurableIsr, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
InRange ==
    /\ log \in [Replicas -> SeqOf(1..MaxRecords, 0, MaxRecords)]
    /\ up \in SUBSET Replicas
    /\ isr \in SUBSET Replicas
    /\ elr \in SUBSET Replicas
    /\ leader \in 0..N
    /\ lastKnown \in 0..N
    /\ crashed \in SUBSET Replicas
    /\ acked \in SeqOf(1..MaxRecords, 0, MaxRecords)
    /\ written \in 0..MaxRecords
    /\ crashes \in 0..MaxCrashes
    /\ stops \in 0..MaxStops
    /\ elections \in 0..MaxElections

-----------------------------------------------------------------------------
(* Who is there *)

(* Nobody is in sync who does not run: who goes leaves the ISR at once.     *)
InSyncRuns == isr \subseteq up

(* The ELR is there only while the ISR is below its minimum. *)
ElrBelowMinimum == elr # {} => Cardinality(isr) < MinIsr

(* Who led last is remembered only where it may be elected again. *)
NobodyRemembered == LastKnownLeader \/ lastKnown = None

-----------------------------------------------------------------------------
(* Who has what *)

WrittenBefore ==
    /\ Len(acked) <= written
    /\ \A r \in Replicas : Len(log[r]) <= written

(* Who is in sync, or eligible and not back from a crash, has everything    *)
(* that was acknowledged.                                                   *)
EligibleHaveAcked == \A r \in isr \cup (elr \ crashed) : IsPrefix(acked, log[r])

(* Each of the minimum is in sync, eligible, or has crashed since.          *)
MinimumCrashes == Cardinality(isr \cup (elr \ crashed)) + crashes >= MinIsr

-----------------------------------------------------------------------------
(* Steps *)

AckedGrows == IsPrefix(acked, acked')

(* ElrKept, as a step. *)
EligibleStay ==
    \A r \in elr : \/ r \in elr' \cup isr'
                   \/ Cardinality(isr') >= MinIsr
                   \/ r \in crashed \ crashed'
=============================================================================
