--------------------------- MODULE ConsumerCommit ---------------------------
(* One partition, one consumer group: when offsets are committed, what a    *)
(* rebalance does to it, and what a record may therefore suffer: to be      *)
(* processed twice, or never.                                               *)
(*                                                                          *)
(* Offsets count records: an offset of 2 means that records 1 and 2 are     *)
(* passed. The log itself does not change here. A rebalance is one step of  *)
(* the coordinator; members learn of it when they join, and until then act  *)
(* as before: zombies, whose commits the generation must fence.             *)
EXTENDS Logs, FiniteSets, Apalache

CONSTANTS
    (* @type: Int; *)  M,             \* members 1..M
    (* @type: Int; *)  LogEnd,        \* records in the partition
    (* @type: Int; *)  MaxGeneration, \* bound: rebalances
    (* @type: Int; *)  MaxProcessed,  \* bound: how often a record is processed
    (* @type: Str; *)  CommitWhen,    \* when the application commits, see below
    (* @type: Bool; *) Fence,         \* the coordinator refuses commits of an old generation
    (* @type: Bool; *) Fifo,          \* a commit that was overtaken by a later one of its member is void
    (* @type: Str; *)  Dropped        \* the rule that is left out, "none" as it should be

(* CommitWhen:                                                              *)
(*   "after"   process, then commit what was processed (at least once)      *)
(*   "before"  commit what was polled, wait for the answer, then process it *)
(*             (at most once)                                               *)
(*   "polled"  commit what was polled, and do not wait: automatic commits,  *)
(*             while another thread still processes                         *)
ASSUME CommitWhen \in {"after", "before", "polled"}

(* Dropped: "owner", anybody may join; "start", who joins goes on where it  *)
(* was; "once", a member may join again in the same generation.             *)
ASSUME Dropped \in {"none", "owner", "start", "once"}

\* @typeAlias: request = {member: Int, generation: Int, offset: Int, answered: Bool};
Members == 1..M
Records == 1..LogEnd
Nobody == 0

VARIABLES
    (* @type: Int; *)           generation,   \* of the group; 0 before the first rebalance
    (* @type: Int; *)           owner,        \* the member that owns the partition in this generation
    (* @type: Int; *)           committed,    \* the group's committed offset
    (* @type: Int -> Int; *)    joined,       \* per member: the generation that it believes to be in, 0 for none
    (* @type: Int -> Int; *)    position,     \* per member: offset up to which it has polled
    (* @type: Int -> Int; *)    done,         \* per member: offset up to which it has processed
    (* @type: Int -> Int; *)    last,         \* per member: the newest generation that it ever joined
    (* @type: Set($request); *) requests,     \* commits under way, or answered
    (* @type: Int -> Int; *)    processed     \* ghost: how often each record was processed

vars == <<generation, owner, committed, joined, position, done, last, requests, processed>>

Init ==
    /\ generation = 0 /\ owner = Nobody /\ committed = 0
    /\ joined = [m \in Members |-> 0]
    /\ position = [m \in Members |-> 0]
    /\ done = [m \in Members |-> 0]
    /\ last = [m \in Members |-> 0]
    /\ requests = {}
    /\ processed = [o \in Records |-> 0]

-----------------------------------------------------------------------------
(* The coordinator *)

(* Members came or went: a new generation, and the partition goes to m.     *)
Rebalance(m) ==
    /\ generation < MaxGeneration
    /\ generation' = generation + 1 /\ owner' = m
    /\ UNCHANGED <<committed, joined, position, done, last, requests, processed>>

\* @type: ($request, $request) => Bool;
Same(a, b) == a.member = b.member /\ a.generation = b.generation

(* A commit arrives, or never does. An older generation is refused          *)
(* (ILLEGAL_GENERATION), and so is, where order is kept, a commit that was  *)
(* overtaken: a connection delivers in order or breaks.                     *)
ReceiveCommit(m, offset) ==
    \E c \in requests :
        /\ c.member = m /\ c.offset = offset /\ ~c.answered
        /\ Fence => c.generation = generation
        /\ Fifo => ~\E d \in requests : d.answered /\ Same(c, d) /\ d.offset > c.offset
        /\ committed' = offset
        /\ requests' = (requests \ {c}) \cup {[c EXCEPT !.answered = TRUE]}
        /\ UNCHANGED <<generation, owner, joined, position, done, last, processed>>

-----------------------------------------------------------------------------
(* A member *)

Assigned(m) == owner = m \/ (Dropped = "owner" /\ generation > 0)
News(m) == last[m] < generation \/ (Dropped = "once" /\ joined[m] < generation)

(* It learns that the partition is its own, and starts where the group's    *)
(* committed offset tells it to.                                            *)
Join(m) ==
    /\ Assigned(m) /\ News(m)
    /\ joined' = [joined EXCEPT ![m] = generation]
    /\ last' = [last EXCEPT ![m] = generation]
    /\ position' = [position EXCEPT ![m] = IF Dropped = "start" THEN @ ELSE committed]
    /\ done' = [done EXCEPT ![m] = IF Dropped = "start" THEN @ ELSE committed]
    /\ UNCHANGED <<generation, owner, committed, requests, processed>>

(* The next record, once the one before is processed. *)
Poll(m) ==
    /\ joined[m] > 0 /\ position[m] = done[m] /\ position[m] < LogEnd
    /\ position' = [position EXCEPT ![m] = @ + 1]
    /\ UNCHANGED <<generation, owner, committed, joined, done, last, requests, processed>>

Answered(m) ==
    \E c \in requests : /\ c.member = m /\ c.generation = joined[m]
                        /\ c.offset = position[m] /\ c.answered

Process(m) ==
    /\ joined[m] > 0 /\ done[m] < position[m]
    /\ CommitWhen = "before" => Answered(m)
    /\ processed[position[m]] < MaxProcessed
    /\ processed' = [processed EXCEPT ![position[m]] = @ + 1]
    /\ done' = [done EXCEPT ![m] = position[m]]
    /\ UNCHANGED <<generation, owner, committed, joined, position, last, requests>>

Offset(m) == IF CommitWhen = "after" THEN done[m] ELSE position[m]

(* Asynchronous: the member goes on while the commit is under way.          *)
SendCommit(m) ==
    /\ joined[m] > 0 /\ Offset(m) > 0
    /\ ~\E c \in requests : c.member = m /\ c.generation = joined[m] /\ c.offset = Offset(m)
    /\ requests' = requests \cup {[member |-> m, generation |-> joined[m],
                                   offset |-> Offset(m), answered |-> FALSE]}
    /\ UNCHANGED <<generation, owner, committed, joined, position, done, last, processed>>

-----------------------------------------------------------------------------
(* The environment *)

(* A member dies; what it sent is still under way. *)
Crash(m) ==
    /\ joined[m] > 0
    /\ joined' = [joined EXCEPT ![m] = 0]
    /\ position' = [position EXCEPT ![m] = 0]
    /\ done' = [done EXCEPT ![m] = 0]
    /\ UNCHANGED <<generation, owner, committed, last, requests, processed>>

Next ==
    \/ \E m \in Members : Rebalance(m)
    \/ \E m \in Members, offset \in Records : ReceiveCommit(m, offset)
    \/ \E m \in Members : Join(m)
    \/ \E m \in Members : Poll(m)
    \/ \E m \in Members : Process(m)
    \/ \E m \in Members : SendCommit(m)
    \/ \E m \in Members : Crash(m)

Spec == Init /\ [][Next]_vars

(* A group that is left alone by rebalances and crashes gets through.       *)
Progress == \A m \in Members :
    /\ WF_vars(Join(m)) /\ WF_vars(Poll(m)) /\ WF_vars(Process(m)) /\ WF_vars(SendCommit(m))
    /\ \A offset \in Records : WF_vars(ReceiveCommit(m, offset))
Unheard == Init /\ [][Next /\ (\A m \in Members : ~Crash(m))]_vars
           /\ WF_vars(\E m \in Members : Rebalance(m))
           /\ \A m \in Members : WF_vars(Join(m)) /\ WF_vars(Poll(m)) /\ WF_vars(Process(m))
Calm == Init /\ [][Next /\ (\A m \in Members : ~Crash(m))]_vars
        /\ WF_vars(\E m \in Members : Rebalance(m)) /\ Progress

-----------------------------------------------------------------------------
(* Promises: the partition's readers are the group's members. *)

(* Nothing that the group has passed was left unprocessed. *)
AtLeastOnce == \A o \in Records : o <= committed => processed[o] >= 1

(* Nothing is processed twice. *)
AtMostOnce == \A o \in Records : processed[o] <= 1

(* The group never goes back. *)
CommittedMonotone == [][committed' >= committed]_committed

(* Within a generation it never does, whatever the fence. *)
\* @type: <<Int, Int>>;
point == <<committed, generation>>
CommittedMonotoneInGeneration ==
    [][generation' = generation => committed' >= committed]_point

(* One owner: whoever believes to own the partition in the group's          *)
(* generation is the owner.                                                 *)
OneOwner == \A m \in Members : (joined[m] = generation /\ generation > 0) => m = owner

(* The owner never goes back behind what the group has passed.              *)
OwnerNotBehind ==
    \A m \in Members : (joined[m] = generation /\ generation > 0) => position[m] >= committed

(* A member is in a generation once: who comes back is somebody else.       *)
JoinsOnce == [][\A m \in Members : joined'[m] > joined[m] => joined'[m] > last[m]]_joined

(* Liveness, under Calm: everything is committed in the end. *)
AllCommitted == <>(committed = LogEnd)

(* What was processed, from the start, is a log that only grows; the group  *)
(* is its reader, and its committed offset is how far it has read.          *)
Passed == CHOOSE n \in 0..LogEnd :
    /\ \A o \in 1..n : processed[o] >= 1
    /\ n < LogEnd => processed[n + 1] = 0
UpTo(n) == Take(MkSeq(LogEnd, LAMBDA o : o), n)
Abs == INSTANCE AbsLog WITH
    Readers <- {"group"}, MaxLength <- LogEnd, LossAllowed <- FALSE, Dropped <- "none",
    committed <- UpTo(Passed),
    views <- [reader \in {"group"} |-> UpTo(committed)]
Refines == Abs!Spec

-----------------------------------------------------------------------------
(* Probes *)
NeverZombieCommits ==
    \A c \in requests : c.answered \/ c.generation = generation
NeverAllCommitted == committed < LogEnd
=============================================================================
