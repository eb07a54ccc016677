----------------------------- MODULE DurableIsr -----------------------------
(* One partition whose brokers crash and lose what was not flushed. Kafka   *)
(* does not flush before it acknowledges: it relies on the in-sync replicas *)
(* (ISR), on min.insync.replicas, and, since KIP-966, on remembering who    *)
(* was in sync last (the ELR, eligible leader replicas).                    *)
(*                                                                          *)
(* The question is who may lead after crashes. So the controller decides in *)
(* one step here, a leader acts at once, and `acked` is both the high       *)
(* watermark and what producers were told; Truncation has the rest.         *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,               \* replicas 1..N
    (* @type: Int; *)  MinIsr,          \* min.insync.replicas
    (* @type: Int; *)  MaxRecords,      \* bound: records written
    (* @type: Int; *)  MaxCrashes,      \* bound: crashes
    (* @type: Int; *)  MaxStops,        \* bound: controlled stops
    (* @type: Int; *)  MaxElections,    \* bound: elections
    (* @type: Bool; *) Elr,             \* KIP-966
    (* @type: Bool; *) DetectCrash,     \* KAFKA-18635: a broker that crashed is told from one that was stopped
    (* @type: Bool; *) FlushEach,       \* log.flush.interval.messages=1: every append reaches the disk at once
    (* @type: Bool; *) Unclean,         \* unclean.leader.election.enable
    (* @type: Bool; *) LastKnownLeader, \* Kafka 4.x: with ISR and ELR empty the last leader may lead again
    (* @type: Bool; *) MoveLeaders,     \* KIP-460: another of the ISR may lead while the leader is well
    (* @type: Str; *)  Dropped          \* the rule that is left out, "none" as it should be

(* Dropped: "joinIsr", who is elected from the ELR does not enter the ISR;  *)
(* "leaveElr", nor leaves the ELR; "keepElr", the others of the ELR are     *)
(* forgotten with an election; "crashIsOver", a crash is remembered for ever*)
ASSUME Dropped \in {"none", "joinIsr", "leaveElr", "keepElr", "crashIsOver"}

Replicas == 1..N
None == 0

VARIABLES
    (* @type: Int -> Seq(Int); *) log,        \* per replica: its records, numbered as they were written
    (* @type: Set(Int); *)        up,         \* brokers that run
    (* @type: Set(Int); *) isr, (* @type: Set(Int); *) elr,   \* what the controller keeps: in sync, and eligible though not in sync
    (* @type: Int; *)             leader,
    (* @type: Int; *)             lastKnown,  \* who led last, while nobody leads; kept where it may be elected again
    (* @type: Set(Int); *)        crashed,    \* brokers that are down and may have lost records
    (* @type: Seq(Int); *)        acked,      \* ghost: the records that producers were told are safe
    (* @type: Int; *) written, (* @type: Int; *) crashes, (* @type: Int; *) stops, (* @type: Int; *) elections   \* bounds

vars == <<log, up, isr, elr, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>

\* @type: <<Set(Int), Set(Int), Set(Int)>>;
eligibility == <<isr, elr, crashed>>

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ up = Replicas
    /\ isr = Replicas /\ elr = {}
    /\ leader = 1 /\ lastKnown = None
    /\ crashed = {}
    /\ acked = <<>>
    /\ written = 0 /\ crashes = 0 /\ stops = 0 /\ elections = 0

-----------------------------------------------------------------------------
(* The leader *)

(* acks=all: too few in sync, and the write is refused (NOT_ENOUGH_REPLICAS)*)
Write(l) ==
    /\ leader = l /\ Cardinality(isr) >= MinIsr
    /\ written < MaxRecords
    /\ written' = written + 1
    /\ log' = [log EXCEPT ![l] = Append(@, written + 1)]
    /\ UNCHANGED <<up, isr, elr, leader, lastKnown, crashed, acked, crashes, stops, elections>>

(* What the whole ISR has is safe, as far as the ISR is large enough.       *)
Acknowledge(l) ==
    LET next == Take(log[l], Len(acked) + 1)
    IN  /\ leader = l /\ Cardinality(isr) >= MinIsr
        /\ Len(log[l]) > Len(acked)
        /\ \A r \in isr : IsPrefix(next, log[r])
        /\ acked' = next
        /\ UNCHANGED <<log, up, isr, elr, leader, lastKnown, crashed, written, crashes, stops, elections>>

(* A follower copies the next record, or cuts what the leader does not have.*)
Fetch(f, l) ==
    /\ leader = l /\ f \in up \ {l} /\ log[f] # log[l]
    /\ log' = [log EXCEPT ![f] =
                  IF IsPrefix(@, log[l]) THEN Take(log[l], Len(@) + 1)
                  ELSE Take(@, CommonPrefix(@, log[l]))]
    /\ UNCHANGED <<up, isr, elr, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>

-----------------------------------------------------------------------------
(* The controller *)

(* KIP-966: while the ISR is below its minimum, those who leave it stay     *)
(* eligible: they hold everything that was acknowledged.                    *)
ElrWithout(r) == IF Elr /\ Cardinality(isr \ {r}) < MinIsr THEN elr \cup {r} ELSE {}

ShrinkIsr(l, f) ==
    /\ leader = l /\ f \in isr \ {l}
    /\ isr' = isr \ {f} /\ elr' = ElrWithout(f)
    /\ UNCHANGED <<log, up, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>

ExpandIsr(l, f) ==
    /\ leader = l /\ f \in up \ isr
    /\ IsPrefix(log[f], log[l]) /\ Len(log[f]) >= Len(acked)
    /\ isr' = isr \cup {f}
    /\ elr' = IF Cardinality(isr') >= MinIsr THEN {} ELSE elr \ {f}
    /\ UNCHANGED <<log, up, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>

Lead(r, newIsr, newElr) ==
    /\ leader = None /\ elections < MaxElections
    /\ leader' = r /\ isr' = newIsr /\ elr' = newElr /\ lastKnown' = None
    /\ elections' = elections + 1
    /\ UNCHANGED <<log, up, crashed, acked, written, crashes, stops>>

IsrWith(r) == IF Dropped = "joinIsr" THEN isr ELSE isr \cup {r}
ElrAfter(r) ==
    CASE Dropped = "leaveElr" -> elr
      [] Dropped = "keepElr"  -> {}
      [] OTHER                -> elr \ {r}

(* From the ISR, or, if none of it is there, from the ELR. *)
Elect(r) ==
    /\ r \in up
    /\ r \in isr \/ (isr \cap up = {} /\ r \in elr)
    /\ Lead(r, IsrWith(r), ElrAfter(r))

(* Kafka 4.x: nobody is in sync or eligible, because all of them crashed.   *)
(* The last leader may lead again, whatever it has lost, even where unclean *)
(* election is off.                                                         *)
ElectLastKnown(r) ==
    /\ r \in up /\ isr \cup elr = {} /\ r = lastKnown
    /\ Lead(r, {r}, {})

(* Nobody who could have everything is there: availability over consistency.*)
ElectUnclean(r) ==
    /\ Unclean /\ r \in up
    /\ (isr \cup elr) \cap up = {}
    /\ Lead(r, {r}, {})

(* A preferred election, or an operator's wish: the leader is well.         *)
MoveLeader(r) ==
    /\ MoveLeaders /\ leader \notin {None, r}
    /\ r \in isr \cap up
    /\ elections < MaxElections /\ elections' = elections + 1
    /\ leader' = r
    /\ UNCHANGED <<log, up, isr, elr, lastKnown, crashed, acked, written, crashes, stops>>

-----------------------------------------------------------------------------
(* The environment *)

Gone(r, newLog, nowCrashed) ==
    /\ r \in up /\ up' = up \ {r}
    /\ log' = newLog
    /\ leader' = IF leader = r THEN None ELSE leader
    /\ lastKnown' = IF LastKnownLeader /\ leader = r THEN r ELSE lastKnown
    \* before KIP-966 the last member of the ISR stays in it, whatever it lost
    /\ isr' = IF isr = {r} /\ ~Elr THEN isr ELSE isr \ {r}
    /\ elr' = IF r \in isr THEN ElrWithout(r) ELSE elr
    /\ crashed' = nowCrashed
    /\ UNCHANGED <<acked, written, elections>>

(* Power fails: any suffix that was not flushed may be gone. *)
Crash(r, kept) ==
    /\ crashes < MaxCrashes /\ crashes' = crashes + 1 /\ UNCHANGED stops
    /\ kept <= Len(log[r]) /\ (FlushEach => kept = Len(log[r]))
    /\ Gone(r, [log EXCEPT ![r] = Take(@, kept)], crashed \cup {r})

(* A controlled stop flushes. *)
Stop(r) ==
    /\ stops < MaxStops /\ stops' = stops + 1 /\ UNCHANGED crashes
    /\ Gone(r, log, crashed)

StillCrashed(r) == IF Dropped = "crashIsOver" THEN crashed ELSE crashed \ {r}

(* Registration. Who crashed is no longer eligible: it may lack records.    *)
Restart(r) ==
    /\ r \notin up /\ up' = up \cup {r}
    /\ crashed' = StillCrashed(r)
    /\ elr' = IF DetectCrash /\ r \in crashed THEN elr \ {r} ELSE elr
    /\ UNCHANGED <<log, isr, leader, lastKnown, acked, written, crashes, stops, elections>>

Next ==
    \/ \E l \in Replicas : Write(l)
    \/ \E l \in Replicas : Acknowledge(l)
    \/ \E f, l \in Replicas : Fetch(f, l)
    \/ \E l, f \in Replicas : ShrinkIsr(l, f)
    \/ \E l, f \in Replicas : ExpandIsr(l, f)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : ElectLastKnown(r)
    \/ \E r \in Replicas : ElectUnclean(r)
    \/ \E r \in Replicas : MoveLeader(r)
    \/ \E r \in Replicas, kept \in 0..MaxRecords : Crash(r, kept)
    \/ \E r \in Replicas : Stop(r)
    \/ \E r \in Replicas : Restart(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* Who is in sync is not merely eligible. *)
ElrOutsideIsr == isr \cap elr = {}

(* Who runs is no longer counted as crashed, and so not barred for ever.    *)
CrashIsOver == crashed \cap up = {}

(* Availability: an eligible replica stays so, until it is in sync, the ISR *)
(* is large enough without it, or it comes back from a crash.               *)
ElrKept ==
    [][\A r \in elr : \/ r \in elr' \cup isr'
                      \/ Cardinality(isr') >= MinIsr
                      \/ r \in crashed \ crashed']_eligibility

(* Whoever leads has every acknowledged record. *)
AckedSurvives == leader # None => IsPrefix(acked, log[leader])

(* Some replica still has every acknowledged record, dead or alive. *)
AckedSomewhere == \E r \in Replicas : IsPrefix(acked, log[r])

(* A leader is in sync, and runs. *)
LeaderInIsr == leader # None => leader \in isr /\ leader \in up

(* Writes are taken, and acknowledged, by a leader with enough in sync.     *)
ServedInSync ==
    [][written' # written \/ acked' # acked
        => leader # None /\ Cardinality(isr) >= MinIsr]_<<written, acked>>

(* A record is written once, and behind all that were written before it.    *)
RecordsAscend == \A r \in Replicas : \A i \in 2..Len(log[r]) : log[r][i - 1] < log[r][i]

(* A log grows at the leader, or by a copy of what the leader has.          *)
CopiesLeader ==
    [][\A r \in Replicas \ {leader} :
        Len(log'[r]) > Len(log[r]) => leader # None /\ IsPrefix(log'[r], log[leader])]_log

(* Who is down neither copies nor loses more, and does not join the ISR.    *)
DownIsStill ==
    [][\A r \in Replicas \ (up \cup up') : log'[r] = log[r] /\ r \notin isr' \ isr]_<<log, isr>>

(* A leader leads on as long as it runs, unless somebody wishes otherwise.  *)
LeaderStays == [][leader # None /\ leader \in up' => leader' = leader \/ MoveLeaders]_leader

(* Whoever led last is kept in mind only while nobody leads.                *)
LastKnownMeanwhile == leader # None => lastKnown = None

(* Before KIP-966 the ISR is never empty.                                   *)
IsrNotEmpty == Elr \/ isr # {}

(* Who may lack records is elected only where nobody eligible runs.         *)
UncleanAtLast ==
    [][leader = None /\ leader' # None /\ leader' \notin isr \cup elr
        => (isr \cup elr) \cap up = {}]_leader

(* Availability: with enough in sync a leader takes writes; who has all that*)
(* the leader has may return to the ISR, and who is in it may be made leader*)
Available ==
    leader # None =>
        /\ Cardinality(isr) >= MinIsr /\ written < MaxRecords => ENABLED Write(leader)
        /\ \A f \in up \ isr :
            log[f] = log[leader] /\ Len(log[f]) >= Len(acked) => ENABLED ExpandIsr(leader, f)
        /\ MoveLeaders /\ elections < MaxElections =>
            \A r \in (isr \cap up) \ {leader} : ENABLED (MoveLeader(r) /\ leader' = r)

(* The abstract log is what was acknowledged; who reads at the leader sees  *)
(* as much of it as the leader has.                                         *)
Abs == INSTANCE AbsLog WITH
    Readers <- Replicas, Records <- 1..MaxRecords, MaxLength <- MaxRecords,
    LossAllowed <- Unclean, Dropped <- "none",
    committed <- acked,
    views <- [r \in Replicas |->
                 IF r = leader THEN Take(log[r], Min({Len(log[r]), Len(acked)})) ELSE <<>>]

ViewsArePrefixes == Abs!ViewsArePrefixes
Refines == Abs!Spec

-----------------------------------------------------------------------------
(* Probes *)
NeverElectedFromElr == [][\A r \in elr : leader' # r]_leader
NeverOffline == ~(leader = None /\ up # {} /\ (isr \cup elr) \cap up = {})
NeverElectsLastKnown == [][leader' # None => leader' # lastKnown]_leader
NeverRefusesWrites == leader # None => Cardinality(isr) >= MinIsr
=============================================================================
