----------------------------- MODULE Eligibility -----------------------------
(* DurableIsr where logs are lost in other ways than by a crash: a replica   *)
(* that is removed deletes its log (KIP-455), a log directory is taken out   *)
(* of log.dirs, and a copy in another directory of the broker replaces the   *)
(* replica (KIP-113, KIP-858). One rule is common to all three: whoever is   *)
(* eligible still has the log that made it eligible.                         *)
(*                                                                           *)
(* Each step of DurableIsr is a step here. min.insync.replicas stays as it   *)
(* is: a partition that has fewer replicas takes no writes, and what may be  *)
(* lost is what was acknowledged before.                                     *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N, (* @type: Int; *) MinIsr, (* @type: Int; *) MaxRecords,
    (* @type: Int; *)  MaxCrashes, (* @type: Int; *) MaxStops, (* @type: Int; *) MaxElections,
    (* @type: Bool; *) Unclean, (* @type: Bool; *) LastKnownLeader, (* @type: Bool; *) MoveLeaders,  \* as in DurableIsr
    (* @type: Set(Str); *) Changes,       \* what an operator changes, see below
    (* @type: Int; *)  MaxChanges,        \* bound: such changes
    (* @type: Bool; *) Directories,       \* KIP-858: the controller elects no replica that is in another directory than it knows
    (* @type: Bool; *) ElrInReplicas,     \* who is removed is not eligible any more
    (* @type: Bool; *) SomebodyStays,     \* replicas are removed only where one that stays is in sync
    (* @type: Bool; *) DirectoryNoticed,  \* a broker that starts without a directory that it had is like one that crashed
    (* @type: Str; *)  CopyReplaces,      \* whether a copy may replace the replica at a start, see below
    (* @type: Bool; *) ElectAssigned      \* who becomes electable by its directory is elected then

(* Kafka 4.3.1 has ElrInReplicas, DirectoryNoticed and ElectAssigned FALSE,  *)
(* and CopyReplaces "assigned".                                              *)
(*                                                                           *)
(* Changes: "replicas", the assignment; "log.dirs", a replica's directory is *)
(* taken out, and its log is lost, or was moved "by hand" before; "directory",*)
(* a replica is to be in another one.                                        *)
(* CopyReplaces: "never"; "as long", if the controller knows of the copy and *)
(* it is not shorter; "assigned", if the controller knows of it.             *)
ASSUME Changes \subseteq {"replicas", "log.dirs", "by hand", "directory"}
ASSUME CopyReplaces \in {"never", "as long", "assigned"}

Replicas == 1..N
None == 0

VARIABLES
    (* @type: Int -> Seq(Int); *) log, (* @type: Set(Int); *) up, (* @type: Set(Int); *) isr, (* @type: Set(Int); *) elr,
    (* @type: Int; *) leader, (* @type: Int; *) lastKnown, (* @type: Set(Int); *) crashed, (* @type: Seq(Int); *) acked,
    (* @type: Int; *) written, (* @type: Int; *) crashes, (* @type: Int; *) stops, (* @type: Int; *) elections,  \* as in DurableIsr
    (* @type: Set(Int); *)        replicas,  \* whom the partition is assigned to
    (* @type: Int -> Seq(Int); *) future,    \* a broker's copy of its log in another directory, <<>> for none
    (* @type: Set(Int); *)        moving,    \* brokers that make such a copy
    (* @type: Set(Int); *)        assigned,  \* those of whom the controller knows that the copy is to be the replica
    (* @type: Set(Int); *)        astray,    \* brokers whose replica is not where the controller looks for it
    (* @type: Bool; *)            looked,    \* the controller has looked for a leader since another one may be elected
    (* @type: Int; *)             changes    \* bound

directories == <<future, moving, assigned, astray>>
moved == <<replicas, directories, changes>>
durable == <<log, up, isr, elr, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>
vars == <<durable, moved, looked>>
\* @type: <<Set(Int), Set(Int), Set(Int)>>;
eligibility == <<isr, elr, crashed>>

Durable == INSTANCE DurableIsr WITH
    Elr <- TRUE, DetectCrash <- TRUE, FlushEach <- FALSE, Dropped <- "none"

Init ==
    /\ Durable!Init
    /\ replicas = Replicas
    /\ future = [r \in Replicas |-> <<>>] /\ moving = {} /\ assigned = {}
    /\ astray = {} /\ looked = TRUE
    /\ changes = 0

-----------------------------------------------------------------------------
(* As in DurableIsr, by those who are replicas                               *)
Write(l) == Durable!Write(l) /\ UNCHANGED <<moved, looked>>
Acknowledge(l) == Durable!Acknowledge(l) /\ UNCHANGED <<moved, looked>>
Fetch(f, l) ==
    /\ f \in replicas
    /\ Durable!Fetch(f, l) /\ UNCHANGED <<moved, looked>>
ShrinkIsr(l, f) == Durable!ShrinkIsr(l, f) /\ UNCHANGED <<moved, looked>>
ExpandIsr(l, f) ==
    /\ f \in replicas \ astray
    /\ Durable!ExpandIsr(l, f) /\ UNCHANGED <<moved, looked>>

(* The controller looks for a leader at certain events, among the replicas   *)
(* that are where it knows them to be.                                       *)
Electable == IF looked THEN replicas \ astray ELSE {}
Elect(r) ==
    /\ r \in Electable
    /\ Durable!Elect(r) /\ UNCHANGED <<moved, looked>>
ElectLastKnown(r) ==
    /\ r \in Electable
    /\ Durable!ElectLastKnown(r) /\ UNCHANGED <<moved, looked>>
ElectUnclean(r) ==
    /\ r \in Electable
    /\ Durable!ElectUnclean(r) /\ UNCHANGED <<moved, looked>>
MoveLeader(r) == Durable!MoveLeader(r) /\ UNCHANGED <<moved, looked>>

Crash(r, kept) == Durable!Crash(r, kept) /\ looked' = TRUE /\ UNCHANGED moved
Stop(r) == Durable!Stop(r) /\ looked' = TRUE /\ UNCHANGED moved

-----------------------------------------------------------------------------
(* Replicas that come and go                                                 *)

(* What these brokers have of the partition is deleted.                      *)
NoCopy(brokers) ==
    /\ moving' = moving \ brokers /\ assigned' = assigned \ brokers
    /\ future' = [r \in Replicas |-> IF r \in brokers THEN <<>> ELSE future[r]]
Deleted(brokers) ==
    /\ log' = [r \in Replicas |-> IF r \in brokers THEN <<>> ELSE log[r]]
    /\ NoCopy(brokers)

(* Replicas are added, removed, or a move is taken back; Reassignment has    *)
(* when a move ends, and the leader after one that is removed. A broker that *)
(* is removed deletes its log: at once if it runs, else at its next start.   *)
Reassign(target) ==
    /\ "replicas" \in Changes /\ changes < MaxChanges /\ changes' = changes + 1
    /\ target # replicas
    /\ leader # None => leader \in target
    /\ SomebodyStays => (replicas \subseteq target \/ isr \cap target # {})
    /\ replicas' = target
    /\ isr' = isr \cap target
    /\ elr' = IF ElrInReplicas THEN elr \cap target
              ELSE IF Cardinality(isr') >= MinIsr THEN {} ELSE (elr \cup isr) \ isr'
    /\ lastKnown' = IF lastKnown \in target THEN lastKnown ELSE None
    /\ Deleted(up \ target)
    /\ UNCHANGED <<up, leader, crashed, acked, written, crashes, stops, elections, astray, looked>>

-----------------------------------------------------------------------------
(* Directories                                                               *)

(* While a broker is down the directory of its replica is taken out of       *)
(* log.dirs: a disk that dies, or one whose logs were moved by hand before.  *)
TakeOut(r, byHand) ==
    /\ (IF byHand THEN "by hand" ELSE "log.dirs") \in Changes
    /\ changes < MaxChanges /\ changes' = changes + 1
    /\ r \in replicas \ up
    /\ IF byHand THEN log' = log /\ NoCopy({r}) ELSE Deleted({r})
    /\ crashed' = IF DirectoryNoticed THEN crashed \cup {r} ELSE crashed
    /\ astray' = IF Directories THEN astray \cup {r} ELSE astray
    /\ UNCHANGED <<up, isr, elr, leader, lastKnown, acked, written, crashes, stops, elections, replicas, looked>>

(* AlterReplicaLogDirs: a copy is begun in another directory.                *)
AlterDirectory(r) ==
    /\ "directory" \in Changes /\ changes < MaxChanges /\ changes' = changes + 1
    /\ r \in (replicas \cap up) \ moving
    /\ moving' = moving \cup {r}
    /\ UNCHANGED <<durable, replicas, future, assigned, astray, looked>>

(* It follows the replica as a follower does its leader.                     *)
CopyOn(r) ==
    /\ r \in moving \cap up /\ future[r] # log[r]
    /\ future' = [future EXCEPT ![r] =
                     IF IsPrefix(@, log[r]) THEN Take(log[r], Len(@) + 1)
                     ELSE Take(@, CommonPrefix(@, log[r]))]
    /\ UNCHANGED <<durable, replicas, moving, assigned, astray, looked, changes>>

(* AssignReplicasToDirs: the copy is level, and the controller learns of it. *)
AssignCopy(r) ==
    /\ r \in (moving \cap up) \ assigned /\ future[r] = log[r]
    /\ assigned' = assigned \cup {r}
    /\ UNCHANGED <<durable, replicas, future, moving, astray, looked, changes>>

(* It is level still, or again.                                              *)
ReplaceCurrent(r) ==
    /\ r \in assigned \cap up /\ future[r] = log[r]
    /\ log' = [log EXCEPT ![r] = future[r]]
    /\ NoCopy({r})
    /\ UNCHANGED <<up, isr, elr, leader, lastKnown, crashed, acked, written, crashes, stops, elections>>
    /\ UNCHANGED <<replicas, astray, looked, changes>>

(* AssignReplicasToDirs: the controller learns where a replica is now.       *)
AssignFound(r) ==
    /\ r \in astray \cap up
    /\ astray' = astray \ {r}
    /\ looked' = (looked /\ (ElectAssigned \/ leader # None))
    /\ UNCHANGED <<durable, replicas, future, moving, assigned, changes>>

Replaces(r) ==
    /\ r \in assigned
    /\ CASE CopyReplaces = "never"    -> FALSE
         [] CopyReplaces = "as long"  -> Len(future[r]) >= Len(log[r])
         [] CopyReplaces = "assigned" -> TRUE

(* A broker registers. It deletes what it is no replica of, and goes on with *)
(* a copy; the controller is told of the directory that the replica is in.   *)
Restart(r) ==
    /\ r \notin up /\ up' = up \cup {r}
    /\ crashed' = crashed \ {r}
    /\ elr' = IF r \in crashed THEN elr \ {r} ELSE elr
    /\ looked' = TRUE
    /\ IF r \notin replicas THEN Deleted({r})
       ELSE IF Replaces(r) THEN log' = [log EXCEPT ![r] = future[r]] /\ NoCopy({r})
       ELSE assigned' = assigned \ {r} /\ UNCHANGED <<log, future, moving>>
    /\ UNCHANGED <<isr, leader, lastKnown, acked, written, crashes, stops, elections, replicas, astray, changes>>

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
    \/ \E target \in (SUBSET Replicas) \ {{}} : Reassign(target)
    \/ \E r \in Replicas, byHand \in BOOLEAN : TakeOut(r, byHand)
    \/ \E r \in Replicas : AlterDirectory(r)
    \/ \E r \in Replicas : CopyOn(r)
    \/ \E r \in Replicas : AssignCopy(r)
    \/ \E r \in Replicas : ReplaceCurrent(r)
    \/ \E r \in Replicas : AssignFound(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises                                                                  *)

(* Whoever is eligible, and no restart is to say that it is not, still has   *)
(* the log that made it eligible.                                            *)
EligibleHasItsLog == \A r \in isr \cup (elr \ crashed) : IsPrefix(acked, log[r])

(* Whoever leads has every acknowledged record.                              *)
AckedSurvives == leader # None => IsPrefix(acked, log[leader])

(* Only replicas are in sync, eligible, or lead.                             *)
EligibleAreReplicas == isr \cup elr \cup ({leader, lastKnown} \ {None}) \subseteq replicas

(* Nobody leads whose replica the controller looks for elsewhere.            *)
LeaderIsFound == leader \notin astray

(* No reassignment removes all that has what was acknowledged.               *)
Kept == \E r \in replicas : IsPrefix(acked, log[r])
ReassignmentKeeps == [][replicas' # replicas /\ Kept => Kept']_replicas

(* Whoever runs and is no replica has deleted its log, and copies nothing.   *)
StraysAreDeleted == \A r \in up \ replicas : log[r] = <<>> /\ future[r] = <<>> /\ r \notin moving
StraysCopyNothing == [][\A r \in Replicas \ replicas : Len(log'[r]) <= Len(log[r])]_log

(* A copy is of a replica that moves, and the controller knows of no other.  *)
CopiesMove == assigned \subseteq moving /\ \A r \in Replicas \ moving : future[r] = <<>>

(* Availability: an eligible replica stays so, until it is in sync, the ISR  *)
(* is large enough without it, it is removed, or it comes back from a crash, *)
(* or without its directory.                                                 *)
ElrKept ==
    [][\A r \in elr : \/ r \in elr' \cup isr'
                      \/ Cardinality(isr') >= MinIsr
                      \/ r \notin replicas'
                      \/ r \in crashed \ crashed']_eligibility

(* Availability: nobody who may be elected waits while nobody leads and      *)
(* nobody is in sync.                                                        *)
NobodyWaits ==
    (leader = None /\ isr = {} /\ elections < MaxElections) =>
        \A r \in up \ astray :
            /\ r \in elr => ENABLED Elect(r)
            /\ (elr = {} /\ r = lastKnown) => ENABLED ElectLastKnown(r)

(* Availability: the controller may learn where a replica is whose broker    *)
(* runs.                                                                     *)
AstrayAreFound == \A r \in astray \cap up : ENABLED (AssignFound(r) /\ r \notin astray')

(* Availability: a move between directories goes on while its broker runs.   *)
MovesGoOn ==
    \A r \in moving \cap up : ENABLED CopyOn(r) \/ ENABLED AssignCopy(r) \/ ENABLED ReplaceCurrent(r)

-----------------------------------------------------------------------------
(* Probes                                                                    *)
NeverAddedAgain == [][isr' \ isr # {} => changes < 2 \/ replicas # Replicas]_isr
NeverBehind == ~(\E r \in assigned \ up : Len(future[r]) < Len(log[r]))
NeverReplaced == [][\A r \in assigned : r \in up => r \in moving']_moving
NeverWithoutDirectory == [][changes > 0 /\ crashes = 0 => \A r \in elr \cap crashed : r \in elr']_elr
NeverAstray == \A r \in astray : r \notin up
=============================================================================
