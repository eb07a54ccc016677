----------------------------- MODULE Decisions -----------------------------
(* One decision of the controller about a partition after another: who may  *)
(* lead, and who may be in sync. LeaderAndIsr adds epochs, and what leaders *)
(* know; modules without either keep to this alone.                         *)
EXTENDS FiniteSets, Naturals

CONSTANTS
    (* @type: Set(Int); *) Replicas,
    (* @type: Str; *)      Dropped      \* the rule that is left out, "none" as it should be

(* Dropped: "awaits", a leader may go on without one of the ISR; "asked",    *)
(* the ISR may take in whom its leader awaits and has not asked for;        *)
(* "incarnation", or an earlier incarnation of it; "elects", anybody may    *)
(* lead; "keeps", an election may bring others into the ISR; "oneLeader",   *)
(* the leader may change within a leader epoch.                             *)
ASSUME Dropped \in {"none", "awaits", "asked", "incarnation", "elects", "keeps", "oneLeader"}

\* @typeAlias: decision = {leader: Int, isr: Set(Int)};
Nobody == 0

-----------------------------------------------------------------------------
(* In the same leader epoch: replicas leave the ISR, or join it whom the    *)
(* leader awaits.                                                           *)
\* @type: ($decision, $decision, Set(Int)) => Bool;
SameEpoch(before, after, joining) ==
    /\ Dropped # "oneLeader" => after.leader = before.leader
    /\ after.leader # Nobody /\ after.leader \in after.isr
    /\ after.isr \ before.isr \subseteq joining

(* In a new one: nobody joins but an eligible leader (KIP-966), and whoever *)
(* leads is in sync.                                                        *)
\* @type: ($decision, $decision, Set(Int)) => Bool;
NextEpoch(before, after, eligible) ==
    /\ after.leader # Nobody => after.leader \in after.isr
    /\ Dropped # "elects" =>
        after.leader \in {Nobody} \cup before.isr \cup eligible
    /\ Dropped \notin {"keeps", "elects"} =>
        after.isr \subseteq before.isr \cup (eligible \cap {after.leader})

\* @type: ($decision, $decision, Set(Int), Set(Int)) => Bool;
Follows(before, after, joining, eligible) ==
    SameEpoch(before, after, joining) \/ NextEpoch(before, after, eligible)
=============================================================================
