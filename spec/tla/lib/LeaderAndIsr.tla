---------------------------- MODULE LeaderAndIsr ----------------------------
(* The interface between the controller's modules and the replication's:    *)
(* what the decisions about a partition may be, and what its leader has to  *)
(* do before and after. AlterPartitionDecisions, Reassignment, Registration,*)
(* Controller and DurableIsr are shown to keep to it; OpenTruncation and    *)
(* OpenDurableIsr show that to rely on no more than this is enough.         *)
EXTENDS Decisions, Naturals, Sequences, FiniteSets

VARIABLES
    (* @type: Seq($decision); *)       decisions,   \* one per leader epoch, the last one in force: who leads, who is in sync
    (* @type: Int -> Int; *)           epoch,       \* per replica: the newest leader epoch that it was told of
    (* @type: Int -> Set(Int); *)      awaited,     \* per leader: for whom its high watermark waits, {} at a follower
    (* @type: Int -> Set(<<Int, Int>>); *) asked,       \* per leader: whom it wants in the ISR, each with the incarnation it knows
    (* @type: Int -> Int; *)           incarnation  \* per replica: which process of it runs; not the interface's to say

vars == <<decisions, epoch, awaited, asked>>
Current == Len(decisions)
Last == decisions[Current]

-----------------------------------------------------------------------------
Decision == [leader : Replicas \cup {Nobody}, isr : SUBSET Replicas \ {{}}]

(* Whom the leader has asked for, once it knows that it leads, and awaits.  *)
Joining(l) ==
    IF epoch[l] # Current THEN {}
    ELSE CASE Dropped = "asked"       -> awaited[l]
           [] Dropped = "incarnation" -> {p[1] : p \in asked[l]}
           [] OTHER                   -> {p[1] : p \in {q \in asked[l] : q[2] = incarnation[q[1]]}}

(* A wish may be forgotten at any time. *)
Wishes(r, these) == asked'[r] \subseteq these
AndNoOthers == \A r \in Replicas : Wishes(r, asked[r])

Alter(leader, isr) ==
    LET new == [leader |-> leader, isr |-> isr]
    IN  /\ Last.leader # Nobody /\ new # Last
        /\ SameEpoch(Last, new, Joining(Last.leader))
        /\ decisions' = [decisions EXCEPT ![Current] = new]
        /\ UNCHANGED <<epoch, awaited>> /\ AndNoOthers

Begin(leader, isr) ==
    /\ NextEpoch(Last, [leader |-> leader, isr |-> isr], {})
    /\ decisions' = Append(decisions, [leader |-> leader, isr |-> isr])
    /\ UNCHANGED <<epoch, awaited>> /\ AndNoOthers

(* A replica hears of a decision, sooner or later, of an older one as well. *)
Hear(r, e) ==
    /\ e \in epoch[r] + 1..Current
    /\ epoch' = [epoch EXCEPT ![r] = e]
    /\ awaited' = [awaited EXCEPT ![r] = IF decisions[e].leader = r THEN decisions[e].isr ELSE {}]
    /\ UNCHANGED decisions /\ AndNoOthers /\ Wishes(r, {})

(* A leader awaits others than before: always all of the ISR, as it is, or  *)
(* was at the end of its leader epoch.                                      *)
Await(l, these) ==
    /\ awaited[l] # {} /\ l \in these
    /\ Dropped # "awaits" => decisions[epoch[l]].isr \subseteq these
    /\ awaited' = [awaited EXCEPT ![l] = these]
    /\ \A r \in Replicas \ {l} : Wishes(r, asked[r])
    /\ \A p \in asked'[l] : p[1] \in these /\ (p \in asked[l] \/ p[1] \notin awaited[l])
    /\ UNCHANGED <<decisions, epoch>>

(* It leads no more: its process has ended.                                 *)
Leave(l) ==
    /\ awaited' = [awaited EXCEPT ![l] = {}]
    /\ UNCHANGED <<decisions, epoch>> /\ AndNoOthers /\ Wishes(l, {})

Next ==
    \/ \E d \in Decision : Alter(d.leader, d.isr) \/ Begin(d.leader, d.isr)
    \/ \E r \in Replicas, e \in 1..Current : Hear(r, e)
    \/ \E l \in Replicas, these \in SUBSET Replicas : Await(l, these)
    \/ \E l \in Replicas : Leave(l)

Init ==
    /\ decisions = <<[leader |-> 1, isr |-> Replicas]>>
    /\ epoch = [r \in Replicas |-> 1]
    /\ awaited = [r \in Replicas |-> IF r = 1 THEN Replicas ELSE {}]
    /\ asked = [r \in Replicas |-> {}]

Spec == Init /\ [][Next]_vars

(* What follows: a leader waits for whoever may be in sync.                 *)
IsrIsAwaited == \A l \in Replicas : awaited[l] # {} => decisions[epoch[l]].isr \subseteq awaited[l]
=============================================================================
