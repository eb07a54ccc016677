-------------------- MODULE AlterPartitionCommittedProof --------------------
(* Why what was committed is on whoever may lead next, although the ISR is  *)
(* changed by request, leaders learn late that they were deposed, and who   *)
(* is outside the ISR comes back with an empty disk.                        *)
EXTENDS AlterPartitionProof

-----------------------------------------------------------------------------
(* Brokers, and what a leader was told of them *)

NoFutureRecords == \A r \in Replicas : \A i \in 1..LogEnd(r) : log[r][i] <= epoch[r]

LogsAscend ==
    \A r \in Replicas : \A j \in 1..LogEnd(r) : \A i \in 1..j : log[r][i] <= log[r][j]

IsrIsAlive ==
    /\ state.isr \subseteq alive
    /\ \A r \in alive : registered[r] = incarnation[r]
    /\ \A r \in Replicas : registered[r] <= incarnation[r]

(* Who may lead next with its disk: eligible ones only while they keep it.  *)
KeptElr == {r \in elr : registered[r] = incarnation[r]}

(* What a follower told of its log is so while it follows, and has its disk.*)
EndsAreTrueSince ==
    \A l, f \in Replicas : (Leads(l) /\ f # l) =>
        /\ (ends[l][f] = Nothing) = (seen[l][f] = Nothing)
        /\ ends[l][f] # Nothing =>
            /\ epoch[l] <= epoch[f] /\ ends[l][f] <= LogEnd(l) /\ seen[l][f] <= incarnation[f]
            /\ (epoch[f] = epoch[l] /\ seen[l][f] = incarnation[f]) =>
                /\ ends[l][f] <= LogEnd(f)
                /\ Take(log[f], ends[l][f]) = Take(log[l], ends[l][f])

(* Who may lead has its disk since its leader has heard of it.              *)
MembersKeepDisks ==
    \A l \in Replicas : Leads(l) => \A r \in (state.isr \cup KeptElr) \ {l} :
        (epoch[r] = epoch[l] /\ ends[l][r] # Nothing) => seen[l][r] = incarnation[r]

(* Whom a leader has asked in has all that may be committed, unless it has  *)
(* restarted since; and then the controller refuses it.                     *)
JoinersHaveAll ==
    \A l \in Replicas : (Current(l) /\ IsPending(l)) =>
        \A f \in pending[l].isr \ isr[l] :
            /\ Nothing < pending[l].incarnations[f]
            /\ pending[l].incarnations[f] <= seen[l][f]
            /\ pending[l].incarnations[f] = incarnation[f] =>
                ends[l][f] >= highWatermark[l] /\ ends[l][f] >= EpochStart(l)

-----------------------------------------------------------------------------
(* Deposed leaders: whom l waits for, or may wait for once it is answered   *)

(* A refusal takes a leader back to the ISR that it knows, in whatever      *)
(* epoch; and whoever asked is a member.                                    *)
RefusalsTellIsr ==
    \A a \in answers : \A l \in Replicas :
        (Leads(l) /\ pending[l] = a.to /\ a.outcome = "ineligible") => a.isr = isr[l]

(* Who may lead next without what a leader commits, if that has this ISR.   *)
MayLead(confirmed) == state.isr \cup (IF Cardinality(confirmed) < MinIsr THEN {} ELSE KeptElr)

(* Who is in the ISR or eligible, and behind a leader, was in the ISR all   *)
(* the time: that leader waits for it, and has not heard of it.             *)
Behind(l, confirmed, awaited) ==
    \A r \in MayLead(confirmed) : epoch[r] < epoch[l] => r \in awaited
WhoIsBehindIsAwaited ==
    \A l \in Replicas : Leads(l) =>
        /\ Behind(l, isr[l], Maximal(l))
        /\ \A a \in answers : a.to = pending[l] => Behind(l, a.isr, a.isr)

(* Nobody outside joins, and nobody leads, before somebody whom the deposed *)
(* leader waits for has left its epoch.                                     *)
MovedOn(l, confirmed, awaited) ==
    \/ \E m \in awaited : epoch[m] > epoch[l]
    \/ /\ MayLead(confirmed) \subseteq awaited
       /\ \A s \in Replicas : ~(Leads(s) /\ epoch[s] > epoch[l])
SomebodyMovedOn ==
    \A l \in Replicas : Leads(l) =>
        /\ MovedOn(l, isr[l], Maximal(l))
        /\ \A a \in answers : a.to = pending[l] => MovedOn(l, a.isr, a.isr)

(* The most that a deposed leader may still commit.                         *)
Reach(l, awaited) ==
    Min({LogEnd(l)} \cup {ends[l][m] : m \in {x \in awaited \ {l} : epoch[x] # epoch[l]}})

(* It commits nothing that its successors lack: neither who may lead, who   *)
(* have moved on or may yet follow it, nor later leaders.                   *)
Succeeded(l, confirmed, awaited) ==
    \A r \in Replicas :
        (r \in MayLead(confirmed) \/ (Leads(r) /\ epoch[r] > epoch[l])) =>
            \/ r \in awaited /\ epoch[r] = epoch[l]
            \/ IsPrefix(Take(log[l], Reach(l, awaited)), log[r])
SuccessorsHaveReach ==
    \A l \in Replicas : (Leads(l) /\ epoch[l] < state.epoch) =>
        /\ Succeeded(l, isr[l], Maximal(l))
        /\ \A a \in answers : a.to = pending[l] => Succeeded(l, a.isr, a.isr)

-----------------------------------------------------------------------------
(* What is committed *)

(* A leader that they may still follow has it.                              *)
CommittedAtLeaders ==
    \A l \in Replicas :
        (Leads(l) /\ \E r \in state.isr \cup KeptElr : epoch[r] <= epoch[l]) => IsPrefix(committed, log[l])

LeaderKnowsCommitted ==
    \A l \in Replicas : Current(l) => Len(committed) <= Max({highWatermark[l], EpochStart(l)})

CommittedGrows == IsPrefix(committed, committed')
=============================================================================
