--------------------------- MODULE OpenDurableIsr ---------------------------
(* DurableIsr where the leader does not know at once what the controller has *)
(* decided, and asks for changes of the ISR instead of making them: it waits *)
(* for whom it awaits, and counts for min.insync.replicas whom it knows to be*)
(* confirmed. Of the controller nothing is assumed but LeaderAndIsr, and what*)
(* KIP-966 says of the ELR.                                                  *)
EXTENDS DurableIsr

CONSTANT (* @type: Str; *) Lawless   \* the rule that is left out, "none" as it should be

(* Lawless: "awaits", a leader does not wait for whom it has asked in;        *)
(* "asked", the ISR may take in whom its leader has not asked for; "confirmed",*)
(* whom it has asked in counts for min.insync.replicas before it is confirmed. *)
ASSUME Lawless \in {"none", "awaits", "asked", "confirmed"}

VARIABLES
    (* @type: Set(Int); *) known,     \* the ISR as the leader knows it, {} before it has heard that it leads
    (* @type: Set(Int); *) awaited,   \* for whom it waits
    (* @type: Set(Int); *) asked      \* whom it has asked in, by a request of the partition epoch in force

\* @type: <<Set(Int), Set(Int), Set(Int)>>;
told == <<known, awaited, asked>>
Untold == known' = {} /\ awaited' = {} /\ asked' = {}
(* A decision voids the requests that were made before it. *)
Void == asked' = {} /\ UNCHANGED <<known, awaited>>

Enough == Cardinality(IF Lawless = "confirmed" THEN awaited ELSE known) >= MinIsr

-----------------------------------------------------------------------------
(* The leader *)

OpenWrite(l) ==
    /\ leader = l /\ known # {} /\ Enough
    /\ written < MaxRecords
    /\ written' = written + 1
    /\ log' = [log EXCEPT ![l] = Append(@, written + 1)]
    /\ UNCHANGED <<up, isr, elr, leader, lastKnown, crashed, acked, crashes, stops, elections, told>>

OpenAcknowledge(l) ==
    LET next == Take(log[l], Len(acked) + 1)
    IN  /\ leader = l /\ known # {} /\ Enough
        /\ Len(log[l]) > Len(acked)
        /\ \A r \in awaited : IsPrefix(next, log[r])
        /\ acked' = next
        /\ UNCHANGED <<log, up, isr, elr, leader, lastKnown, crashed, written, crashes, stops, elections, told>>

Learn(l) ==
    /\ leader = l
    /\ known # isr \/ awaited # isr
    /\ known' = isr /\ awaited' = isr /\ asked' = {}
    /\ UNCHANGED vars

AskIn(l, f) ==
    /\ leader = l /\ known = isr /\ awaited = isr
    /\ f \in up \ isr
    /\ IsPrefix(log[f], log[l]) /\ Len(log[f]) >= Len(acked)
    /\ awaited' = IF Lawless = "awaits" THEN awaited ELSE awaited \cup {f}
    /\ asked' = {f}
    /\ UNCHANGED <<vars, known>>

-----------------------------------------------------------------------------
(* The controller *)

Shrink(f) ==
    /\ leader # None /\ f \in isr \ {leader}
    /\ isr' = isr \ {f} /\ elr' = ElrWithout(f)
    /\ Void
    /\ UNCHANGED <<log, up, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>

Expand(f) ==
    /\ leader # None /\ f \in up \ isr
    /\ Lawless # "asked" => f \in asked
    /\ isr' = isr \cup {f}
    /\ elr' = IF Cardinality(isr') >= MinIsr THEN {} ELSE elr \ {f}
    /\ Void
    /\ UNCHANGED <<log, up, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>

IfLeader(r) == IF leader = r THEN Untold ELSE Void

OpenNext ==
    \/ \E l \in Replicas : OpenWrite(l)
    \/ \E l \in Replicas : OpenAcknowledge(l)
    \/ \E l \in Replicas : Learn(l)
    \/ \E l, f \in Replicas : AskIn(l, f)
    \/ \E f, l \in Replicas : Fetch(f, l) /\ UNCHANGED told
    \/ \E f \in Replicas : Shrink(f)
    \/ \E f \in Replicas : Expand(f)
    \/ \E r \in Replicas : Elect(r) /\ Untold
    \/ \E r \in Replicas : MoveLeader(r) /\ Untold
    \/ \E r \in Replicas, kept \in 0..MaxRecords : Crash(r, kept) /\ IfLeader(r)
    \/ \E r \in Replicas : Stop(r) /\ IfLeader(r)
    \/ \E r \in Replicas : Restart(r) /\ UNCHANGED told

OpenInit == Init /\ known = isr /\ awaited = isr /\ asked = {}
OpenSpec == OpenInit /\ [][OpenNext]_<<vars, told>>

-----------------------------------------------------------------------------
(* Promises, beside those of DurableIsr *)

IsrIsAwaited == known # {} => isr \subseteq awaited

(* Only a leader knows of an ISR, awaits anybody, or asks.                  *)
KnowsWhileLeading == leader = None => known = {} /\ awaited = {} /\ asked = {}

(* A request is about the ISR in force, of which its leader knows: somebody *)
(* who runs and lies with it is to come to those for whom it waits.         *)
RequestInForce ==
    asked # {} =>
        /\ known = isr /\ awaited = isr \cup asked
        /\ asked \subseteq up \ isr /\ \A f \in asked : IsPrefix(log[f], log[leader])

(* Writes are taken, and acknowledged, by a leader that knows of enough in  *)
(* sync.                                                                    *)
ServedAsKnown ==
    [][written' # written \/ acked' # acked
        => leader # None /\ Cardinality(known) >= MinIsr]_<<written, acked>>

(* Availability: a leader that knows of enough in sync takes writes; what   *)
(* was decided it learns, and whom it awaits in vain it need not go on      *)
(* awaiting; who has all that it has it may ask in, and that may be granted;*)
(* whoever else is in the ISR may leave it.                                 *)
OpenAvailable ==
    leader # None =>
        /\ Cardinality(known) >= MinIsr /\ written < MaxRecords => ENABLED OpenWrite(leader)
        /\ known # isr \/ awaited # isr =>
            ENABLED (Learn(leader) /\ known' = isr /\ awaited' = isr)
        /\ \A f \in up \ isr :
            known = isr /\ awaited = isr /\ log[f] = log[leader] =>
                ENABLED (AskIn(leader, f) /\ f \in asked')
        /\ \A f \in asked : ENABLED (Expand(f) /\ f \in isr')
        /\ \A f \in isr \ {leader} : ENABLED (Shrink(f) /\ f \notin isr')

(* What is decided here is what LeaderAndIsr allows: the assumption is not  *)
(* weaker than the interface.                                               *)
Interface == INSTANCE Decisions WITH Dropped <- "none"
KeepsToLeaderAndIsr ==
    [][Interface!Follows([leader |-> leader, isr |-> isr],
                         [leader |-> leader', isr |-> isr'], asked, elr)]_<<leader, isr>>

-----------------------------------------------------------------------------
(* Broken rules. A `bug_` model has one of them in the place of the rule:   *)
(* each leaves out what one part of a promise above is about.               *)
Never == FALSE /\ UNCHANGED <<vars, told>>

KeepsKnown == known' = known /\ awaited' = {} /\ asked' = {}
KeepsAwaited == known' = {} /\ awaited' = awaited /\ asked' = {}
KeepsAsked == known' = {} /\ awaited' = {} /\ asked' = asked

NeedsMore == Cardinality(known) > MinIsr

WritesAlone(l) ==
    /\ leader = l /\ known # {}
    /\ written < MaxRecords
    /\ written' = written + 1
    /\ log' = [log EXCEPT ![l] = Append(@, written + 1)]
    /\ UNCHANGED <<up, isr, elr, leader, lastKnown, crashed, acked, crashes, stops, elections, told>>
AcknowledgesAlone(l) ==
    /\ leader = l /\ Len(log[l]) > Len(acked)
    /\ acked' = Take(log[l], Len(acked) + 1)
    /\ UNCHANGED <<log, up, isr, elr, leader, lastKnown, crashed, written, crashes, stops, elections, told>>

LearnsTheIsr(l) ==
    /\ leader = l
    /\ known # isr \/ awaited # isr
    /\ known' = isr /\ asked' = {}
    /\ UNCHANGED <<vars, awaited>>
LearnsToAwait(l) ==
    /\ leader = l
    /\ known # isr \/ awaited # isr
    /\ awaited' = isr /\ asked' = {}
    /\ UNCHANGED <<vars, known>>
LearnsOfMembers(l) ==
    /\ leader = l /\ known # isr
    /\ known' = isr /\ awaited' = isr /\ asked' = {}
    /\ UNCHANGED vars
LearnsOfOthers(l) ==
    /\ leader = l /\ awaited # isr
    /\ known' = isr /\ awaited' = isr /\ asked' = {}
    /\ UNCHANGED vars

AsksIn(f) == awaited' = awaited \cup {f} /\ asked' = {f} /\ UNCHANGED <<vars, known>>
AsksUnaware(l, f) ==
    /\ leader = l /\ known # {} /\ awaited = isr
    /\ f \in up \ isr
    /\ IsPrefix(log[f], log[l]) /\ Len(log[f]) >= Len(acked)
    /\ AsksIn(f)
AsksAMember(l, f) ==
    /\ leader = l /\ known = isr /\ awaited = isr
    /\ f \in up
    /\ IsPrefix(log[f], log[l]) /\ Len(log[f]) >= Len(acked)
    /\ AsksIn(f)
AsksWhoDiverges(l, f) ==
    /\ leader = l /\ known = isr /\ awaited = isr
    /\ f \in up \ isr
    /\ Len(log[f]) >= Len(acked)
    /\ AsksIn(f)
AsksForNobody(l, f) ==
    /\ leader = l /\ known = isr /\ awaited = isr
    /\ f \in up \ isr
    /\ IsPrefix(log[f], log[l]) /\ Len(log[f]) >= Len(acked)
    /\ awaited' = awaited \cup {f} /\ asked' = {}
    /\ UNCHANGED <<vars, known>>
AsksNobody(l, f) == l = f /\ Never

MovesAsAsked(r) ==
    /\ leader \notin {None, r} /\ r \in isr \cap up
    /\ leader' = r /\ isr' = isr \cup asked
    /\ UNCHANGED <<log, up, elr, lastKnown, crashed, acked, written, crashes, stops, elections>>

ShrinksOnce(f) ==
    /\ leader # None /\ f \in isr \ {leader} /\ isr = Replicas
    /\ isr' = isr \ {f} /\ elr' = ElrWithout(f)
    /\ Void
    /\ UNCHANGED <<log, up, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>
ShrinksInName(f) ==
    /\ leader # None /\ f \in isr \ {leader}
    /\ isr' = IF isr = Replicas THEN isr \ {f} ELSE isr
    /\ elr' = ElrWithout(f)
    /\ Void
    /\ UNCHANGED <<log, up, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>
ExpandsNothing(f) == leader # None /\ f \in asked /\ Void /\ UNCHANGED vars
NeverExpands(f) == f # f /\ Never

-----------------------------------------------------------------------------
(* Probes *)
NeverUnaware == known # {} => known = isr
NeverAwaitsMore == awaited = known
NeverFromElr == [][\A r \in elr : leader' # r]_leader
=============================================================================
