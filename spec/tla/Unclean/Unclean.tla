------------------------------ MODULE Unclean ------------------------------
(* What an unclean election loses, exactly: the end of the log, from where  *)
(* the new leader's own log ends or differs, and nothing else. Choosing the *)
(* longest live log is not enough to keep what a live replica has: the      *)
(* epoch of its last record must be compared first (KIP-966's unclean       *)
(* recovery does so; it is not in Kafka 4.3).                               *)
(*                                                                          *)
(* Kafka 4.3 takes the first live replica of the assignment: here any one.  *)
(* Replicas are killed with whole logs; DurableIsr has the page cache.      *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,            \* replicas 1..N
    (* @type: Int; *)  MaxRecords,   \* bound: records written
    (* @type: Int; *)  MaxKills,     \* bound: kills
    (* @type: Bool; *) Unclean,      \* unclean.leader.election.enable
    (* @type: Str; *)  Choice,       \* who is elected uncleanly: "any", or "longest" of the live logs
    (* @type: Str; *)  Dropped       \* the rule that is left out, "none" as it should be

ASSUME Choice \in {"any", "longest"}

(* Dropped: "catchUp", who returns to the ISR need not have caught up;      *)
(* "inOrder", a follower copies the newest record and skips others.         *)
ASSUME Dropped \in {"none", "catchUp", "inOrder"}

Replicas == 1..N
None == 0

VARIABLES
    (* @type: Int -> Seq(Int); *) log,       \* per replica: the numbers of its records
    (* @type: Set(Int); *)        up,        \* brokers that run
    (* @type: Int; *) leader, (* @type: Set(Int); *) isr,
    (* @type: Seq(Int); *)        acked,     \* ghost: the acknowledged records, in order
    (* @type: Set(Int); *)        lost,      \* ghost: acknowledged records that some unclean election gave up
    (* @type: Int; *) written, (* @type: Int; *) kills

vars == <<log, up, leader, isr, acked, lost, written, kills>>

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ up = Replicas /\ leader = 1 /\ isr = Replicas
    /\ acked = <<>> /\ lost = {} /\ written = 0 /\ kills = 0

\* @type: Seq(Int) => Set(Int);
Entries(s) == {s[i] : i \in 1..Len(s)}

-----------------------------------------------------------------------------
Write(l) ==
    /\ leader = l /\ written < MaxRecords /\ written' = written + 1
    /\ log' = [log EXCEPT ![l] = Append(@, written + 1)]
    /\ UNCHANGED <<up, leader, isr, acked, lost, kills>>

Pending(l) == SelectSeq(log[l], LAMBDA n : n \notin Entries(acked))

(* acks=all, min.insync.replicas=1: what the ISR has is acknowledged.       *)
Acknowledge(l) ==
    /\ leader = l /\ Pending(l) # <<>>
    /\ \A r \in isr : Pending(l)[1] \in Entries(log[r])
    /\ acked' = Append(acked, Pending(l)[1])
    /\ UNCHANGED <<log, up, leader, isr, lost, written, kills>>

Copied(f, l) ==
    CASE ~IsPrefix(log[f], log[l]) -> Take(log[f], CommonPrefix(log[f], log[l]))
      [] Dropped = "inOrder"       -> Append(log[f], log[l][Len(log[l])])
      [] OTHER                     -> Take(log[l], Len(log[f]) + 1)

(* A follower copies the next record, or cuts what the leader does not have.*)
Fetch(f, l) ==
    /\ leader = l /\ f \in up \ {l} /\ log[f] # log[l]
    /\ log' = [log EXCEPT ![f] = Copied(f, l)]
    /\ UNCHANGED <<up, leader, isr, acked, lost, written, kills>>

ShrinkIsr(l, f) ==
    /\ leader = l /\ f \in isr \ {l} /\ isr' = isr \ {f}
    /\ UNCHANGED <<log, up, leader, acked, lost, written, kills>>

ExpandIsr(l, f) ==
    /\ leader = l /\ f \in up \ isr
    /\ Dropped = "catchUp" \/ (IsPrefix(log[f], log[l]) /\ Entries(acked) \ lost \subseteq Entries(log[f]))
    /\ isr' = isr \cup {f}
    /\ UNCHANGED <<log, up, leader, acked, lost, written, kills>>

Kill(r) ==
    /\ kills < MaxKills /\ kills' = kills + 1
    /\ r \in up /\ up' = up \ {r}
    /\ leader' = IF leader = r THEN None ELSE leader
    /\ isr' = IF isr = {r} THEN isr ELSE isr \ {r}
    /\ UNCHANGED <<log, acked, lost, written>>

Restart(r) ==
    /\ r \notin up /\ up' = up \cup {r}
    /\ UNCHANGED <<log, leader, isr, acked, lost, written, kills>>

Elect(r) ==
    /\ leader = None /\ r \in isr \cap up /\ leader' = r
    /\ UNCHANGED <<log, up, isr, acked, lost, written, kills>>

Eligible(r) ==
    /\ Unclean /\ isr \cap up = {}
    /\ Choice = "longest" => \A s \in up : Len(log[s]) <= Len(log[r])

(* The new leader's log is the log: acknowledged records that it lacks are  *)
(* given up.                                                                *)
ElectUnclean(r) ==
    /\ leader = None /\ r \in up /\ Eligible(r)
    /\ leader' = r /\ isr' = {r}
    /\ lost' = lost \cup (Entries(acked) \ Entries(log[r]))
    /\ UNCHANGED <<log, up, acked, written, kills>>

Next ==
    \/ \E l \in Replicas : Write(l)
    \/ \E l \in Replicas : Acknowledge(l)
    \/ \E f, l \in Replicas : Fetch(f, l)
    \/ \E l, f \in Replicas : ShrinkIsr(l, f)
    \/ \E l, f \in Replicas : ExpandIsr(l, f)
    \/ \E r \in Replicas : Kill(r)
    \/ \E r \in Replicas : Restart(r)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : ElectUnclean(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* Nothing is lost.                                                         *)
AckedSurvives == leader # None => Entries(acked) \subseteq Entries(log[leader])

(* Nothing is lost but what an unclean election gave up when it was held.   *)
LossIsKnown == leader # None => Entries(acked) \ lost \subseteq Entries(log[leader])

(* What one election gives up is the end of what was acknowledged and not   *)
(* yet lost: of two records the older one never goes alone.                 *)
LosesTheEnd ==
    [][\A n \in lost' \ lost, m \in Entries(acked) \ lost' : m < n]_lost

(* No record that a live replica has is lost in an election.                *)
LosesNothingLive == [][\A n \in lost' \ lost, r \in up : n \notin Entries(log[r])]_lost

(* Who leads is there, and in sync; nobody is in sync who is not there, but *)
(* the last one.                                                            *)
LeaderIsUp == leader # None => leader \in isr \cap up
IsrIsUp == isr \subseteq up \/ \E r \in Replicas : isr = {r}

(* While anybody is there who may lead somebody can be elected.             *)
SomebodyMayLead ==
    (leader = None /\ up # {} /\ (Unclean \/ isr \cap up # {})) =>
        \E r \in Replicas : ENABLED Elect(r) \/ ENABLED ElectUnclean(r)

(* Only who leads writes, at the end of its log, and somebody who leads     *)
(* answers; all others that are there copy.                                 *)
LeaderAnswers == [][leader # None]_acked
DownIsStill == [][\A r \in Replicas \ up : log'[r] = log[r]]_log
LeaderWrites ==
    [][IF written' = written
       THEN \A r \in Replicas : \E s \in {r, leader} \ {None} : IsPrefix(log'[r], log[s])
       ELSE leader # None /\ log' = [log EXCEPT ![leader] = Append(@, written')]]_<<log, written>>

-----------------------------------------------------------------------------
(* Broken rules. A `bug_` model has one of them in the place of the rule:   *)
(* each leaves out what one part of a promise above is about.               *)
NeverElects(r) == r = None /\ UNCHANGED vars

LeavesItself(l, f) ==
    /\ leader = l /\ f \in isr /\ isr' = isr \ {f}
    /\ UNCHANGED <<log, up, leader, acked, lost, written, kills>>

KillsUnseen(r) ==
    /\ kills < MaxKills /\ kills' = kills + 1
    /\ r \in up /\ up' = up \ {r}
    /\ UNCHANGED <<log, leader, isr, acked, lost, written>>

FetchesWhileDown(f, l) ==
    /\ leader = l /\ f # l /\ log[f] # log[l]
    /\ log' = [log EXCEPT ![f] = Copied(f, l)]
    /\ UNCHANGED <<up, leader, isr, acked, lost, written, kills>>

FetchesFromFollowers(f, l) ==
    /\ leader \notin {None, f} /\ f \in up \ {l} /\ log[f] # log[l]
    /\ log' = [log EXCEPT ![f] = Copied(f, l)]
    /\ UNCHANGED <<up, leader, isr, acked, lost, written, kills>>

FollowersWrite(l) ==
    /\ leader # None /\ written < MaxRecords /\ written' = written + 1
    /\ log' = [log EXCEPT ![l] = Append(@, written + 1)]
    /\ UNCHANGED <<up, leader, isr, acked, lost, kills>>

WritesNowhere(l) ==
    /\ written < MaxRecords /\ written' = written + 1
    /\ log' = IF leader = None THEN log ELSE [log EXCEPT ![leader] = Append(@, written + 1)]
    /\ UNCHANGED <<up, leader, isr, acked, lost, kills>>

-----------------------------------------------------------------------------
(* Probes *)
NeverLoses == lost = {}
NeverWhole == kills > 0 => isr # Replicas
NeverAcknowledgesAfterLoss == \A n \in lost : n >= Max(Entries(acked) \cup {0})
=============================================================================
