--------------------------- MODULE AlterPartition ---------------------------
(* One partition whose ISR is changed by request (KIP-497): the leader      *)
(* asks, the controller decides, and the leader learns the answer, or the   *)
(* metadata tell it. Requests and answers are lost, late and repeated: both *)
(* are sets from which nothing is taken. In the meantime brokers are fenced *)
(* and come back, a follower restarts with an empty disk, and leaders       *)
(* change. Truncation takes all this for one step.                          *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)   N,                   \* replicas 1..N
    (* @type: Int; *)   MaxRecords,          \* bound: records in a log
    (* @type: Int; *)   MaxEpoch,            \* bound: leader epochs
    (* @type: Int; *)   MaxPartitionEpoch,   \* bound: partition epochs
    (* @type: Int; *)   MaxRestarts,         \* bound: restarts, 0 for none
    (* @type: Int; *)   MinIsr,              \* min.insync.replicas
    (* @type: Bool; *)  Elr,                 \* eligible leader replicas (KIP-966)
    (* @type: Bool; *)  MaximalIsr,          \* KIP-497: the high watermark waits for whom the leader asked in
    (* @type: Bool; *)  OnePending,          \* one request at a time
    (* @type: Bool; *)  Several,             \* one request may take several replicas out
    (* @type: Bool; *)  CheckPartitionEpoch, \* the controller's update is conditional
    (* @type: Bool; *)  CheckAlive,          \* KIP-841: nobody joins who is fenced
    (* @type: Bool; *)  CheckIncarnation,    \* KIP-903: nobody joins on the word of an earlier incarnation
    (* @type: Bool; *)  CheckEpochStart,     \* KAFKA-7128: nobody joins before the start of the leader's epoch
    (* @type: Bool; *)  MatchAnswer,         \* KAFKA-12686: an answer counts for the request that it answers
    (* @type: Bool; *)  RaiseOnRefusal,      \* a refusal raises the partition epoch, so that copies of it are fenced
    (* @type: Bool; *)  NewerOnly,           \* news of the same partition epoch do not settle what is pending
    (* @type: Bool; *)  OnlyResent,          \* a copy of a request is there only if the leader has sent it again
    (* @type: Bool; *)  KeepIfResent,        \* a refusal of what was sent again does not take the leader back
    (* @type: Bool; *)  GiveUp,              \* a request without an answer is forgotten
    (* @type: Bool; *)  FenceRaisesEpoch,    \* a follower that is fenced begins a leader epoch (not since KAFKA-15021)
    (* @type: Str; *)   Unregistered,        \* how a follower fetches before it has registered
    (* @type: Str; *)   Dropped              \* the rule that is left out, "none" as it should be

(* Dropped: "leader", a leader may take itself out of the ISR; "leaderEpoch",*)
(* another leader leads in the same epoch; "answered", a leader counts the   *)
(* partition epoch up instead of taking the one that it is answered;         *)
(* "confirmed", who is asked in counts towards min.insync.replicas.          *)
ASSUME Dropped \in {"none", "leader", "leaderEpoch", "answered", "confirmed"}

(* Unregistered: "named", it names its incarnation like any other; "exempt", *)
(* Kafka 4.3: it names none, and who is known by none may join; "refused",   *)
(* it names none, and is not asked in; "silent", it does not fetch.          *)
ASSUME Unregistered \in {"named", "exempt", "refused", "silent"}

\* @typeAlias: isrRequest = {leader: Int, epoch: Int, partitionEpoch: Int, isr: Set(Int), incarnations: Int -> Int};
\* @typeAlias: isrAnswer = {to: $isrRequest, outcome: Str, partitionEpoch: Int, isr: Set(Int)};
\* @typeAlias: partition = {leader: Int, epoch: Int, partitionEpoch: Int, isr: Set(Int)};
Replicas == 1..N
Nothing == 0 - 1

VARIABLES
    (* @type: Int -> Seq(Int); *)       log,            \* per replica: the leader epoch of each record
    (* @type: Int -> Int; *)            highWatermark,  \* per replica
    (* @type: Int -> Int; *)            epoch,          \* per replica: the leader epoch that it was told of
    (* @type: Int -> Int; *)            partitionEpoch, \* per leader: the partition epoch that it knows of
    (* @type: Int -> Set(Int); *)       isr,            \* per leader: the ISR that the controller has confirmed, {} at a follower
    (* @type: Int -> $isrRequest; *)    pending,        \* per leader: the request that is not settled
    (* @type: Int -> (Int -> Int); *)   ends,           \* per leader: each follower's log end, as of its last fetch
    (* @type: Int -> (Int -> Int); *)   seen,           \* and its incarnation
    (* @type: $partition; *)            state,          \* the controller's record: leader, epoch, partitionEpoch, isr
    (* @type: Set(Int); *)              elr,            \* and who is eligible without being in sync
    (* @type: Set(Int); *)              alive,          \* brokers that are not fenced
    (* @type: Int -> Int; *)            registered,     \* per broker: the incarnation that the controller knows of
    (* @type: Int -> Int; *)            incarnation,    \* per replica: how often it has restarted
    (* @type: Set($isrRequest); *)      requests,       \* whatever leaders ever asked
    (* @type: Set($isrRequest); *)      resent,         \* what they have sent more than once, as an answer took too long
    (* @type: Set($isrAnswer); *)       answers,        \* whatever the controller ever answered
    (* @type: Seq(Int); *)              committed       \* ghost: what was below a leader's high watermark once

replicas == <<log, highWatermark, epoch, partitionEpoch, isr, pending, ends, seen>>
decided == <<state, elr>>
vars == <<replicas, decided, alive, registered, incarnation, requests, resent, answers, committed>>

Nobody == [r \in Replicas |-> 0]
Unheard == [r \in Replicas |-> Nothing]
NoRequest == [leader |-> 0, epoch |-> 0, partitionEpoch |-> 0, isr |-> {}, incarnations |-> Unheard]

InitWith(members) ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ highWatermark = Nobody
    /\ epoch = [r \in Replicas |-> 1]
    /\ partitionEpoch = [r \in Replicas |-> 1]
    /\ isr = [r \in Replicas |-> IF r = 1 THEN members ELSE {}]
    /\ pending = [r \in Replicas |-> NoRequest]
    /\ ends = [r \in Replicas |-> Unheard]
    /\ seen = [r \in Replicas |-> Unheard]
    /\ state = [leader |-> 1, epoch |-> 1, partitionEpoch |-> 1, isr |-> members]
    /\ elr = {}
    /\ alive = Replicas
    /\ registered = Nobody /\ incarnation = Nobody
    /\ requests = {} /\ resent = {} /\ answers = {}
    /\ committed = <<>>

Init == InitWith(Replicas)

-----------------------------------------------------------------------------
LogEnd(r) == Len(log[r])
Leads(l) == isr[l] # {}
IsPending(l) == pending[l] # NoRequest

(* Whoever may be in the ISR, as far as the leader can know. *)
Maximal(l) == IF MaximalIsr /\ IsPending(l) THEN isr[l] \cup pending[l].isr ELSE isr[l]

(* Below min.insync.replicas nothing is committed, and of those in sync only *)
(* whom the controller has confirmed is counted: an election may pass over   *)
(* the others, for the sake of who left the ISR last (KIP-966).              *)
Enough(l) == Cardinality(IF Dropped = "confirmed" THEN Maximal(l) ELSE isr[l]) >= MinIsr

EpochStart(l) == Cardinality({i \in 1..LogEnd(l) : log[l][i] < epoch[l]})

-----------------------------------------------------------------------------
(* The leader and its followers, in the same leader epoch (KIP-320) *)

Write(l) ==
    /\ Leads(l) /\ LogEnd(l) < MaxRecords
    /\ log' = [log EXCEPT ![l] = Append(@, epoch[l])]
    /\ UNCHANGED <<highWatermark, epoch, partitionEpoch, isr, pending, ends, seen>>
    /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers, committed>>

AdvanceHighWatermark(l) ==
    LET new == Min({LogEnd(l)} \cup {ends[l][f] : f \in Maximal(l) \ {l}})
    IN  /\ Leads(l) /\ Enough(l) /\ new > highWatermark[l]
        /\ highWatermark' = [highWatermark EXCEPT ![l] = new]
        /\ committed' = IF new > Len(committed) THEN Take(log[l], new) ELSE committed
        /\ UNCHANGED <<log, epoch, partitionEpoch, isr, pending, ends, seen>>
        /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers>>

(* The incarnation that a fetch names. *)
Named(f) ==
    IF Unregistered \in {"exempt", "refused"} /\ registered[f] # incarnation[f] THEN Nothing
    ELSE incarnation[f]

Fetch(f, l) ==
    /\ f # l /\ Leads(l) /\ ~Leads(f) /\ epoch[f] = epoch[l]
    /\ Unregistered = "silent" => registered[f] = incarnation[f]
    /\ IsPrefix(log[f], log[l])
    /\ LET n == Min({LogEnd(l), LogEnd(f) + 1})
       IN  /\ log' = [log EXCEPT ![f] = Take(log[l], n)]
           /\ highWatermark' = [highWatermark EXCEPT ![f] = Min({highWatermark[l], n})]
    /\ ends' = [ends EXCEPT ![l][f] = LogEnd(f)]
    /\ seen' = [seen EXCEPT ![l][f] = Named(f)]
    /\ UNCHANGED <<epoch, partitionEpoch, isr, pending>>
    /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers, committed>>

Truncate(f, l) ==
    /\ f # l /\ Leads(l) /\ ~Leads(f) /\ epoch[f] = epoch[l]
    /\ ~IsPrefix(log[f], log[l])
    /\ LET n == CommonPrefix(log[f], log[l])
       IN  /\ log' = [log EXCEPT ![f] = Take(@, n)]
           /\ highWatermark' = [highWatermark EXCEPT ![f] = Min({@, n})]
    /\ UNCHANGED <<epoch, partitionEpoch, isr, pending, ends, seen>>
    /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers, committed>>

-----------------------------------------------------------------------------
(* The leader asks *)

Request(l, new) ==
    [leader |-> l, epoch |-> epoch[l], partitionEpoch |-> partitionEpoch[l], isr |-> new,
     incarnations |-> [r \in Replicas |-> IF r \in new THEN seen[l][r] ELSE Nothing]]

Ask(l, new) ==
    /\ Leads(l)
    /\ OnePending => ~IsPending(l)
    /\ pending' = [pending EXCEPT ![l] = Request(l, new)]
    /\ requests' = requests \cup {Request(l, new)}
    /\ answers' = IF OnlyResent THEN {a \in answers : a.to # Request(l, new)} ELSE answers
    /\ UNCHANGED <<log, highWatermark, epoch, partitionEpoch, isr, ends, seen>>
    /\ UNCHANGED <<decided, alive, registered, incarnation, resent, committed>>

ShrinkIsr(l, f) ==
    /\ f \in isr[l]
    /\ Dropped # "leader" => f # l
    /\ Ask(l, isr[l] \ {f})

(* Several lag at once: one request takes them out.                         *)
ShrinkIsrBySeveral(l, those) ==
    /\ Several /\ Cardinality(those) > 1
    /\ those \subseteq isr[l] \ {l}
    /\ Ask(l, isr[l] \ those)

ExpandIsr(l, f) ==
    /\ f \notin isr[l]
    /\ ends[l][f] >= highWatermark[l]
    /\ CheckEpochStart => ends[l][f] >= EpochStart(l)
    /\ Unregistered = "refused" => seen[l][f] # Nothing
    /\ Ask(l, isr[l] \cup {f})

(* The answer takes too long: the request is sent again, on another         *)
(* connection, and the first sending may arrive after it.                   *)
Resend(l) ==
    /\ OnlyResent /\ IsPending(l) /\ pending[l] \notin resent
    /\ requests' = requests \cup {pending[l]}
    /\ resent' = resent \cup {pending[l]}
    /\ UNCHANGED <<replicas, decided, alive, registered, incarnation, answers, committed>>

-----------------------------------------------------------------------------
(* The controller answers any request that it ever got *)

\* @type: ($isrRequest, Str, $partition) => Bool;
Answer(m, outcome, now) ==
    answers' = answers \cup {[to |-> m, outcome |-> outcome,
                              partitionEpoch |-> now.partitionEpoch, isr |-> now.isr]}

(* Of a member that the leader has not heard of yet it cannot say more, nor *)
(* of one whose fetch named no incarnation.                                 *)
\* @type: $isrRequest => Bool;
Eligible(m) ==
    /\ CheckAlive => m.isr \subseteq alive
    /\ CheckIncarnation =>
        \A r \in m.isr \ {m.leader} : m.incarnations[r] \in {Nothing, registered[r]}

(* KIP-966: who leaves the ISR while that is below min.insync.replicas has   *)
(* all that is committed, for as long as it keeps its disk.                  *)
ElrWith(new) == IF Elr /\ Cardinality(new) < MinIsr THEN (elr \cup state.isr) \ new ELSE {}

(* FENCED_LEADER_EPOCH, and INVALID_UPDATE_VERSION: the leader stays in     *)
(* doubt until it is told of the newer epoch, so no answer is needed. What  *)
(* is in force already is confirmed (KAFKA-14144).                          *)
AlterPartition(l) ==
    \E m \in requests :
        /\ m.leader = l /\ m.leader = state.leader /\ m.epoch = state.epoch
        /\ IF m.isr = state.isr
           THEN Answer(m, "done", state) /\ UNCHANGED decided
           ELSE /\ CheckPartitionEpoch => m.partitionEpoch = state.partitionEpoch
                /\ IF Eligible(m)
                   THEN /\ state.partitionEpoch < MaxPartitionEpoch
                        /\ state' = [state EXCEPT !.partitionEpoch = @ + 1, !.isr = m.isr]
                        /\ elr' = ElrWith(m.isr)
                        /\ Answer(m, "done", state')
                   ELSE /\ RaiseOnRefusal => state.partitionEpoch < MaxPartitionEpoch
                        /\ state' = IF RaiseOnRefusal
                                    THEN [state EXCEPT !.partitionEpoch = @ + 1] ELSE state
                        /\ Answer(m, "ineligible", state') /\ UNCHANGED elr
        /\ requests' = IF OnlyResent /\ m \notin resent THEN requests \ {m} ELSE requests
        /\ UNCHANGED <<replicas, alive, registered, incarnation, resent, committed>>

(* A refusal for the sake of a replica takes the leader back to the ISR     *)
(* that it had.                                                             *)
TakeIsrAnswer(l) ==
    \E a \in answers :
        /\ Leads(l) /\ a.to.leader = l /\ IsPending(l)
        /\ MatchAnswer => a.to = pending[l] /\ a.to.epoch = epoch[l]
                          /\ a.partitionEpoch >= partitionEpoch[l]
        /\ (KeepIfResent /\ a.outcome = "ineligible") => pending[l] \notin resent
        /\ pending' = [pending EXCEPT ![l] = NoRequest]
        /\ isr' = IF a.outcome = "done" THEN [isr EXCEPT ![l] = a.isr] ELSE isr
        /\ partitionEpoch' = [partitionEpoch EXCEPT ![l] =
                                IF Dropped = "answered" THEN @ + 1 ELSE a.partitionEpoch]
        /\ UNCHANGED <<log, highWatermark, epoch, ends, seen>>
        /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers, committed>>

Forget(l) ==
    /\ GiveUp /\ IsPending(l)
    /\ pending' = [pending EXCEPT ![l] = NoRequest]
    /\ UNCHANGED <<log, highWatermark, epoch, partitionEpoch, isr, ends, seen>>
    /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers, committed>>

-----------------------------------------------------------------------------
(* Metadata: the latest decision reaches a replica, after any time *)

IsNews(r) ==
    \/ state.epoch > epoch[r]
    \/ Dropped = "leaderEpoch" /\ state.leader = r /\ ~Leads(r)
    \/ /\ Leads(r) /\ state.epoch = epoch[r]
       /\ \/ state.partitionEpoch > partitionEpoch[r]
          \/ ~NewerOnly /\ state.partitionEpoch = partitionEpoch[r] /\ IsPending(r)

Told(r) ==
    /\ IsNews(r)
    /\ epoch' = [epoch EXCEPT ![r] = state.epoch]
    /\ partitionEpoch' = [partitionEpoch EXCEPT ![r] = state.partitionEpoch]
    /\ isr' = [isr EXCEPT ![r] = IF state.leader = r THEN state.isr ELSE {}]
    /\ pending' = [pending EXCEPT ![r] = NoRequest]
    /\ IF state.epoch = epoch[r] THEN UNCHANGED <<ends, seen>>
       ELSE ends' = [ends EXCEPT ![r] = Unheard] /\ seen' = [seen EXCEPT ![r] = Unheard]
    /\ UNCHANGED <<log, highWatermark>>
    /\ UNCHANGED <<decided, alive, registered, incarnation, requests, resent, answers, committed>>

-----------------------------------------------------------------------------
(* The controller on its own *)

Decide(leader, by, new) ==
    /\ state.partitionEpoch < MaxPartitionEpoch /\ state.epoch + by <= MaxEpoch
    /\ state' = [leader |-> leader, epoch |-> state.epoch + by,
                 partitionEpoch |-> state.partitionEpoch + 1, isr |-> new]
    /\ elr' = ElrWith(new)

(* Broker b is gone; r of the ISR leads: another one only if b led.         *)
Fence(b, r) ==
    /\ b \in alive /\ alive' = alive \ {b}
    /\ IF b \notin state.isr THEN r = b /\ UNCHANGED decided
       ELSE /\ r \in (state.isr \cap alive) \ {b}
            /\ state.leader # b => r = state.leader
            /\ Decide(r, IF r = state.leader /\ ~FenceRaisesEpoch THEN 0 ELSE 1, state.isr \ {b})
    /\ UNCHANGED <<replicas, registered, incarnation, requests, resent, answers, committed>>

(* Preferred leader. *)
Elect(r) ==
    /\ r \in state.isr \cap alive /\ r # state.leader
    /\ Decide(r, IF Dropped = "leaderEpoch" THEN 0 ELSE 1, state.isr)
    /\ UNCHANGED <<replicas, alive, registered, incarnation, requests, resent, answers, committed>>

(* A broker that was fenced restarts, with an empty disk. *)
Restart(r) ==
    /\ incarnation[r] < MaxRestarts
    /\ r \notin alive /\ r \notin state.isr /\ ~Leads(r)
    /\ incarnation' = [incarnation EXCEPT ![r] = @ + 1]
    /\ log' = [log EXCEPT ![r] = <<>>]
    /\ highWatermark' = [highWatermark EXCEPT ![r] = 0]
    /\ UNCHANGED <<epoch, partitionEpoch, isr, pending, ends, seen>>
    /\ UNCHANGED <<decided, alive, registered, requests, resent, answers, committed>>

(* A broker registers, or is heard of again in the same incarnation. Whose   *)
(* disk is empty is eligible no longer.                                     *)
Unfence(r) ==
    /\ r \notin alive /\ alive' = alive \cup {r}
    /\ registered' = [registered EXCEPT ![r] = incarnation[r]]
    /\ IF r \in elr /\ registered[r] # incarnation[r]
       THEN /\ state.partitionEpoch < MaxPartitionEpoch
            /\ state' = [state EXCEPT !.partitionEpoch = @ + 1]
            /\ elr' = elr \ {r}
       ELSE UNCHANGED decided
    /\ UNCHANGED <<replicas, incarnation, requests, resent, answers, committed>>

Next ==
    \/ \E l \in Replicas : Write(l)
    \/ \E l \in Replicas : AdvanceHighWatermark(l)
    \/ \E f, l \in Replicas : Fetch(f, l)
    \/ \E f, l \in Replicas : Truncate(f, l)
    \/ \E l, f \in Replicas : ShrinkIsr(l, f)
    \/ \E l \in Replicas, those \in SUBSET Replicas : ShrinkIsrBySeveral(l, those)
    \/ \E l, f \in Replicas : ExpandIsr(l, f)
    \/ \E l \in Replicas : Resend(l)
    \/ \E l \in Replicas : AlterPartition(l)
    \/ \E l \in Replicas : TakeIsrAnswer(l)
    \/ \E l \in Replicas : Forget(l)
    \/ \E r \in Replicas : Told(r)
    \/ \E b, r \in Replicas : Fence(b, r)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : Restart(r)
    \/ \E r \in Replicas : Unfence(r)

Spec == Init /\ [][Next]_vars

(* The last replica has left the ISR before: a smaller model of its return. *)
LastIsOut == InitWith(Replicas \ {N}) /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

TypeOK ==
    /\ \A r \in Replicas : \A i \in 1..LogEnd(r) : log[r][i] \in 1..MaxEpoch
    /\ highWatermark \in [Replicas -> 0..MaxRecords]
    /\ epoch \in [Replicas -> 1..MaxEpoch]
    /\ partitionEpoch \in [Replicas -> 1..MaxPartitionEpoch]
    /\ isr \in [Replicas -> SUBSET Replicas]
    /\ state.leader \in state.isr
    /\ elr \subseteq Replicas \ state.isr
    /\ alive \subseteq Replicas

(* Whatever somebody may have read is on every replica that may lead next.  *)
CommittedInIsr == \A r \in state.isr : IsPrefix(committed, log[r])

(* And on every replica that may lead once the ISR is gone, unless its disk  *)
(* is, of which the controller hears when it registers (KIP-966).            *)
CommittedInElr == \A r \in elr : registered[r] = incarnation[r] => IsPrefix(committed, log[r])

(* Whom the controller has in the ISR the leader waits for, whatever it     *)
(* knows: the heart of KIP-497.                                             *)
IsrWithinMaximal ==
    \A l \in Replicas :
        Leads(l) /\ epoch[l] = state.epoch /\ partitionEpoch[l] = state.partitionEpoch
            => state.isr \subseteq Maximal(l)

OneLeaderPerEpoch ==
    \A l, m \in Replicas : Leads(l) /\ Leads(m) /\ epoch[l] = epoch[m] => l = m
PartitionEpochBehind == \A r \in Replicas : partitionEpoch[r] <= state.partitionEpoch
AppendOnly == [][IsPrefix(committed, committed')]_committed

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverRefused == \A a \in answers : a.outcome = "done"
NeverUnawareMember == \A l \in Replicas : Leads(l) /\ epoch[l] = state.epoch => state.isr \subseteq isr[l]
NeverStaleLeader == \A l \in Replicas : Leads(l) => epoch[l] = state.epoch
NeverUnsettled ==
    \A a \in answers : ~(a.outcome = "ineligible" /\ a.to \in resent /\ a.to = pending[a.to.leader])
NeverRestartedMember == \A r \in state.isr : registered[r] = 0
=============================================================================
