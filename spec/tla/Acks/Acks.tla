-------------------------------- MODULE Acks --------------------------------
(* What a producer is told, and what that is worth: acks=0, 1 and all, with *)
(* min.insync.replicas, against brokers that are killed, deposed without    *)
(* knowing it, or lose power and with it what they had not flushed.         *)
(*                                                                          *)
(* Kafka 4.3 with KIP-966. Records are numbered as they are sent; nothing   *)
(* is sent twice. What a leader tells its followers is known to it at once: *)
(* Truncation has the rest.                                                 *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,            \* replicas 1..N
    (* @type: Int; *)  MaxRecords,   \* bound: records sent
    (* @type: Int; *)  MaxFaults,    \* bound: faults
    (* @type: Str; *)  Faults,       \* which: "kill" keeps the log, "power" may lose its end, "depose" tells late
    (* @type: Str; *)  Acks,         \* what the producer waits for
    (* @type: Int; *)  MinIsr,       \* min.insync.replicas
    (* @type: Int; *)  RaisedTo,     \* what it is changed to during the run; MinIsr for no change
    (* @type: Bool; *) RaisedAtOnce, \* the leader knows of the change when the controller does
    (* @type: Bool; *) RaiseFences,  \* or it changes no ISR before it has read of it
    (* @type: Bool; *) LastKnownLeader, \* Kafka 4.x: with ISR and ELR empty the last leader may lead again
    (* @type: Bool; *) Unclean       \* unclean.leader.election.enable

ASSUME Acks \in {"0", "1", "all"}
ASSUME Faults \in {"kill", "power", "depose"}

Replicas == 1..N
None == 0

VARIABLES
    (* @type: Int -> Seq(Int); *) log,         \* per replica: the numbers of its records
    (* @type: Set(Int); *)        up,          \* brokers that run
    (* @type: Int; *) leader, (* @type: Set(Int); *) isr, (* @type: Set(Int); *) elr,   \* the controller's decision
    (* @type: Int; *)             lastKnown,   \* who led last, while nobody leads
    (* @type: Int; *)             deposed,     \* a broker that believes to lead still
    (* @type: Int; *)             minimum,     \* min.insync.replicas as the controller has it
    (* @type: Int; *)             leaderMin,   \* and as the leader has it
    (* @type: Set(Int); *)        crashed,     \* brokers that are down and may have lost records
    (* @type: Int; *)             sent,        \* how many records were sent
    (* @type: Set(Int); *)        acked,       \* ghost: the records that the producer was told are there
    (* @type: Seq(Int); *)        committed,   \* ghost: what was below the high watermark
    (* @type: Int; *)             faults

vars == <<log, up, leader, isr, elr, lastKnown, deposed, minimum, leaderMin, crashed, sent, acked, committed, faults>>

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ up = Replicas
    /\ leader = 1 /\ isr = Replicas /\ elr = {} /\ lastKnown = None /\ deposed = None
    /\ minimum = MinIsr /\ leaderMin = MinIsr
    /\ crashed = {}
    /\ sent = 0 /\ acked = {} /\ committed = <<>> /\ faults = 0

Holds(r) == {log[r][i] : i \in 1..Len(log[r])}

-----------------------------------------------------------------------------
(* The producer and whoever believes to lead *)

(* acks=0: sent is sent, whether or not anything arrives.                   *)
SendToNobody ==
    /\ sent < MaxRecords /\ Acks = "0"
    /\ sent' = sent + 1 /\ acked' = acked \cup {sent + 1}
    /\ UNCHANGED <<log, up, leader, lastKnown, isr, elr, deposed, minimum, leaderMin, crashed, committed, faults>>

(* acks=all: with too few in sync the write is refused, and so is no write  *)
(* of a deposed leader, whose ISR is what it was.                           *)
Accepts(l) ==
    /\ l \in up /\ l \in {leader, deposed}
    /\ (Acks = "all" /\ l = leader) => Cardinality(isr) >= leaderMin

Send(l) ==
    /\ sent < MaxRecords /\ Accepts(l)
    /\ sent' = sent + 1
    /\ log' = [log EXCEPT ![l] = Append(@, sent + 1)]
    /\ acked' = IF Acks = "all" THEN acked ELSE acked \cup {sent + 1}
    /\ UNCHANGED <<up, leader, lastKnown, isr, elr, deposed, minimum, leaderMin, crashed, committed, faults>>

(* The high watermark passes what the whole ISR has, if the ISR is large    *)
(* enough; with acks=all the producer is answered then. A deposed leader    *)
(* hears of nobody any more, and cannot shrink its ISR.                     *)
Commit(l) ==
    LET next == Take(log[l], Len(committed) + 1)
    IN  /\ l = leader /\ Len(log[l]) > Len(committed)
        /\ Cardinality(isr) >= leaderMin
        /\ \A r \in isr : IsPrefix(next, log[r])
        /\ committed' = next
        /\ acked' = IF Acks = "all" THEN acked \cup {next[Len(next)]} ELSE acked
        /\ UNCHANGED <<log, up, leader, lastKnown, isr, elr, deposed, minimum, leaderMin, crashed, sent, faults>>

(* A follower copies the next record, or cuts what the leader does not have.*)
Fetch(f, l) ==
    /\ l = leader /\ f \in up \ {l, deposed} /\ log[f] # log[l]
    /\ log' = [log EXCEPT ![f] =
                  IF IsPrefix(@, log[l]) THEN Take(log[l], Len(@) + 1)
                  ELSE Take(@, CommonPrefix(@, log[l]))]
    /\ UNCHANGED <<up, leader, lastKnown, isr, elr, deposed, minimum, leaderMin, crashed, sent, acked, committed, faults>>

-----------------------------------------------------------------------------
(* The controller *)

ElrWithout(r) == IF Cardinality(isr \ {r}) < minimum THEN elr \cup {r} ELSE {}

(* Another minimum is another partition epoch: what a leader asks that has   *)
(* not read of it is refused.                                               *)
MayAsk == RaiseFences => leaderMin = minimum

ShrinkIsr(l, f) ==
    /\ l = leader /\ f \in isr \ {l} /\ MayAsk
    /\ isr' = isr \ {f} /\ elr' = ElrWithout(f)
    /\ UNCHANGED <<log, up, leader, lastKnown, deposed, minimum, leaderMin, crashed, sent, acked, committed, faults>>

ExpandIsr(l, f) ==
    /\ l = leader /\ f \in up \ (isr \cup {deposed}) /\ MayAsk
    /\ IsPrefix(log[f], log[l]) /\ Len(log[f]) >= Len(committed)
    /\ isr' = isr \cup {f}
    /\ elr' = IF Cardinality(isr') >= minimum THEN {} ELSE elr \ {f}
    /\ UNCHANGED <<log, up, leader, lastKnown, deposed, minimum, leaderMin, crashed, sent, acked, committed, faults>>

Lead(r, newIsr, newElr) ==
    /\ leader = None /\ r \in up \ {deposed}
    /\ leader' = r /\ isr' = newIsr /\ elr' = newElr /\ lastKnown' = None
    /\ leaderMin' = minimum
    /\ UNCHANGED <<log, up, deposed, minimum, crashed, sent, acked, committed, faults>>

(* From the ISR, or, if none of it is there, from the ELR. *)
Elect(r) ==
    /\ r \in isr \/ (isr \cap up = {} /\ r \in elr)
    /\ Lead(r, isr \cup {r}, elr \ {r})

(* Kafka 4.x: all of them crashed, and the last leader may lead again.      *)
ElectLastKnown(r) ==
    /\ LastKnownLeader /\ isr \cup elr = {} /\ r = lastKnown
    /\ Lead(r, {r}, {})

ElectUnclean(r) ==
    /\ Unclean /\ (isr \cup elr) \cap (up \ {deposed}) = {}
    /\ Lead(r, {r}, {})

(* min.insync.replicas is changed; Kafka clears the ELR with it. The leader *)
(* reads the change from the metadata log, later, while the answers to its  *)
(* own requests come by another connection.                                 *)
RaiseMinIsr ==
    /\ minimum # RaisedTo /\ isr # {}
    /\ minimum' = RaisedTo /\ elr' = {}
    /\ leaderMin' = IF RaisedAtOnce THEN RaisedTo ELSE leaderMin
    /\ UNCHANGED <<log, up, leader, lastKnown, isr, deposed, crashed, sent, acked, committed, faults>>

LearnMinIsr ==
    /\ leaderMin # minimum /\ leaderMin' = minimum
    /\ UNCHANGED <<log, up, leader, lastKnown, isr, elr, deposed, minimum, crashed, sent, acked, committed, faults>>

-----------------------------------------------------------------------------
(* Faults *)

(* What the controller itself does to the ISR is read behind the change.    *)
Out(r) ==
    /\ faults < MaxFaults /\ faults' = faults + 1
    /\ leader' = IF leader = r THEN None ELSE leader
    /\ lastKnown' = IF leader = r THEN r ELSE lastKnown
    /\ isr' = isr \ {r}
    /\ elr' = IF r \in isr THEN ElrWithout(r) ELSE elr
    /\ leaderMin' = IF RaiseFences THEN minimum ELSE leaderMin
    /\ UNCHANGED <<minimum, sent, acked, committed>>

(* The process ends, in whatever it does; the log is whole.                 *)
Kill(r) ==
    /\ Faults = "kill" /\ r \in up
    /\ up' = up \ {r} /\ deposed' = IF deposed = r THEN None ELSE deposed
    /\ Out(r) /\ UNCHANGED <<log, crashed>>

(* The machine goes down: any end of the log may be gone.                   *)
PowerLoss(r, kept) ==
    /\ Faults = "power" /\ r \in up /\ kept <= Len(log[r])
    /\ up' = up \ {r} /\ log' = [log EXCEPT ![r] = Take(@, kept)]
    /\ crashed' = crashed \cup {r}
    /\ Out(r) /\ UNCHANGED deposed

(* The leader loses its session, and goes on.                               *)
Depose(r) ==
    /\ Faults = "depose" /\ leader = r /\ deposed = None
    /\ deposed' = r
    /\ Out(r) /\ UNCHANGED <<log, up, crashed>>

(* It learns that it was deposed. *)
LearnDeposed(r) ==
    /\ deposed = r /\ deposed' = None
    /\ UNCHANGED <<log, up, leader, lastKnown, isr, elr, minimum, leaderMin, crashed, sent, acked, committed, faults>>

Restart(r) ==
    /\ r \notin up /\ up' = up \cup {r}
    /\ crashed' = crashed \ {r}
    /\ elr' = IF r \in crashed THEN elr \ {r} ELSE elr
    /\ UNCHANGED <<log, leader, lastKnown, isr, deposed, minimum, leaderMin, sent, acked, committed, faults>>

Next ==
    \/ SendToNobody
    \/ \E l \in Replicas : Send(l)
    \/ \E l \in Replicas : Commit(l)
    \/ \E f, l \in Replicas : Fetch(f, l)
    \/ \E l, f \in Replicas : ShrinkIsr(l, f)
    \/ \E l, f \in Replicas : ExpandIsr(l, f)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : ElectLastKnown(r)
    \/ \E r \in Replicas : ElectUnclean(r)
    \/ RaiseMinIsr
    \/ LearnMinIsr
    \/ \E r \in Replicas : Kill(r)
    \/ \E r \in Replicas, kept \in 0..MaxRecords : PowerLoss(r, kept)
    \/ \E r \in Replicas : Depose(r)
    \/ \E r \in Replicas : LearnDeposed(r)
    \/ \E r \in Replicas : Restart(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* Whoever leads has every record that the producer was told is there.      *)
AcknowledgedSurvives == leader # None => acked \subseteq Holds(leader)

(* Whoever leads has everything that was below the high watermark, so that  *)
(* whatever is lost of acks=0 and acks=1 had not been committed.            *)
CommittedSurvives == leader # None => IsPrefix(committed, log[leader])

(* What the producer was told is there was at least appended.               *)
AcknowledgedAppended == [][\A n \in acked' \ acked : \E r \in Replicas :
                              \E i \in 1..Len(log'[r]) : log'[r][i] = n]_acked

(* What is acknowledged with acks=all as many hold as min.insync.replicas   *)
(* wants, as the leader knows it.                                           *)
EnoughHoldIt ==
    [][Acks = "all" => \A n \in acked' \ acked :
           Cardinality({r \in isr : n \in Holds(r)}) >= leaderMin]_acked

(* Only who leads or believes to lead still writes what is sent, at the end *)
(* of its log; with acks=all a leader has enough in sync. Nobody has a      *)
(* record that was not sent.                                                *)
LeaderWrites ==
    [][sent' # sent =>
           \/ Acks = "0" /\ log' = log
           \/ \E l \in {leader, deposed} \cap up :
                  /\ log' = [log EXCEPT ![l] = Append(@, sent')]
                  /\ Acks = "all" /\ l = leader => Cardinality(isr) >= leaderMin]_<<log, sent>>
WasSent == acked \cup UNION {Holds(r) : r \in Replicas} \subseteq 1..sent

(* A deposed leader commits nothing, and nobody else does without a leader. *)
LeaderCommits == [][leader # None]_committed

(* Who leads is there and in sync, and is not who believes to lead still,   *)
(* which did lead; while nobody leads it is known who did.                  *)
LeaderIsUp == leader # None => leader \in (isr \cap up) \ {deposed}
DeposedHasLed == [][deposed' # None => deposed' = leader]_deposed
LastKnownHasLed == (leader = None) = (lastKnown # None)

(* Who is down writes nothing and joins no ISR.                             *)
LogsOfTheDownStay == [][\A r \in Replicas \ up : log'[r] = log[r]]_log
OnlyTheUpJoin == [][isr' \ isr \subseteq up \ {deposed}]_isr

(* Somebody of the ISR or the ELR leads next; where both are empty the last *)
(* leader, where none of them is there anybody, if the rules say so.        *)
MayLead(r) ==
    \/ r \in isr \cup elr
    \/ LastKnownLeader /\ isr \cup elr = {} /\ r = lastKnown
    \/ Unclean /\ (isr \cup elr) \cap (up \ {deposed}) = {}
OnlyWhoMayLeads == [][leader' # None => MayLead(leader')]_leader

(* KIP-966: the ELR holds who left while too few were in sync, and nobody   *)
(* else; who crashed is not in it once it is back. As long as no log loses  *)
(* its end somebody may lead.                                               *)
ElrIsApart == elr \cap isr = {} /\ (Cardinality(isr) >= minimum => elr = {})
CrashedAreDown == crashed \cap up = {}
SomebodyMayLead == Faults # "power" => isr \cup elr # {}

(* A leader that is told at once of a change counts by it at once.          *)
MinIsrIsKnown == RaisedAtOnce => leaderMin = minimum

-----------------------------------------------------------------------------
(* Probes *)
NeverCommitsAll == Len(committed) < MaxRecords
NeverDeposed == deposed = None
NeverLastKnown == [][leader' # None => leader' # lastKnown]_leader
NeverWhole == faults > 0 => isr # Replicas
NeverAtMinimum == [][Cardinality(isr) # leaderMin]_sent
NeverJoinsAtHighWatermark ==
    [][leader # None => \A f \in isr' \ isr : Len(log[f]) > Len(committed)]_isr
NeverLosesNothing == [][\A r \in crashed' \ crashed : log'[r] # log[r]]_crashed
NeverLearnsDeposed == [][deposed = None]_deposed
NeverLearnsMinIsr == [][minimum' # minimum \/ leader' # leader]_leaderMin
NeverReadsMinIsr == [][leader' = leader]_leaderMin
NeverFromElr == [][\A r \in elr : leader' # r]_leader
=============================================================================
