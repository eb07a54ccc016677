---------------------------- MODULE ClassicRejoin ----------------------------
(* What a cooperative member owes its group: whoever gives a partition up   *)
(* joins again, because its leader has left it out for a round (KIP-429).   *)
(* ClassicGroup lets members join again at any time, and so cannot say what *)
(* happens if they do not. Here they do when they must, and otherwise as    *)
(* often as they like, in the first generations.                            *)
(*                                                                          *)
(* A leader goes by what members say that they own when they join. Who      *)
(* hears then that it has missed a generation has given that up by the time *)
(* it is told its assignment, and has to remember that it said so.          *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    (* @type: Int; *)      M,             \* members 1..M
    (* @type: Int; *)      P,             \* partitions 1..P
    (* @type: Int; *)      MaxGeneration, \* bound: generations in which somebody still joins again unasked
    (* @type: Set(Int); *) Statics,       \* members that are processes of one static instance
    (* @type: Str; *)      Dropped,       \* as in ClassicGroup
    (* @type: Str; *)      Rejoins        \* after giving up "all" that it had said it owns; only what it still "owned"
                   \* when it was told its assignment; "never"
ASSUME Rejoins \in {"all", "owned", "never"}

VARIABLES
    (* @type: Str; *) state, (* @type: Int; *) generation, (* @type: Int; *) leader, (* @type: Bool; *) initial, (* @type: Int -> Str; *) phase, (* @type: Int -> Int; *) assignment, (* @type: Int -> Int; *) believes, (* @type: Int -> Set(Int); *) owned,  \* as in ClassicGroup
    (* @type: Int -> Set(Int); *) missed,  \* per client: what it gave up when it heard of its generation, and had said to own
    (* @type: Int -> Bool; *)     must     \* per client: it has to join again

G == INSTANCE ClassicGroup WITH
    commit <- [member |-> 0, partition |-> 0, generation |-> 0], Commits <- FALSE,
    Cooperative <- TRUE

Members == 1..M
Partitions == 1..P
Nobody == 0
vars == <<state, generation, leader, initial, phase, assignment, believes, owned, missed, must>>

Init == G!Init /\ missed = [m \in Members |-> {}] /\ must = [m \in Members |-> FALSE]

-----------------------------------------------------------------------------
(* What a leader has heard.                                                 *)
Said(m) == owned[m] \cup missed[m]
Claims(m, p) == G!IsCurrent(m) /\ p \in Said(m) /\ phase[m] # "absent"
Alone(m, p) == \A n \in Members \ {m} : ~Claims(n, p)

(* It gives away nothing that somebody else says to own, and leaves that    *)
(* out for a round.                                                         *)
\* @type: (Int -> Int) => Bool;
Sensible(to) ==
    \A p \in Partitions :
        /\ to[p] = Nobody => \E m \in Members : Claims(m, p)
        /\ to[p] # Nobody => to[p] \in G!In(phase)
\* @type: (Int -> Int) => Bool;
NotOwnedByOthers(to) ==
    \A p \in Partitions, m \in Members : to[p] # Nobody /\ Claims(m, p) => to[p] = m

(* In later generations it lets everybody keep what it has, so that there   *)
(* is an end of it.                                                         *)
\* @type: (Int -> Int) => Bool;
Settled(to) ==
    \A p \in Partitions, m \in Members : Claims(m, p) /\ Alone(m, p) => to[p] = m

(* What clients know after a step in which some are told their assignment,  *)
(* and some join again.                                                     *)
GaveUp(m) ==
    CASE Rejoins = "all" -> Said(m) \ owned'[m] # {}
      [] Rejoins = "owned" -> owned[m] \ owned'[m] # {}
      [] Rejoins = "never" -> FALSE

Knows(told, joins) ==
    /\ missed' = [m \in Members |->
        IF m \in told \/ m \notin G!In(phase') THEN {}
        ELSE IF believes'[m] # believes[m]
             THEN IF believes'[m] > believes[m] + 1 THEN owned[m] ELSE {}
             ELSE missed[m]]
    /\ must' = [m \in Members |->
        IF m \notin G!In(phase') THEN FALSE
        ELSE IF m \in told THEN must[m] \/ GaveUp(m)
        ELSE m \notin joins /\ must[m]]

SyncLeader(m, to) ==
    /\ m \in G!In(phase) /\ believes[m] = generation
    /\ state = "CompletingRebalance" /\ leader = m
    /\ Sensible(to)
    /\ Dropped # "rounds" => NotOwnedByOthers(to)
    /\ generation < MaxGeneration \/ Settled(to)
    /\ state' = "Stable" /\ assignment' = to
    /\ UNCHANGED <<generation, leader, initial, believes>>
    /\ LET told == {n \in Members : n = m \/ phase[n] = "syncing"} IN
        /\ phase' = [n \in Members |-> IF n \in told THEN "in" ELSE phase[n]]
        /\ owned' = G!Take(told, to)
        /\ Knows(told, {})

Sync(m) == G!Sync(m) /\ Knows(IF state = "Stable" THEN {m} ELSE {}, {})

(* A member joins again as it must, with other metadata than before: it     *)
(* says to own less.                                                        *)
JoinAgain(m) ==
    /\ must[m] /\ m \in G!In(phase)
    /\ G!Rebalance([phase EXCEPT ![m] = IF @ = "new" THEN @ ELSE "joining"], leader)
    /\ G!Heard({}) /\ Knows({}, {m})

Join(m, news) == G!Join(m, news) /\ Knows({}, IF news \/ ~G!MissedAnswer(m) THEN {m} ELSE {})

AskId(m) == G!AskId(m) /\ Knows({}, {})
JoinPending(m) == G!JoinPending(m) /\ Knows({}, {})
JoinStatic(m) == G!JoinStatic(m) /\ Knows({}, {})
ReplaceStatic(m) == G!ReplaceStatic(m) /\ Knows({}, {})
Leave(m) == G!Leave(m) /\ Knows({}, {})
Expire(m) == G!Expire(m) /\ Knows({}, {})
Lose(m) == G!Lose(m) /\ Knows({}, {})
JoinTimer == G!JoinTimer /\ Knows({}, {})
SyncTimer == G!SyncTimer /\ Knows({}, {})

Next ==
    \/ \E m \in Members : AskId(m)
    \/ \E m \in Members : JoinPending(m)
    \/ \E m \in Members : JoinStatic(m)
    \/ \E m \in Members : ReplaceStatic(m)
    \/ \E m \in Members, news \in BOOLEAN : Join(m, news)
    \/ \E m \in Members : JoinAgain(m)
    \/ \E m \in Members, to \in [Partitions -> 0..M] : SyncLeader(m, to)
    \/ \E m \in Members : Sync(m)
    \/ \E m \in Members : Leave(m)
    \/ \E m \in Members : Expire(m)
    \/ JoinTimer
    \/ SyncTimer
    \/ \E m \in Members : Lose(m)

Spec == Init /\ [][Next]_vars

(* A member that is asked to join hears it by a heartbeat, or has none and  *)
(* its session ends.                                                        *)
Answers(m) ==
    /\ state = "PreparingRebalance" /\ m \in G!Silent(phase)
    /\ Expire(m) \/ Join(m, TRUE)

(* Timers run, whoever asks for an id comes back with it, and whoever must  *)
(* join again does so. Nobody need ever ask for its assignment.             *)
FairSpec ==
    /\ Spec /\ WF_vars(JoinTimer) /\ WF_vars(SyncTimer)
    /\ \A m \in Members :
        /\ WF_vars(phase[m] = "pending" /\ Expire(m))
        /\ WF_vars(Answers(m)) /\ WF_vars(JoinAgain(m))

-----------------------------------------------------------------------------
(* Promises *)

(* No two members own one partition in one generation.                      *)
OneOwner == G!OneOwner

(* A partition that was left out is on its way: who is to give it up has    *)
(* not heard of that yet, or joins again, and it is given away then.        *)
LeftOutIsOwed ==
    state = "Stable" => \A p \in Partitions : assignment[p] = Nobody =>
        \E m \in G!In(phase) : must[m] \/ (G!IsCurrent(m) /\ p \in owned[m] \cup missed[m])

(* Who has asked for its assignment reads that and nothing else, and what   *)
(* it had missed is settled.                                                *)
ReadsItsAssignment ==
    state = "Stable" => \A m \in Members : phase[m] = "in" =>
        owned[m] = {p \in Partitions : assignment[p] = m} /\ missed[m] = {}

(* What a member has missed it reads no longer.                             *)
MissedIsGivenUp == \A m \in Members : missed[m] \cap owned[m] = {}

(* Availability: a leader may always assign; who has to join again may, and *)
(* has done so with that.                                                   *)
Available ==
    /\ state = "CompletingRebalance" =>
        ENABLED ((\E to \in [Partitions -> 0..M] : SyncLeader(leader, to)) /\ state' = "Stable")
    /\ \A m \in Members : must[m] => ENABLED (JoinAgain(m) /\ ~must'[m])

(* Partitions are given away by their generation's leader, while the group  *)
(* waits for that: who reads goes by one assignment.                        *)
LeaderAssigns ==
    [][state' = "Stable" /\ assignment' # assignment
        => state = "CompletingRebalance" /\ phase'[leader] = "in"]_assignment

(* A member that owns a partition, and is alone in that, keeps it in the    *)
(* later generations: it need not stop reading.                             *)
Sticky ==
    [][state = "CompletingRebalance" /\ state' = "Stable" /\ generation >= MaxGeneration =>
        \A m \in Members : \A p \in owned[m] :
            G!IsCurrent(m) /\ phase[m] # "absent"
                /\ (\A n \in Members \ {m} : ~(G!IsCurrent(n) /\ p \in owned[n] \cup missed[n]))
            => assignment'[p] = m]_state

(* Later generations begin because somebody comes, goes or has to join      *)
(* again: otherwise a group is left alone, and reads.                       *)
LeftAlone ==
    [][state # "PreparingRebalance" /\ generation >= MaxGeneration
            /\ (state' = "PreparingRebalance" \/ generation' > generation) =>
        \E m \in Members :
            \/ must[m]
            \/ phase'[m] # phase[m] /\ (phase[m] \in {"none", "pending"} \/ phase'[m] = "gone")]_vars

(* Liveness: in the end every partition is somebody's.                      *)
Covered == <>[](G!In(phase) = {} \/ (state = "Stable" /\ \A p \in Partitions : assignment[p] # Nobody))

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverLeftOut == ~(state = "Stable" /\ \E p \in Partitions : assignment[p] = Nobody)
NeverForgotten == \A m \in Members : missed[m] = {}
=============================================================================
