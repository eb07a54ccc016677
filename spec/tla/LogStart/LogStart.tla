------------------------------ MODULE LogStart ------------------------------
(* One partition whose replicas delete the beginnings of their logs, each at *)
(* its own time. A log that has deleted all of its records has nothing left  *)
(* to compare with the leader's but the epoch of its last record, and once   *)
(* it is loaded again not even that (KIP-101). The question is how such a    *)
(* replica finds out what it lacks, after an unclean election. A log with    *)
(* records is compared as in Truncation.                                     *)
EXTENDS Logs, Integers, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,             \* replicas 1..N
    (* @type: Int; *)  MaxRecords,    \* bound: records written
    (* @type: Int; *)  MaxEpoch,      \* bound: leader epochs
    (* @type: Int; *)  MaxUnclean,    \* bound: unclean elections
    (* @type: Int; *)  MaxRestarts,   \* bound: logs that are loaded again
    (* @type: Bool; *) MustCompare,   \* a log without an epoch begins anew, unless it begins where the leader's does
    (* @type: Bool; *) SparesIsr,     \* or its replica is in the ISR, or was when it fetched in this epoch
    (* @type: Bool; *) AnewInside,    \* and begins anew although it ends inside of its leader's log
    (* @type: Bool; *) EpochKept      \* a log that is loaded keeps the epoch of its last record

(* Kafka 4.3.1 has MustCompare and EpochKept FALSE.                          *)

Replicas == 1..N
Gone == 0   \* at an offset whose record a replica has deleted, or never had
NoEnd == -1 \* of a follower that has not fetched in this epoch

VARIABLES
    (* @type: Int -> Seq(Int); *) log,   \* per replica: the leader epoch of each record, Gone below its start
    (* @type: Int -> Int; *)      start, \* the log start offset
    (* @type: Int -> Int; *)      last,  \* the last epoch that its cache has, 0 for none
    (* @type: Int; *)             leader,
    (* @type: Int; *)             epoch,
    (* @type: Set(Int); *)        isr,
    (* @type: Int -> Int; *)      ends,  \* what the leader knows of each follower's end by fetches in its epoch
    (* @type: Int; *)             highWatermark,
    (* @type: Set(<<Int, Int>>); *) acked,   \* offsets and epochs of what was acknowledged since the last unclean election
    (* @type: Int; *)             deleted,   \* ghost: the offset up to which members of the ISR have deleted since then
    (* @type: Int; *) written, (* @type: Int; *) unclean, (* @type: Int; *) restarts   \* bounds

vars == <<log, start, last, leader, epoch, isr, ends, highWatermark, acked, deleted, written, unclean, restarts>>
bounds == <<written, unclean, restarts>>

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ start = [r \in Replicas |-> 0] /\ last = [r \in Replicas |-> 0]
    /\ leader = 1 /\ epoch = 1 /\ isr = Replicas
    /\ ends = [r \in Replicas |-> NoEnd]
    /\ highWatermark = 0 /\ acked = {} /\ deleted = 0
    /\ written = 0 /\ unclean = 0 /\ restarts = 0

(* OffsetForLeaderEpoch: where the records of epoch e, or of the largest one *)
(* below it, end in this log. Of what is deleted nobody knows the epoch.     *)
End(r) == Len(log[r])
EndOf(r, e) == Max({start[r]} \cup {i \in 1..End(r) : log[r][i] <= e})
EpochAtOrBelow(r, e) == IF EndOf(r, e) = start[r] THEN e ELSE log[r][EndOf(r, e)]

(* The leader's answers to a fetch.                                          *)
Diverges(f) ==
    /\ last[f] # 0
    /\ EpochAtOrBelow(leader, last[f]) < last[f] \/ EndOf(leader, last[f]) < End(f)
Unseen(f) ==
    MustCompare /\ last[f] = 0 /\ End(f) > start[leader] /\ (SparesIsr => f \notin isr /\ ends[f] = NoEnd)
IsInside(f) == End(f) \in start[leader]..End(leader)
InRange(f) == ~Unseen(f) /\ IsInside(f)
Agrees(f) == f # leader /\ ~Diverges(f) /\ InRange(f)

(* The last epoch of a log that is cut to n records.                         *)
LastOf(r, n) == IF n <= start[r] THEN 0 ELSE log[r][n]

-----------------------------------------------------------------------------
(* Records *)

Write ==
    /\ written < MaxRecords /\ written' = written + 1
    /\ log' = [log EXCEPT ![leader] = Append(@, epoch)]
    /\ last' = [last EXCEPT ![leader] = epoch]
    /\ UNCHANGED <<start, leader, epoch, isr, ends, highWatermark, acked, deleted, unclean, restarts>>

(* A follower asks behind its end, and is sent the next record, if there is  *)
(* one.                                                                      *)
Fetch(f) ==
    /\ Agrees(f) /\ (End(f) < End(leader) \/ ends[f] # End(f))
    /\ ends' = [ends EXCEPT ![f] = End(f)]
    /\ LET sent == IF End(f) = End(leader) THEN <<>> ELSE <<log[leader][End(f) + 1]>>
       IN  /\ log' = [log EXCEPT ![f] = @ \o sent]
           /\ last' = IF sent = <<>> THEN last ELSE [last EXCEPT ![f] = sent[1]]
    /\ UNCHANGED <<start, leader, epoch, isr, highWatermark, acked, deleted, bounds>>

(* The leader has another record at the end of this log, or none.            *)
Truncate(f) ==
    /\ f # leader /\ Diverges(f)
    /\ LET e == EpochAtOrBelow(leader, last[f])
           n == Min({End(f), EndOf(leader, last[f]), Max({EndOf(f, e), start[f]})})
       IN  /\ log' = [log EXCEPT ![f] = Take(@, n)]
           /\ last' = [last EXCEPT ![f] = LastOf(f, n)]
           /\ start' = [start EXCEPT ![f] = Min({@, n})]
    /\ UNCHANGED <<leader, epoch, isr, ends, highWatermark, acked, deleted, bounds>>

(* The fetch is out of range, or nothing can be compared. (Kafka begins anew *)
(* at the leader's end, where that is before this one.)                      *)
BeginAnew(f) ==
    /\ f # leader /\ ~Diverges(f) /\ ~InRange(f)
    /\ AnewInside \/ ~IsInside(f)
    /\ log' = [log EXCEPT ![f] = [i \in 1..start[leader] |-> Gone]]
    /\ start' = [start EXCEPT ![f] = start[leader]]
    /\ last' = [last EXCEPT ![f] = 0]
    /\ UNCHANGED <<leader, epoch, isr, ends, highWatermark, acked, deleted, bounds>>

(* Retention, of what is committed.                                          *)
Delete(r) ==
    /\ r \in isr /\ start[r] < Min({highWatermark, End(r)})
    /\ start' = [start EXCEPT ![r] = @ + 1]
    /\ log' = [log EXCEPT ![r] = [@ EXCEPT ![start[r] + 1] = Gone]]
    /\ deleted' = Max({deleted, start[r] + 1})
    /\ UNCHANGED <<last, leader, epoch, isr, ends, highWatermark, acked, bounds>>

(* The process starts again, and loads the log.                              *)
Restart(r) ==
    /\ r # leader
    /\ restarts < MaxRestarts /\ restarts' = restarts + 1
    /\ last' = [last EXCEPT ![r] = IF EpochKept THEN @ ELSE LastOf(r, End(r))]
    /\ UNCHANGED <<log, start, leader, epoch, isr, ends, highWatermark, acked, deleted, written, unclean>>

-----------------------------------------------------------------------------
(* The ISR *)

(* The leader counts ends alone, as it was asked behind them.                *)
Known(r) == IF r = leader THEN End(r) ELSE ends[r]

Acknowledge ==
    LET i == highWatermark + 1
    IN  /\ \A r \in isr : Known(r) >= i
        /\ highWatermark' = i
        /\ acked' = acked \cup {<<i, log[leader][i]>>}
        /\ UNCHANGED <<log, start, last, leader, epoch, isr, ends, deleted, bounds>>

Expand(f) ==
    /\ f \notin isr /\ ends[f] >= Max({highWatermark, EndOf(leader, epoch - 1)})
    /\ isr' = isr \cup {f}
    /\ UNCHANGED <<log, start, last, leader, epoch, ends, highWatermark, acked, deleted, bounds>>

Shrink(f) ==
    /\ f \in isr \ {leader}
    /\ isr' = isr \ {f}
    /\ UNCHANGED <<log, start, last, leader, epoch, ends, highWatermark, acked, deleted, bounds>>

Elect(r) ==
    /\ r \in isr \ {leader} /\ epoch < MaxEpoch
    /\ leader' = r /\ epoch' = epoch + 1 /\ ends' = [f \in Replicas |-> NoEnd]
    /\ UNCHANGED <<log, start, last, isr, highWatermark, acked, deleted, bounds>>

(* Records that were acknowledged before may be lost; later ones must not be.*)
ElectUnclean(r) ==
    /\ r \notin isr /\ epoch < MaxEpoch
    /\ unclean < MaxUnclean /\ unclean' = unclean + 1
    /\ leader' = r /\ epoch' = epoch + 1 /\ isr' = {r} /\ ends' = [f \in Replicas |-> NoEnd]
    /\ highWatermark' = Min({highWatermark, End(r)})
    /\ acked' = {} /\ deleted' = start[r]
    /\ UNCHANGED <<log, start, last, written, restarts>>

Next ==
    \/ Write
    \/ \E f \in Replicas : Fetch(f)
    \/ \E f \in Replicas : Truncate(f)
    \/ \E f \in Replicas : BeginAnew(f)
    \/ \E r \in Replicas : Delete(r)
    \/ \E r \in Replicas : Restart(r)
    \/ Acknowledge
    \/ \E f \in Replicas : Expand(f)
    \/ \E f \in Replicas : Shrink(f)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : ElectUnclean(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* A member of the ISR, which may be elected, has each record that was       *)
(* acknowledged since the last unclean election, but those that one of them  *)
(* has deleted.                                                              *)
AckedInIsr ==
    \A r \in isr : \A a \in acked : a[1] > deleted => log[r][a[1]] = a[2]

(* And reaches as far as what is committed: the next record gets no offset   *)
(* that consumers have passed.                                               *)
IsrReachesHighWatermark == \A r \in isr : End(r) >= highWatermark

(* A follower that lacks a record can go on.                                 *)
FollowersGoOn ==
    \A f \in Replicas \ {leader} :
        End(f) # End(leader) =>
            ENABLED Fetch(f) \/ ENABLED Truncate(f) \/ ENABLED BeginAnew(f)

-----------------------------------------------------------------------------
(* Probes *)
NeverEmptied == \A r \in Replicas : End(r) = 0 \/ start[r] < End(r)
NeverGoesBack == [][\A r \in Replicas : last[r] = 0 => Len(log'[r]) >= Len(log[r])]_vars
NeverLedByAnEmptiedLog == ~(start[leader] = End(leader) /\ End(leader) > 0 /\ last[leader] = 0)
=============================================================================
