--------------------------- MODULE OpenTruncation ---------------------------
(* Truncation with a controller of which nothing is known but that it keeps *)
(* to LeaderAndIsr: the ISR is changed by request, by the controller alone, *)
(* or both at once; leaders hear of it late; anybody of the ISR is elected, *)
(* with any part of it. What Truncation promises holds all the same, so it  *)
(* assumes no more of the controller's modules than what they are shown to  *)
(* keep to.                                                                 *)
EXTENDS Truncation

CONSTANT (* @type: Str; *) Lawless   \* the rule of the interface that is left out, "none" as it should be

VARIABLE (* @type: Int -> Set(<<Int, Int>>); *) asked     \* per leader: whom it wants in the ISR, each with the incarnation it knows

Interface == INSTANCE LeaderAndIsr WITH
    Dropped <- Lawless, decisions <- leaderAndIsr, awaited <- isr

others == <<log, highWatermark, ends, up, late, answers, incarnation, seen, committed>>

(* The controller. *)
Alter(leader, new) ==
    /\ asked' = asked
    /\ Interface!Alter(leader, new) /\ UNCHANGED others
Begin(leader, new) ==
    /\ Current < MaxEpoch
    /\ asked' = asked
    /\ Interface!Begin(leader, new) /\ UNCHANGED others

(* The leader asks in who has what is committed, and waits for it from then *)
(* on; or it does not wait any more for somebody who is not in the ISR.     *)
AwaitMore(l, f) ==
    /\ Leads(l) /\ f \notin isr[l]
    /\ ends[l][f] >= highWatermark[l]
    /\ CheckEpochStart => ends[l][f] >= EpochStart(l)
    /\ asked' = [asked EXCEPT ![l] = @ \cup {<<f, seen[l][f]>>}]
    /\ Interface!Await(l, isr[l] \cup {f})
    /\ UNCHANGED others

AwaitLess(l, f) ==
    /\ Leads(l) /\ f \in isr[l]
    /\ asked' = [asked EXCEPT ![l] = {p \in @ : p[1] # f}]
    /\ Interface!Await(l, isr[l] \ {f})
    /\ UNCHANGED others

(* Truncation's own steps: who begins or ends a role wants nobody.          *)
Forgetting(r) == asked' = [asked EXCEPT ![r] = {}]

OpenNext ==
    \/ \E l \in Replicas : Write(l) /\ UNCHANGED asked
    \/ \E l \in Replicas : AdvanceHighWatermark(l) /\ UNCHANGED asked
    \/ \E l, f \in Replicas : AwaitMore(l, f)
    \/ \E l, f \in Replicas : AwaitLess(l, f)
    \/ \E f, l \in Replicas : Fetch(f, l) /\ UNCHANGED asked
    \/ \E f, l \in Replicas : FetchLost(f, l) /\ UNCHANGED asked
    \/ \E f, l \in Replicas : Truncate(f, l) /\ UNCHANGED asked
    \/ \E f, l \in Replicas : LateFetch(f, l) /\ UNCHANGED asked
    \/ \E r \in Replicas, e \in 1..MaxEpoch : BecomeLeader(r, e) /\ Forgetting(r)
    \/ \E r \in Replicas, e \in 1..MaxEpoch : BecomeFollower(r, e) /\ Forgetting(r)
    \/ \E leader \in 0..N, new \in SUBSET Replicas \ {{}} : Alter(leader, new)
    \/ \E leader \in 0..N, new \in SUBSET Replicas \ {{}} : Begin(leader, new)
    \/ \E r \in Replicas, checkpoint, kept \in 0..MaxRecords : Restart(r, checkpoint, kept) /\ Forgetting(r)

OpenInit == Init /\ asked = [r \in Replicas |-> {}]
OpenSpec == OpenInit /\ [][OpenNext]_<<vars, asked>>

IsrIsAwaited == Interface!IsrIsAwaited

-----------------------------------------------------------------------------
(* Probes *)
NeverAwaitsMore == \A l \in Replicas : Leads(l) => isr[l] = leaderAndIsr[epoch[l]].isr
NeverDecidedAlone == \A l \in Replicas : Leads(l) /\ epoch[l] = Current => Decided.isr = isr[l]
NeverComesBack == [][Current' # Current \/ Decided'.isr \subseteq Decided.isr]_leaderAndIsr
(* Whom a leader awaits again has more than it must have. *)
NeverAtHighWatermark ==
    [][\A l \in Replicas :
           \/ isr'[l] \subseteq isr[l] \/ epoch' # epoch
           \/ \E f \in isr'[l] \ isr[l] : ends[l][f] > Min({highWatermark[l], EpochStart(l)})]_isr
=============================================================================
