----------------------------- MODULE Truncation -----------------------------
(* One partition: logs, high watermarks, leader epochs and the ISR, and the *)
(* question that Kafka answered four times: what does a follower cut off    *)
(* its log before it follows a new leader?                                  *)
(*                                                                          *)
(* A log is the sequence of its records' leader epochs. Each epoch has one  *)
(* leader, and a leader only appends, so an offset and an epoch name one    *)
(* record; more about a record need not be known here.                      *)
(*                                                                          *)
(* The controller's decisions reach replicas late, or never, but none is    *)
(* taken back: leaderAndIsr holds one decision per leader epoch, with the   *)
(* ISR as it is now, or was at the end of that epoch. A fetch is            *)
(* one step at the time the leader answers it. That is exact although       *)
(* messages travel: between asking and learning the answer a follower does  *)
(* nothing that others could see, unless it gives up and asks again, or     *)
(* moves on to a new epoch; then the answer is void (FetchLost), and the    *)
(* request may come late (LateFetch). An answer may also come a second time *)
(* (LateAnswer): what it says was true once.                                *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,                \* replicas 1..N
    (* @type: Int; *)  MaxRecords,       \* bound: records in a log
    (* @type: Int; *)  MaxEpoch,         \* bound: leader epochs
    (* @type: Int; *)  MaxFetch,         \* records in one answer
    (* @type: Int; *)  MaxRestarts,      \* bound: restarts, 0 for none
    (* @type: Str; *)  Rule,             \* what a follower truncates to, see below
    (* @type: Bool; *) CheckEpochStart,  \* KAFKA-7128: who joins the ISR has reached the start of the leader's epoch
    (* @type: Bool; *) Unclean,          \* unclean.leader.election.enable
    (* @type: Str; *)  Lossy,            \* who may lose the end of its log at a restart, see below
    (* @type: Bool; *) CheckIncarnation, \* KIP-903: the ISR admits nobody on the word of an earlier incarnation
    (* @type: Bool; *) LateFetches,      \* requests may arrive after their sender has moved on
    (* @type: Str; *)  ResetFollowers,   \* when a leader forgets what it knew of its followers, see below
    (* @type: Bool; *) LateAnswers,      \* answers may arrive again, at any later step
    (* @type: Bool; *) NumberFetches,    \* a follower takes the answer to its newest fetch only, and once
    (* @type: Bool; *) FenceRaisesEpoch, \* a follower that is fenced begins a leader epoch (not since KAFKA-15021)
    (* @type: Str; *)  Dropped           \* the rule that is left out, "none" as it should be, see below

(* Rule, in the order of history:                                           *)
(*   "hw"            cut to the own high watermark (KAFKA-1211)             *)
(*   "kip101"        ask the leader where the own last epoch ends           *)
(*   "kip279"        go back, epoch by epoch, to the last common record     *)
(*   "kip320nofence" the leader compares at each fetch, but not the epochs  *)
(*   "kip320"        a fetch of another leader epoch is refused             *)
ASSUME Rule \in {"hw", "kip101", "kip279", "kip320nofence", "kip320"}

(* Lossy: "none"; "outside", a replica that is not in the ISR (its disk was *)
(* replaced); "registered", the same, and a broker that starts again hears  *)
(* of no decision that was made before (KIP-380); "any", the page cache of  *)
(* any replica (DurableIsr studies it).                                     *)
ASSUME Lossy \in {"none", "outside", "registered", "any"}

(* ResetFollowers:                                                          *)
(*   "always"    with every leader epoch                                    *)
(*   "newLeader" unless it has led until now: Kafka since 0.10, 4.3 as well *)
(*   "missed"    the same, but also if it has missed an epoch: the mend     *)
ASSUME ResetFollowers \in {"always", "newLeader", "missed"}

(* Dropped: "leader", a leader may take itself out of the ISR; "cut", the   *)
(* high watermark stays where the log is cut; "news", a decision of an older*)
(* epoch is obeyed; "resigned", who restarts leads again in its old epoch;  *)
(* "compare", the leader does not compare logs; "conditional", an ISR that  *)
(* the leader has not heard of is overwritten.                              *)
ASSUME Dropped \in {"none", "leader", "cut", "news", "resigned", "compare", "conditional"}

\* @typeAlias: request = {from: Int, epoch: Int, incarnation: Int, end: Int, last: Int};
\* @typeAlias: answer = {to: Int, epoch: Int, start: Int, records: Seq(Int), highWatermark: Int, diverging: Seq(Int)};
Replicas == 1..N
None == 0

VARIABLES
    (* @type: Int -> Seq(Int); *)      log,           \* per replica: the leader epoch of each record
    (* @type: Int -> Int; *)           highWatermark, \* per replica: how many records it knows to be committed
    (* @type: Int -> Int; *)           epoch,         \* per replica: the newest leader epoch it was told of
    (* @type: Int -> Set(Int); *)      isr,           \* per leader: the ISR as it believes it to be, {} at a follower
    (* @type: Int -> (Int -> Int); *)  ends,          \* per leader: each follower's log end, as of its last fetch
    (* @type: Seq({leader: Int, isr: Set(Int)}); *) leaderAndIsr,  \* the controller's decisions, one per leader epoch, the last one in force
    (* @type: Set(Int); *)             up,            \* replicas that have a role; a restarted one waits to be told
    (* @type: Set($request); *)        late,          \* requests under way whose sender has moved on
    (* @type: Set($answer); *)         answers,       \* answers that may arrive (again)
    (* @type: Int -> Int; *)           incarnation,   \* per replica: how often it has restarted
    (* @type: Int -> (Int -> Int); *)  seen,          \* per leader: the incarnation that told it each follower's end
    (* @type: Seq(Int); *)             committed      \* ghost: what was below a leader's high watermark once

vars == <<log, highWatermark, epoch, isr, ends, leaderAndIsr, up, late, answers, incarnation, seen, committed>>

Nobody == [r \in Replicas |-> 0]

(* Of a follower that has not fetched in this epoch no end is known. *)
Nothing == 0 - 1
Unheard == [r \in Replicas |-> Nothing]

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ highWatermark = [r \in Replicas |-> 0]
    /\ epoch = [r \in Replicas |-> 1]
    /\ isr = [r \in Replicas |-> IF r = 1 THEN Replicas ELSE {}]
    /\ ends = [r \in Replicas |-> Unheard]
    /\ leaderAndIsr = <<[leader |-> 1, isr |-> Replicas]>>
    /\ up = Replicas
    /\ late = {}
    /\ answers = {}
    /\ incarnation = Nobody
    /\ seen = [r \in Replicas |-> Nobody]
    /\ committed = <<>>

-----------------------------------------------------------------------------
LogEnd(r) == Len(log[r])
LastEpoch(r) == IF log[r] = <<>> THEN 0 ELSE log[r][LogEnd(r)]
Current == Len(leaderAndIsr)
Decided == leaderAndIsr[Current]

Leads(r) == r \in up /\ leaderAndIsr[epoch[r]].leader = r
Follows(f, l) == f # l /\ f \in up /\ leaderAndIsr[epoch[f]].leader = l

(* KIP-320: both sides of a fetch stand in the same leader epoch. Who is in *)
(* an older one is fenced, and a newer one the leader does not know yet.    *)
NotFenced(f, l) == Rule = "kip320" => epoch[f] >= epoch[l]
Known(f, l) == Rule = "kip320" => epoch[f] <= epoch[l]
CanFetch(f, l) == Follows(f, l) /\ Leads(l) /\ NotFenced(f, l) /\ Known(f, l)

(* OffsetForLeaderEpoch: where the records of epoch e, or of the largest    *)
(* epoch below it, end in this log; and which epoch that is.                *)
EndOf(r, e) == Cardinality({i \in DOMAIN log[r] : log[r][i] <= e})
EpochAtOrBelow(r, e) == IF EndOf(r, e) = 0 THEN 0 ELSE log[r][EndOf(r, e)]

(* Where a leader's own epoch starts: behind all older records. *)
EpochStart(l) == EndOf(l, epoch[l] - 1)

(* The leader compares the end and the last epoch of a fetch with its log.  *)
Agrees(l, end, last) ==
    end = 0 \/ (EpochAtOrBelow(l, last) = last /\ EndOf(l, last) >= end)
Diverges(f, l) == Dropped # "compare" /\ ~Agrees(l, LogEnd(f), LastEpoch(f))

(* One round of truncation: the leader names the largest epoch that it has, *)
(* not above the follower's last, and its end; the follower cuts there.     *)
CutByAnswer(f, l) ==
    LET e == EpochAtOrBelow(l, LastEpoch(f))
    IN  Min({EndOf(l, LastEpoch(f)), EndOf(f, e)})

(* How far the log is kept when a replica becomes a follower of l.          *)
CutWhenTold(f, l) ==
    CASE Rule = "hw"     -> highWatermark[f]
      [] Rule = "kip101" -> \* the leader's next larger epoch starts there; unknown: the high watermark
            IF LastEpoch(f) = 0 THEN 0
            ELSE IF LastEpoch(f) = LastEpoch(l) THEN Min({LogEnd(f), LogEnd(l)})
            ELSE IF LastEpoch(f) > LastEpoch(l) THEN Min({LogEnd(f), highWatermark[f]})
            ELSE Min({LogEnd(f), EndOf(l, LastEpoch(f))})
      [] Rule = "kip279" -> CommonPrefix(log[f], log[l])
      [] OTHER           -> LogEnd(f)

Cut(f, n) ==
    /\ log' = [log EXCEPT ![f] = Take(@, n)]
    /\ highWatermark' = [highWatermark EXCEPT ![f] = IF Dropped = "cut" THEN @ ELSE Min({@, n})]

(* What f asked for last, if it moves on now, may still reach its leader.   *)
LeavesBehind(f) ==
    IF LateFetches /\ f \in up /\ ~Leads(f)
    THEN late \cup {[from |-> f, epoch |-> epoch[f], incarnation |-> incarnation[f],
                      end |-> LogEnd(f), last |-> LastEpoch(f)]}
    ELSE late

(* What l answers to f: records, or where to cut. It may come again, later. *)
Answer(f, l) ==
    LET end == Min({LogEnd(l), LogEnd(f) + MaxFetch})
    IN  [to |-> f, epoch |-> epoch[l], start |-> LogEnd(f),
         records |-> IF Diverges(f, l) THEN <<>> ELSE SubSeq(log[l], LogEnd(f) + 1, end),
         highWatermark |-> IF Diverges(f, l) THEN 0 ELSE highWatermark[l],
         diverging |-> IF Diverges(f, l)
                       THEN <<EpochAtOrBelow(l, LastEpoch(f)), EndOf(l, LastEpoch(f))>> ELSE <<>>]
Answered(f, l) ==
    /\ answers' = IF LateAnswers THEN answers \cup {Answer(f, l)} ELSE answers

-----------------------------------------------------------------------------
(* The leader *)

Write(l) ==
    /\ Leads(l) /\ LogEnd(l) < MaxRecords
    /\ log' = [log EXCEPT ![l] = Append(@, epoch[l])]
    /\ UNCHANGED <<highWatermark, epoch, isr, ends, leaderAndIsr, up, late, answers, incarnation, seen, committed>>

(* The high watermark is the least log end in the ISR, as far as the leader *)
(* knows, and only a fetch tells it: it learns one round late.              *)
AdvanceHighWatermark(l) ==
    LET new == Min({LogEnd(l)} \cup {ends[l][f] : f \in isr[l] \ {l}})
    IN  /\ Leads(l) /\ new > highWatermark[l]
        /\ highWatermark' = [highWatermark EXCEPT ![l] = new]
        /\ committed' = IF new > Len(committed) THEN Take(log[l], new) ELSE committed
        /\ UNCHANGED <<log, epoch, isr, ends, leaderAndIsr, up, late, answers, incarnation, seen>>

(* A leader changes the ISR with the controller, or not at all: the         *)
(* conditional update fails when a newer epoch has begun, or the ISR is not *)
(* the one that the leader knows.                                           *)
Conditional(l) == epoch[l] = Current /\ (Dropped # "conditional" => isr[l] = Decided.isr)

AlterIsr(l, new) ==
    /\ leaderAndIsr' = [leaderAndIsr EXCEPT ![Current].isr = new]
    /\ isr' = [isr EXCEPT ![l] = new]
    /\ UNCHANGED <<log, highWatermark, epoch, ends, up, late, answers, incarnation, seen, committed>>

(* Lagging is a matter of time (replica.lag.time.max.ms): any follower may. *)
ShrinkIsr(l, f) ==
    /\ Leads(l) /\ Conditional(l) /\ f \in isr[l]
    /\ Dropped # "leader" => f # l
    /\ AlterIsr(l, isr[l] \ {f})

(* A follower returns when it has reached the high watermark and, as this   *)
(* may trail after an election, the start of the leader's epoch. It shows   *)
(* that by a fetch in this epoch that agrees with the leader's log.         *)
ExpandIsr(l, f) ==
    /\ Leads(l) /\ Conditional(l) /\ f \notin isr[l]
    /\ ends[l][f] >= highWatermark[l]
    /\ CheckEpochStart => ends[l][f] >= EpochStart(l)
    /\ CheckIncarnation => seen[l][f] = incarnation[f]
    /\ AlterIsr(l, isr[l] \cup {f})

-----------------------------------------------------------------------------
(* A follower and its leader *)

Heard(f, l, end, since) ==
    /\ ends' = [ends EXCEPT ![l][f] = end]
    /\ seen' = [seen EXCEPT ![l][f] = since]

(* The follower asks from its log end, and the leader learns that end. The  *)
(* answer holds at most so many records.                                    *)
FetchUpTo(f, l, most) ==
    /\ CanFetch(f, l) /\ LogEnd(f) <= LogEnd(l)
    /\ Rule \in {"kip320", "kip320nofence"} => ~Diverges(f, l)
    /\ LET n == Min({LogEnd(l), LogEnd(f) + most})
       IN  /\ log' = [log EXCEPT ![f] = @ \o SubSeq(log[l], LogEnd(f) + 1, n)]
           /\ highWatermark' = [highWatermark EXCEPT ![f] = Min({highWatermark[l], n})]
    /\ Heard(f, l, LogEnd(f), incarnation[f])
    /\ UNCHANGED <<epoch, isr, leaderAndIsr, up, late, incarnation, committed>>

Fetch(f, l) == FetchUpTo(f, l, MaxFetch) /\ Answered(f, l)

(* The same, but the answer does not arrive. *)
FetchLost(f, l) ==
    /\ CanFetch(f, l) /\ LogEnd(f) <= LogEnd(l)
    /\ Rule \in {"kip320", "kip320nofence"} => ~Diverges(f, l)
    /\ Heard(f, l, LogEnd(f), incarnation[f])
    /\ Answered(f, l)
    /\ UNCHANGED <<log, highWatermark, epoch, isr, leaderAndIsr, up, late, incarnation, committed>>

(* The logs differ: the answer is where to cut, and nothing is appended.    *)
Truncate(f, l) ==
    /\ Rule \in {"kip320", "kip320nofence"}
    /\ CanFetch(f, l) /\ Diverges(f, l)
    /\ Cut(f, CutByAnswer(f, l))
    /\ Answered(f, l)
    /\ UNCHANGED <<epoch, isr, ends, leaderAndIsr, up, late, incarnation, seen, committed>>

(* A request of an epoch that its sender has left. The leader of that epoch *)
(* cannot know, and counts it.                                              *)
LateFetch(f, l) ==
    /\ Leads(l)
    /\ \E m \in late :
        /\ m.from = f /\ m.epoch = epoch[l] /\ m.incarnation >= seen[l][f]
        /\ late' = late \ {m}
        /\ IF Agrees(l, m.end, m.last)
           THEN Heard(f, l, m.end, m.incarnation)
           ELSE UNCHANGED <<ends, seen>>
    /\ UNCHANGED <<log, highWatermark, epoch, isr, leaderAndIsr, up, answers, incarnation, committed>>

(* Records are appended, or the log is cut.                                 *)
\* @type: (Int, $answer) => Bool;
TakeAnswer(f, a) ==
    /\ a.to = f /\ a.epoch = epoch[f] /\ a.start = LogEnd(f)
    /\ IF a.diverging # <<>>
       THEN Cut(f, Min({a.diverging[2], EndOf(f, a.diverging[1])}))
       ELSE LET end == LogEnd(f) + Len(a.records)
            IN  /\ log' = [log EXCEPT ![f] = @ \o a.records]
                /\ highWatermark' = [highWatermark EXCEPT ![f] = Min({a.highWatermark, end})]

(* An answer comes again, or after its fetch was given up. That it is of    *)
(* this epoch, and begins at the log's end, does not make it true: what it  *)
(* cuts may have been copied again since. So fetches are numbered, and only *)
(* the answer to the newest one counts, once.                               *)
LateAnswer(f) ==
    /\ ~NumberFetches
    /\ \E a \in answers : TakeAnswer(f, a)
    /\ UNCHANGED <<epoch, isr, ends, leaderAndIsr, up, late, answers, incarnation, seen, committed>>

-----------------------------------------------------------------------------
(* Being told *)

(* A decision is news if its epoch is newer. A restarted replica may follow *)
(* again in its old epoch, but not lead: its high watermark fell back, and  *)
(* the start of an epoch says nothing about records that it committed in it.*)
IsNews(r, e) == e <= Current /\ (e > epoch[r] \/ (Dropped = "news" /\ e # epoch[r]))
IsReminder(r, e) == e = epoch[r] /\ r \notin up

(* What a leader knew of its followers ends with its epoch: in an epoch     *)
(* that it has missed a follower may have cut what it told of.              *)
KeepsFollowers(r, e) ==
    /\ Leads(r) /\ leaderAndIsr[e].leader = r
    /\ \/ ResetFollowers = "newLeader"
       \/ ResetFollowers = "missed" /\ e = epoch[r] + 1

Forget(r, knownIsr) ==
    /\ isr' = [isr EXCEPT ![r] = knownIsr]
    /\ ends' = [ends EXCEPT ![r] = Unheard]
    /\ seen' = [seen EXCEPT ![r] = Nobody]

Adopt(r, e, knownIsr) ==
    /\ epoch' = [epoch EXCEPT ![r] = e]
    /\ IF KeepsFollowers(r, e)
       THEN isr' = [isr EXCEPT ![r] = knownIsr] /\ UNCHANGED <<ends, seen>>
       ELSE Forget(r, knownIsr)
    /\ up' = up \cup {r}
    /\ late' = LeavesBehind(r)

(* The high watermark stays where it was. It may trail the last leader's:   *)
(* a follower learns of progress one fetch late.                            *)
Lead(r, e, knownIsr) ==
    /\ IsNews(r, e) \/ (Dropped = "resigned" /\ IsReminder(r, e))
    /\ leaderAndIsr[e].leader = r
    /\ Adopt(r, e, knownIsr)
    /\ UNCHANGED <<log, highWatermark, leaderAndIsr, answers, incarnation, committed>>

BecomeLeader(r, e) == e <= Current /\ Lead(r, e, leaderAndIsr[e].isr)

BecomeFollower(r, e) ==
    /\ IsNews(r, e) \/ IsReminder(r, e)
    /\ leaderAndIsr[e].leader \notin {r, None}
    /\ Cut(r, CutWhenTold(r, leaderAndIsr[e].leader))
    /\ Adopt(r, e, {})
    /\ UNCHANGED <<leaderAndIsr, answers, incarnation, committed>>

(* The ISR of its own epoch has changed, and the leader hears of it.        *)
AdoptIsr(l) ==
    /\ Leads(l) /\ isr[l] # leaderAndIsr[epoch[l]].isr
    /\ isr' = [isr EXCEPT ![l] = leaderAndIsr[epoch[l]].isr]
    /\ UNCHANGED <<log, highWatermark, epoch, ends, leaderAndIsr, up, late, answers, incarnation, seen, committed>>

-----------------------------------------------------------------------------
(* The controller *)

Decide(leader, newIsr) ==
    /\ Current < MaxEpoch
    /\ leaderAndIsr' = Append(leaderAndIsr, [leader |-> leader, isr |-> newIsr])
    /\ UNCHANGED <<log, highWatermark, epoch, isr, ends, up, late, answers, incarnation, seen, committed>>

(* Preferred leader, or the same one again after its return. *)
Elect(r) ==
    /\ r \in Decided.isr
    /\ Decide(r, Decided.isr)

(* Broker b is gone: out of the ISR; if it led, r of the ISR leads. Else    *)
(* the leader leads on, in its epoch since Kafka 3.6 (KAFKA-15021), and     *)
(* waits for b until it hears of it.                                        *)
Fence(b, r) ==
    /\ b \in Decided.isr /\ r \in Decided.isr \ {b}
    /\ Decided.leader # b => r = Decided.leader
    /\ IF r # Decided.leader \/ FenceRaisesEpoch
       THEN Decide(r, Decided.isr \ {b})
       ELSE /\ leaderAndIsr' = [leaderAndIsr EXCEPT ![Current].isr = @ \ {b}]
            /\ UNCHANGED <<log, highWatermark, epoch, isr, ends, up, late, answers, incarnation, seen, committed>>

(* The last of the ISR is gone: nobody leads, and it alone may again.       *)
GoOffline(b) ==
    /\ MaxRestarts > 0
    /\ Decided.isr = {b} /\ Decided.leader # None
    /\ Decide(None, {b})

(* Somebody outside the ISR leads: what it lacks is lost.                   *)
ElectUnclean(r) ==
    /\ Unclean /\ r \notin Decided.isr
    /\ Decide(r, {r})

-----------------------------------------------------------------------------
(* The environment *)

(* A broker process ends and starts again. Its high watermark is the last   *)
(* checkpoint's; its log is whole unless the machine went down with it.     *)
Restart(r, checkpoint, kept) ==
    /\ incarnation[r] < MaxRestarts
    /\ checkpoint <= highWatermark[r] /\ checkpoint <= kept
    /\ kept <= LogEnd(r)
    /\ Lossy = "none" => kept = LogEnd(r)
    /\ (Lossy = "outside" /\ r \in Decided.isr) => kept = LogEnd(r)
    /\ (Lossy = "registered" /\ r \in Decided.isr) => kept = LogEnd(r)
    /\ epoch' = [epoch EXCEPT ![r] = IF Lossy = "registered" THEN Current ELSE @]
    /\ log' = [log EXCEPT ![r] = Take(@, kept)]
    /\ highWatermark' = [highWatermark EXCEPT ![r] = checkpoint]
    /\ Forget(r, {})
    /\ up' = up \ {r}
    /\ late' = LeavesBehind(r)
    /\ incarnation' = [incarnation EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<leaderAndIsr, answers, committed>>

Next ==
    \/ \E l \in Replicas : Write(l)
    \/ \E l \in Replicas : AdvanceHighWatermark(l)
    \/ \E l, f \in Replicas : ShrinkIsr(l, f)
    \/ \E l, f \in Replicas : ExpandIsr(l, f)
    \/ \E f, l \in Replicas : Fetch(f, l)
    \/ \E f, l \in Replicas : FetchLost(f, l)
    \/ \E f, l \in Replicas : Truncate(f, l)
    \/ \E f, l \in Replicas : LateFetch(f, l)
    \/ \E f \in Replicas : LateAnswer(f)
    \/ \E r \in Replicas, e \in 1..MaxEpoch : BecomeLeader(r, e)
    \/ \E r \in Replicas, e \in 1..MaxEpoch : BecomeFollower(r, e)
    \/ \E l \in Replicas : AdoptIsr(l)
    \/ \E r \in Replicas : Elect(r)
    \/ \E b, r \in Replicas : Fence(b, r)
    \/ \E b \in Replicas : GoOffline(b)
    \/ \E r \in Replicas : ElectUnclean(r)
    \/ \E r \in Replicas, checkpoint, kept \in 0..MaxRecords : Restart(r, checkpoint, kept)

Spec == Init /\ [][Next]_vars

(* Whoever is told acts, in the end. Nothing need be written, nobody need   *)
(* be elected, and the ISR may change for ever.                             *)
Told == \A r \in Replicas, e \in 1..MaxEpoch :
    WF_vars(BecomeLeader(r, e)) /\ WF_vars(BecomeFollower(r, e)) /\ WF_vars(AdoptIsr(r))
Replicating == \A f, l \in Replicas :
    WF_vars(Fetch(f, l)) /\ WF_vars(Truncate(f, l)) /\ WF_vars(AdvanceHighWatermark(l))
Live == Spec /\ Told /\ Replicating
LiveUntold == Spec /\ Replicating

-----------------------------------------------------------------------------
(* Promises *)

TypeOK ==
    /\ \A r \in Replicas : \A i \in 1..LogEnd(r) : log[r][i] \in 1..MaxEpoch
    /\ highWatermark \in [Replicas -> 0..MaxRecords]
    /\ epoch \in [Replicas -> 1..MaxEpoch]
    /\ isr \in [Replicas -> SUBSET Replicas]
    /\ ends \in [Replicas -> [Replicas -> Nothing..MaxRecords]]
    /\ \A e \in 1..Current : leaderAndIsr[e].leader \in Replicas \cup {None}
    /\ Decided.leader \in Decided.isr \cup {None}
    /\ up \subseteq Replicas

HighWatermarkInLog == \A r \in Replicas : highWatermark[r] <= LogEnd(r)

(* The same epoch at the same offset: the same log up to there. *)
LogMatching ==
    \A r, s \in Replicas : \A i \in 1..Min({LogEnd(r), LogEnd(s)}) :
        log[r][i] = log[s][i] => Take(log[r], i) = Take(log[s], i)

EpochsAscend ==
    \A r \in Replicas : \A i \in 2..LogEnd(r) : log[r][i - 1] <= log[r][i]

(* Whatever somebody may have read is on every replica that may lead next.  *)
CommittedInIsr == \A r \in Decided.isr : IsPrefix(committed, log[r])

(* Who leads and stays in the ISR leads on, whoever else leaves or joins.   *)
LeaderStays ==
    [][Decided'.isr # Decided.isr /\ Decided.leader \in Decided'.isr
           => Decided'.leader = Decided.leader]_leaderAndIsr

(* Nobody counts what was said about another one.                           *)
OnlyFollowersAreHeard == \A l \in Replicas : ends[l][l] = Nothing

(* To its users the partition is one log; who reads at a replica sees what  *)
(* is below its high watermark.                                             *)
Abs == INSTANCE AbsLog WITH
    Readers <- Replicas, Records <- 1..MaxEpoch, MaxLength <- MaxRecords,
    LossAllowed <- Unclean, Dropped <- "none",
    views <- [r \in Replicas |-> Take(log[r], highWatermark[r])]

ViewsArePrefixes == Abs!ViewsArePrefixes
AppendOnly == Abs!AppendOnly
Refines == Abs!Spec

(* Liveness: bounds stop writes and elections, and then all logs are one.   *)
Converges ==
    <>[](\A r \in Replicas : /\ log[r] = log[Decided.leader]
                             /\ highWatermark[r] = Len(log[r]))

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there.            *)
NeverDiverges == \A f, l \in Replicas : CanFetch(f, l) => ~Diverges(f, l)
NeverStaleLeader == \A l \in Replicas : Leads(l) => epoch[l] = Current
NeverCommitsInNewEpoch ==
    \A r \in Replicas : highWatermark[r] > 0 => log[r][highWatermark[r]] = 1
NeverCountsLateFetch == \A m \in late : m.end = 0
NeverHearsLate == [][late' = late \/ ~(late' \subseteq late) \/ ends' = ends]_late
NeverHearsHighWatermark == [][\A r \in Replicas : highWatermark'[r] = highWatermark[r] \/ Leads(r) \/ log'[r] # log[r]]_highWatermark
NeverFromBefore == \A m \in late : m.incarnation = incarnation[m.from]
NeverOffline == Decided.leader # None
NeverShrinks ==
    [][\A l \in Replicas : isr'[l] = {} \/ isr[l] \subseteq isr'[l] \/ leaderAndIsr' = leaderAndIsr]_isr
NeverHearsOfIsr ==
    [][\A l \in Replicas : isr'[l] \in {{}, isr[l]} \/ leaderAndIsr' # leaderAndIsr \/ epoch' # epoch]_isr
(* Who restarted joins with what is committed, before it has all that the leader has. *)
NeverRejoins ==
    [][\A f \in Decided'.isr \ Decided.isr :
           incarnation[f] = 0 \/ Current' # Current \/ LogEnd(f) = LogEnd(Decided.leader)]_leaderAndIsr
\* @type: $answer => Bool;
CutsInTime(a) == a.diverging # <<>> /\ a.epoch = epoch[a.to] => LogEnd(a.to) < a.start
NeverLateCut == \A a \in answers : CutsInTime(a)
=============================================================================
