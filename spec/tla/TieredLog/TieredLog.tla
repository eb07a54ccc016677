------------------------------ MODULE TieredLog -----------------------------
(* One partition with tiered storage (KIP-405): its leader copies what is in *)
(* its log to the tier, and each replica deletes locally what the tier has.  *)
(* The question is by what a replica knows that the tier has it: of its own  *)
(* lineage, and still. A segment is one record here; what is uncommitted, and*)
(* who is in sync, is in DurableIsr.                                         *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,             \* replicas 1..N
    (* @type: Int; *)  MaxRecords,    \* bound: records written
    (* @type: Int; *)  MaxElections,  \* bound: elections
    (* @type: Int; *)  MaxSwitches,   \* bound: how often tiered storage is disabled
    (* @type: Bool; *) Unclean,       \* unclean.leader.election.enable
    (* @type: Bool; *) ByExistence,   \* copying goes on behind what the tier has, not behind what was copied once
    (* @type: Bool; *) Forgotten,     \* what a replica knows of the tier ends when tiered storage is disabled
    (* @type: Bool; *) Lowered        \* and ends where its log is truncated

(* Kafka 4.3.1 has ByExistence, Forgotten and Lowered FALSE.                 *)

Replicas == 1..N

VARIABLES
    (* @type: Int -> Seq(Int); *) log,     \* per replica: its records, numbered as they were written, deleted ones too
    (* @type: Int -> Int; *)      start,   \* how many of them are deleted locally: the local log start offset
    (* @type: Int -> Int; *)      known,   \* up to where it takes the tier to have them: the highest offset in remote storage
    (* @type: Int; *)             leader,
    (* @type: Bool; *)            enabled, \* remote.storage.enable
    (* @type: Set(<<Int, Int>>); *) tier,    \* what the tier has: offsets and records
    (* @type: Set(<<Int, Int>>); *) history, \* and whatever it had
    (* @type: Int; *)             begin,   \* ghost: how many records the topic has given up: the log start offset
    (* @type: Int; *) written, (* @type: Int; *) elections, (* @type: Int; *) switches   \* bounds

vars == <<log, start, known, leader, enabled, tier, history, begin, written, elections, switches>>
tiers == <<enabled, tier, history, begin>>

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ start = [r \in Replicas |-> 0] /\ known = [r \in Replicas |-> 0]
    /\ leader = 1
    /\ enabled = TRUE /\ tier = {} /\ history = {} /\ begin = 0
    /\ written = 0 /\ elections = 0 /\ switches = 0

(* How far the tier has what this replica has, as far as one looks.          *)
Reaches(r, copies) ==
    Max({begin} \cup {i \in 1..Len(log[r]) : <<i, log[r][i]>> \in copies})
Highest(r) == Reaches(r, IF ByExistence THEN tier ELSE history)

-----------------------------------------------------------------------------
(* Replication *)

Write ==
    /\ written < MaxRecords /\ written' = written + 1
    /\ log' = [log EXCEPT ![leader] = Append(@, written + 1)]
    /\ UNCHANGED <<start, known, leader, tiers, elections, switches>>

(* A follower copies the next record, locally or, if the leader has it in    *)
(* the tier alone, by its place there.                                       *)
Fetch(f) ==
    /\ f # leader /\ log[f] # log[leader] /\ IsPrefix(log[f], log[leader])
    /\ LET i == Len(log[f]) + 1
       IN  /\ log' = [log EXCEPT ![f] = Take(log[leader], i)]
           /\ start' = [start EXCEPT ![f] = IF i <= start[leader] THEN i ELSE @]
    /\ UNCHANGED <<known, leader, tiers, written, elections, switches>>

(* It cuts what the leader does not have.                                    *)
Truncate(f) ==
    /\ f # leader /\ ~IsPrefix(log[f], log[leader])
    /\ LET n == CommonPrefix(log[f], log[leader])
       IN  /\ log' = [log EXCEPT ![f] = Take(@, n)]
           /\ start' = [start EXCEPT ![f] = Min({@, n})]
           /\ known' = IF Lowered THEN [known EXCEPT ![f] = Min({@, n})] ELSE known
    /\ UNCHANGED <<leader, tiers, written, elections, switches>>

Elect(r) ==
    /\ r # leader
    /\ Unclean \/ log[r] = log[leader]
    /\ elections < MaxElections /\ elections' = elections + 1
    /\ leader' = r
    /\ UNCHANGED <<log, start, known, tiers, written, switches>>

-----------------------------------------------------------------------------
(* The tier *)

Copy ==
    LET i == Highest(leader) + 1
    IN  /\ enabled /\ i \in (start[leader] + 1)..Len(log[leader])
        /\ tier' = tier \cup {<<i, log[leader][i]>>}
        /\ history' = history \cup {<<i, log[leader][i]>>}
        /\ known' = [known EXCEPT ![leader] = Max({@, i})]
        /\ UNCHANGED <<log, start, leader, enabled, begin, written, elections, switches>>

(* A follower, or a leader that is new, asks for what was copied.            *)
Learn(r) ==
    /\ enabled /\ Highest(r) > known[r]
    /\ known' = [known EXCEPT ![r] = Highest(r)]
    /\ UNCHANGED <<log, start, leader, tiers, written, elections, switches>>

(* Local retention.                                                          *)
DeleteLocally(r) ==
    /\ enabled /\ start[r] < Min({known[r], Len(log[r])})
    /\ start' = [start EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<log, known, leader, tiers, written, elections, switches>>

(* remote.storage.enable=false, remote.log.delete.on.disable=true: what some *)
(* replica has in the tier alone is given up.                                *)
Disable ==
    /\ enabled /\ enabled' = FALSE
    /\ switches < MaxSwitches /\ switches' = switches + 1
    /\ tier' = {}
    /\ begin' = Max({start[r] : r \in Replicas})
    /\ known' = IF Forgotten THEN [r \in Replicas |-> 0] ELSE known
    /\ UNCHANGED <<log, start, leader, history, written, elections>>

Enable ==
    /\ ~enabled /\ enabled' = TRUE
    /\ UNCHANGED <<log, start, known, leader, tier, history, begin, written, elections, switches>>

Next ==
    \/ Write
    \/ \E f \in Replicas : Fetch(f)
    \/ \E f \in Replicas : Truncate(f)
    \/ \E r \in Replicas : Elect(r)
    \/ Copy
    \/ \E r \in Replicas : Learn(r)
    \/ \E r \in Replicas : DeleteLocally(r)
    \/ Disable
    \/ Enable

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* What a replica has deleted locally is in the tier, of its own lineage.    *)
DeletedIsInTier ==
    \A r \in Replicas : \A i \in (begin + 1)..start[r] : <<i, log[r][i]>> \in tier

(* What its leader has is somewhere: locally, or in the tier.                *)
NothingIsLost ==
    \A i \in (begin + 1)..Len(log[leader]) : i > start[leader] \/ <<i, log[leader][i]>> \in tier

(* Copying goes on: what is in the leader's log alone may be copied.         *)
CopyingGoesOn ==
    (/\ enabled
     /\ \E i \in (Max({begin, start[leader]}) + 1)..Len(log[leader]) : <<i, log[leader][i]>> \notin tier)
        => ENABLED Copy

(* While tiered storage is disabled, the tier has nothing.                   *)
DisabledIsEmpty == ~enabled => tier = {}

(* The tier gives up what it has only where tiered storage is disabled.      *)
TierKeeps == [][tier \subseteq tier' \/ ~enabled']_vars

(* A replica has written what is in its local log, or has copied it from its *)
(* leader's local log.                                                       *)
Local(r) == {<<i, log[r][i]>> : i \in (start[r] + 1)..Len(log[r])}
LocalIsCopied == [][\A r \in Replicas :
    Local(r)' \subseteq Local(r) \cup Local(leader) \cup {<<Len(log[r]) + 1, written'>>}]_vars

-----------------------------------------------------------------------------
(* Probes *)
NeverInTierAlone == start[leader] = begin
NeverCopiedAgain == [][tier' \ tier \subseteq tier' \ history]_tier
NeverOfTwoLineages == \A a, b \in tier : a[1] = b[1] => a = b
NeverFromTier == [][\A r \in Replicas :
    r # leader => start'[r] <= start[r] \/ Len(log'[r]) = Len(log[r])]_vars
NeverFollowerDeletes == [][\A r \in Replicas :
    r # leader => start'[r] <= start[r] \/ Len(log'[r]) # Len(log[r])]_vars
NeverCut == [][\A r \in Replicas : Len(log[r]) <= Len(log'[r])]_vars
=============================================================================
