------------------------ MODULE AlterPartitionProof ------------------------
(* Why a leader waits for whoever the controller has in the ISR (KIP-497),  *)
(* whatever requests and answers are lost, late and repeated, and whatever  *)
(* the controller decides meanwhile. Of the logs nothing is said here.      *)
EXTENDS AlterPartition, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
Incarnations == Nothing..MaxRestarts
Asked ==
    [leader : Replicas, epoch : 1..MaxEpoch, partitionEpoch : 1..MaxPartitionEpoch,
     isr : SUBSET Replicas, incarnations : [Replicas -> Incarnations]]
AskedOrNothing ==
    [leader : 0..N, epoch : 0..MaxEpoch, partitionEpoch : 0..MaxPartitionEpoch,
     isr : SUBSET Replicas, incarnations : [Replicas -> Incarnations]]
Answers ==
    [to : Asked, outcome : {"done", "ineligible"}, partitionEpoch : 1..MaxPartitionEpoch,
     isr : SUBSET Replicas]

InRange ==
    /\ log \in [Replicas -> SeqOf(1..MaxEpoch, 0, MaxRecords)]
    /\ highWatermark \in [Replicas -> 0..MaxRecords]
    /\ epoch \in [Replicas -> 1..MaxEpoch]
    /\ partitionEpoch \in [Replicas -> 1..MaxPartitionEpoch]
    /\ isr \in [Replicas -> SUBSET Replicas]
    /\ pending \in [Replicas -> AskedOrNothing]
    /\ ends \in [Replicas -> [Replicas -> Nothing..MaxRecords]]
    /\ seen \in [Replicas -> [Replicas -> Incarnations]]
    /\ state \in [leader : Replicas, epoch : 1..MaxEpoch,
                  partitionEpoch : 1..MaxPartitionEpoch, isr : SUBSET Replicas]
    /\ elr \in SUBSET Replicas
    /\ alive \in SUBSET Replicas
    /\ registered \in [Replicas -> 0..MaxRestarts]
    /\ incarnation \in [Replicas -> 0..MaxRestarts]
    /\ requests \in SUBSET Asked
    /\ resent \in SUBSET (IF OnlyResent THEN Asked ELSE {})
    /\ answers \in SUBSET Answers
    /\ committed \in SeqOf(1..MaxEpoch, 0, MaxRecords)

-----------------------------------------------------------------------------
(* Who leads *)

Current(l) == Leads(l) /\ epoch[l] = state.epoch

LeaderInSync == state.leader \in state.isr

EpochsBehind ==
    \A r \in Replicas : epoch[r] <= state.epoch /\ partitionEpoch[r] <= state.partitionEpoch

CurrentIsLeader == \A l \in Replicas : Current(l) => l = state.leader
LeaderKnowsItself == \A l \in Replicas : Leads(l) => l \in isr[l]

-----------------------------------------------------------------------------
(* Requests and answers *)

(* A leader asks for one thing of each partition epoch that it knows of,    *)
(* and has not been told of another one before that is settled.             *)
RequestsAreTheirs ==
    \A m \in requests :
        /\ m.leader \in m.isr /\ m.epoch <= epoch[m.leader]
        /\ m.epoch = epoch[m.leader] =>
            /\ Leads(m.leader)
            /\ m.partitionEpoch <= partitionEpoch[m.leader]
            /\ m.partitionEpoch = partitionEpoch[m.leader] => pending[m.leader] = m

(* What is not settled was asked, for the state that the leader knows.      *)
PendingIsAsked ==
    \A l \in Replicas : IsPending(l) =>
        /\ pending[l] \in requests
        /\ pending[l].leader = l /\ pending[l].epoch = epoch[l]
        /\ pending[l].partitionEpoch = partitionEpoch[l]
        /\ pending[l].isr # isr[l]

(* An answer ends the partition epoch of its request, and tells the ISR of  *)
(* its own.                                                                 *)
AnswersAreTrue ==
    \A a \in answers :
        /\ a.to \in requests /\ a.to.leader \in a.isr
        /\ a.to.partitionEpoch < a.partitionEpoch
        /\ a.partitionEpoch <= state.partitionEpoch
        /\ a.partitionEpoch = state.partitionEpoch => a.isr = state.isr

(* While an answer is under way to a leader that waits for it, the ISR only *)
(* shrinks; and a refusal tells the ISR that the leader knows.              *)
AnswersAwaitIsr ==
    \A a \in answers : \A l \in Replicas :
        (Current(l) /\ pending[l] = a.to) =>
            /\ state.isr \subseteq a.isr
            /\ a.outcome = "ineligible" => a.isr = isr[l]

-----------------------------------------------------------------------------
(* What the leader knows *)

(* Of the same partition epoch leader and controller know the same ISR.     *)
SameIsr ==
    \A l \in Replicas :
        (Current(l) /\ partitionEpoch[l] = state.partitionEpoch) => isr[l] = state.isr

(* Implies IsrWithinMaximal: the leader waits for all of the ISR at every   *)
(* moment of its epoch, whatever it knows.                                  *)
LeaderAwaitsIsr == \A l \in Replicas : Current(l) => state.isr \subseteq Maximal(l)

-----------------------------------------------------------------------------
(* Eligible replicas (KIP-966) *)

EligibleBelowMinIsr == elr # {} => Cardinality(state.isr) < MinIsr

(* Whoever is eligible the leader waits for as well, or it commits nothing. *)
Covers(confirmed, awaited) == elr \subseteq awaited \/ Cardinality(confirmed) < MinIsr
LeaderAwaitsEligible == \A l \in Replicas : Current(l) => Covers(isr[l], Maximal(l))
AnswersAwaitEligible ==
    \A a \in answers : \A l \in Replicas :
        (Current(l) /\ pending[l] = a.to) => Covers(a.isr, a.isr)
=============================================================================
