----------------------- MODULE AlterPartitionDecisions -----------------------
(* AlterPartition with a memory of its decisions, one per leader epoch: that *)
(* they, what replicas hear of them, and whom leaders wait for keep to the   *)
(* interface that OpenTruncation builds on, whatever becomes of requests and *)
(* answers.                                                                  *)
EXTENDS AlterPartition

VARIABLE (* @type: Seq({leader: Int, isr: Set(Int)}); *) decisions   \* ghost: the controller's decisions, the last of each leader epoch

Awaited == [r \in Replicas |-> IF Leads(r) THEN Maximal(r) ELSE {}]

(* A request counts while it is of the partition epoch that is in force.    *)
Counts(l) ==
    /\ IsPending(l) /\ pending[l].epoch = state.epoch
    /\ pending[l].partitionEpoch = state.partitionEpoch
\* @type: Int -> Set(<<Int, Int>>);
Asked == [l \in Replicas |->
    IF Counts(l) THEN {<<f, pending[l].incarnations[f]>> : f \in pending[l].isr \ isr[l]} ELSE {}]

Interface == INSTANCE LeaderAndIsr WITH Dropped <- "none", awaited <- Awaited, asked <- Asked

Now == [leader |-> state.leader, isr |-> state.isr]

RememberingInit == Init /\ decisions = <<Now>>

Remember ==
    decisions' = IF state'.epoch > Len(decisions) THEN Append(decisions, Now')
                 ELSE [decisions EXCEPT ![state'.epoch] = Now']

RememberingSpec == RememberingInit /\ [][Next /\ Remember]_<<vars, decisions>>

-----------------------------------------------------------------------------
KeepsToLeaderAndIsr == Interface!Spec

(* Probes *)
NeverLags == \A r \in Replicas : epoch[r] = Len(decisions)
NeverWaitsForMore == \A l \in Replicas : Leads(l) => Maximal(l) = decisions[epoch[l]].isr
=============================================================================
