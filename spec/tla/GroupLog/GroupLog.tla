------------------------------ MODULE GroupLog ------------------------------
(* A group coordinator and its log: one partition of __consumer_offsets.    *)
(* Its state is a replay of the log. An operation appends a record and      *)
(* replays it; its answer goes once the high watermark has passed it. A new *)
(* leader loads the log, to its end, while followers catch up and the       *)
(* cleaner removes what is superseded (KIP-848, CoordinatorRuntime).        *)
(*                                                                          *)
(* A key is a member and a value the partition that it holds, 0 for none; a *)
(* record with 0 is a tombstone. Replication is one log with a high         *)
(* watermark, of which an election may lose what is above (see Truncation). *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    (* @type: Int; *)  Keys,            \* bound: members 1..Keys
    (* @type: Int; *)  Values,          \* bound: partitions 1..Values
    (* @type: Int; *)  MaxLog,          \* bound: records
    (* @type: Bool; *) AnswerCommitted, \* answers wait for the high watermark
    (* @type: Bool; *) AppendFirst,     \* what cannot be appended is not replayed, or it is reverted
    (* @type: Bool; *) LoadToEnd,       \* loading goes to the log's end, not to the high watermark
    (* @type: Bool; *) KeepOnTimeOut,   \* who is told that it took too long is told nothing else: the record stays
    (* @type: Bool; *) ReadCommitted,   \* readers see what is committed
    (* @type: Bool; *) HearWhileLoading, \* a high watermark that advances during a load is heard of
    (* @type: Bool; *) TombstonesStay,  \* a tombstone goes after what it deletes, and not before a load that saw that
    (* @type: Bool; *) ReplayIsTotal    \* a partition that is held when it is given away is no reason to stop (KAFKA-19862)

VARIABLES
    (* @type: Seq(<<Int, Int>>); *) log,       \* records <<key, value>> by their offsets, from 1 on
    (* @type: Set(Int); *)          gone,      \* offsets of records that the cleaner has removed
    (* @type: Int; *)               hw,        \* the high watermark: so many records are committed
    (* @type: Str; *)               role,      \* of the coordinator: "loading", "active", or "failed"
    (* @type: Int; *)               position,  \* how far it has loaded
    (* @type: Int -> Int; *)        state,     \* what each key has, as of all that is written
    (* @type: Int -> Int; *)        stable,    \* what each key has for who reads
    (* @type: Set(Int); *)          waiting,   \* answers that wait for so many records to be committed
    (* @type: Seq(<<Int, Int>>); *) told       \* ghost: the longest log that some answer has told of

vars == <<log, gone, hw, role, position, state, stable, waiting, told>>
memory == <<role, position, state, stable>>

Key == 1..Keys
Nothing == [k \in Key |-> 0]

Init ==
    /\ log = <<>> /\ gone = {} /\ hw = 0
    /\ role = "active" /\ position = 0
    /\ state = Nothing /\ stable = Nothing
    /\ waiting = {} /\ told = <<>>

-----------------------------------------------------------------------------
(* What the first n records say of each key, compacted or not.              *)
Replay(n) ==
    LET Last(k) == {i \in 1..n : log[i][1] = k}
    IN [k \in Key |->
            IF Last(k) = {} THEN 0
            ELSE log[CHOOSE i \in Last(k) : \A j \in Last(k) : j <= i][2]]

(* What they say as long as the cleaner has left them.                      *)
Left(n) ==
    LET Last(k) == {i \in 1..n : i \notin gone /\ log[i][1] = k}
    IN [k \in Key |->
            IF Last(k) = {} THEN 0
            ELSE log[CHOOSE i \in Last(k) : \A j \in Last(k) : j <= i][2]]

Longer(a, b) == IF Len(a) >= Len(b) THEN a ELSE b
Prefix(n) == SubSeq(log, 1, n)
Held(k, v) == v # 0 /\ \E other \in Key \ {k} : state[other] = v

(* The answer to an operation that was decided when n records were written. *)
Answer(n, written) ==
    IF n <= hw \/ ~AnswerCommitted
    THEN told' = Longer(told, SubSeq(written, 1, n)) /\ UNCHANGED waiting
    ELSE waiting' = waiting \cup {n} /\ UNCHANGED told

-----------------------------------------------------------------------------
(* The coordinator *)

(* An operation writes a record. The group's rules give a partition away    *)
(* only when nobody holds it.                                               *)
Op(k, v) ==
    /\ role = "active"
    /\ Len(log) < MaxLog
    /\ ~Held(k, v)
    /\ log' = Append(log, <<k, v>>)
    /\ state' = [state EXCEPT ![k] = v]
    /\ stable' = IF ReadCommitted THEN stable ELSE state'
    /\ Answer(Len(log'), log')
    /\ UNCHANGED <<gone, hw, role, position>>

(* The log refuses the record: whoever asked is told so, and nothing else   *)
(* has happened.                                                            *)
FailAppend(k, v) ==
    /\ role = "active"
    /\ Len(log) < MaxLog
    /\ ~Held(k, v)
    /\ state' = IF AppendFirst THEN state ELSE [state EXCEPT ![k] = v]
    /\ UNCHANGED <<log, gone, hw, role, position, stable, waiting, told>>

(* An operation that changes nothing, such as a heartbeat: it may rest on   *)
(* what is not committed, so it waits as well.                              *)
Ask ==
    /\ role = "active"
    /\ Answer(Len(log), log)
    /\ UNCHANGED <<log, gone, hw, memory>>

(* offsets.commit.timeout.ms is over for the oldest answer. Whether the     *)
(* record stays nobody knows; it may take effect.                           *)
TimeOut ==
    /\ waiting # {}
    /\ LET first == CHOOSE n \in waiting : \A other \in waiting : n <= other
       IN /\ waiting' = waiting \ {first}
          /\ state' = IF KeepOnTimeOut THEN state ELSE Replay(first - 1)
    /\ UNCHANGED <<log, gone, hw, role, position, stable, told>>

(* One more record is read, if the cleaner has left it. A partition that    *)
(* seems to be held already was given up in a record that is gone.          *)
(* Who hears of no high watermark meanwhile asks for it behind each record, *)
(* and answers a step after the last.                                       *)
LoadNext ==
    /\ role = "loading"
    /\ LET end == IF LoadToEnd THEN Len(log) ELSE hw
           next == position + 1
           there == next <= end /\ next \notin gone
           k == log[next][1]
           v == log[next][2]
       IN /\ position' = IF next <= end THEN next ELSE position
          /\ state' = IF there THEN [state EXCEPT ![k] = v] ELSE state
          /\ stable' = IF ~HearWhileLoading /\ next <= end
                       THEN Left(IF next <= hw THEN next ELSE hw)
                       ELSE IF there /\ (next <= hw \/ ~ReadCommitted)
                       THEN [stable EXCEPT ![k] = v] ELSE stable
          /\ role' = IF ~ReplayIsTotal /\ there /\ Held(k, v) THEN "failed"
                     ELSE IF position' >= end /\ (HearWhileLoading \/ next > end)
                     THEN "active" ELSE "loading"
    /\ UNCHANGED <<log, gone, hw, waiting, told>>

-----------------------------------------------------------------------------
(* The log *)

(* Followers have the records up to n: answers up to there may go.          *)
Advance(n) ==
    /\ n > hw /\ n <= Len(log)
    /\ hw' = n
    /\ waiting' = {m \in waiting : m > n}
    /\ LET free == {m \in waiting : m <= n}
       IN told' = IF free = {} THEN told
                  ELSE Longer(told, Prefix(CHOOSE m \in free : \A o \in free : o <= m))
    /\ stable' = IF ~ReadCommitted \/ (role = "loading" /\ ~HearWhileLoading) THEN stable
                 ELSE [k \in Key |->
                    LET seen == {i \in (hw + 1)..n : i \notin gone /\ log[i][1] = k
                                                     /\ (role = "active" \/ i <= position)}
                    IN IF seen = {} THEN stable[k]
                       ELSE log[CHOOSE i \in seen : \A j \in seen : j <= i][2]]
    /\ UNCHANGED <<log, gone, role, position, state>>

(* Another broker leads, with all that is committed and as much as it has   *)
(* of the rest; or the same one, in a new epoch. Nobody is answered any     *)
(* more.                                                                    *)
Elect(n) ==
    /\ n >= hw /\ n <= Len(log)
    /\ log' = Prefix(n)
    /\ role' = "loading" /\ position' = 0
    /\ state' = Nothing /\ stable' = Nothing
    /\ waiting' = {}
    /\ UNCHANGED <<gone, hw, told>>

(* The cleaner removes a record whose key has a newer one, each by itself:  *)
(* who loads meanwhile may see some of them and not others.                 *)
Compact(i) ==
    /\ i <= hw /\ i \notin gone
    /\ \E j \in (i + 1)..hw : log[j][1] = log[i][1]
    /\ gone' = gone \cup {i}
    /\ UNCHANGED <<log, hw, memory, waiting, told>>

(* A tombstone goes when delete.retention.ms is over: what it deletes is    *)
(* gone, and nobody still loads who has read that (KIP-534).                *)
DropTombstone(i) ==
    /\ i <= hw /\ i \notin gone
    /\ log[i][2] = 0
    /\ TombstonesStay => \A j \in 1..(i - 1) : log[j][1] = log[i][1] => j \in gone
    /\ TombstonesStay => ~(role = "loading" /\ position > 0 /\ position < i)
    /\ gone' = gone \cup {i}
    /\ UNCHANGED <<log, hw, memory, waiting, told>>

Next ==
    \/ \E k \in Key, v \in 0..Values : Op(k, v)
    \/ \E k \in Key, v \in 0..Values : FailAppend(k, v)
    \/ Ask
    \/ TimeOut
    \/ LoadNext
    \/ \E n \in 1..MaxLog : Advance(n)
    \/ \E n \in 0..MaxLog : Elect(n)
    \/ \E i \in 1..MaxLog : Compact(i)
    \/ \E i \in 1..MaxLog : DropTombstone(i)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* A coordinator that answers has the state that its log says, whatever was *)
(* compacted, refused or late.                                              *)
StateIsReplay == role = "active" => state = Replay(Len(log))

(* Whoever reads sees what is committed, all of it and nothing else.        *)
StableIsCommitted == role = "active" => stable = Replay(hw)

(* What an answer rests on is never lost.                                   *)
ToldSurvives == Len(told) <= Len(log) /\ told = Prefix(Len(told))

(* Every log that a coordinator leaves behind, and every compaction of it,  *)
(* can be loaded.                                                           *)
LoadsAlways == role # "failed"

(* A partition is one member's: two would read it, and each commit it.      *)
OneHolder ==
    role = "active" =>
        \A k, other \in Key : k # other /\ state[k] # 0 => state[other] # state[k]

(* Who waits for an answer waits for a record that may yet be committed,    *)
(* and not for a coordinator that has gone.                                 *)
NobodyWaitsInVain ==
    waiting \subseteq (hw + 1)..Len(log) /\ (role = "loading" => waiting = {})

(* A new leader knows nothing but its log.                                  *)
BeginsWithNothing == role = "loading" /\ position = 0 => state = Nothing /\ stable = Nothing

(* A coordinator that loads writes nothing and tells nothing: it does not   *)
(* know yet what it would go by.                                            *)
ServesWhenActive ==
    [][(Len(log') > Len(log) \/ told' # told \/ waiting' \ waiting # {})
        => role = "active"]_<<log, told, waiting>>

(* Availability: an active coordinator takes what the group's rules allow,  *)
(* and answers once that is committed, or when the time is over; one that   *)
(* loads gets on; and another broker may take over whatever it has of what  *)
(* is not committed.                                                        *)
Available ==
    /\ role = "active" =>
        /\ ENABLED (Ask /\ (Len(log) \in waiting' \/ Len(told') >= Len(log)))
        /\ \A k \in Key, v \in 0..Values :
            Len(log) < MaxLog /\ (v = 0 \/ \A other \in Key \ {k} : state[other] # v)
                => ENABLED (Op(k, v) /\ Len(log') > Len(log))
    /\ waiting # {} => ENABLED (TimeOut /\ waiting' # waiting)
    /\ role = "loading" => ENABLED (LoadNext /\ (position' > position \/ role' = "active"))
    /\ hw < Len(log) => ENABLED (Advance(Len(log)) /\ hw' = Len(log))
    /\ \A n \in hw..Len(log) : ENABLED (Elect(n) /\ role' = "loading")

(* A log need not grow for ever: what is superseded may go, and a tombstone *)
(* behind what it deletes, unless somebody loads who has read that.         *)
CanBeCleaned ==
    \A i \in (1..hw) \ gone :
        /\ (\E j \in (i + 1)..hw : log[j][1] = log[i][1]) => ENABLED (Compact(i) /\ i \in gone')
        /\ log[i][2] = 0 /\ (\A j \in 1..(i - 1) : log[j][1] = log[i][1] => j \in gone)
                /\ (role = "active" \/ position = 0 \/ position >= i)
            => ENABLED (DropTombstone(i) /\ i \in gone')

-----------------------------------------------------------------------------
(* Probes *)
NeverUntold == Len(told) >= hw
NeverLoadsCompacted == ~(role = "loading" /\ position > 1 /\ 1 \in gone)
NeverLoadsUncommitted == ~(role = "active" /\ position > hw)
NeverBare == ~(role = "active" /\ position >= 2 /\ {1, 2} \subseteq gone)
=============================================================================
