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
EXTENDS ClassicGroup

CONSTANT Rejoins   \* after giving up "all" that it had said it owns; only what it still "owned"
                   \* when it was told its assignment; "never"
ASSUME Cooperative /\ ~Commits /\ Rejoins \in {"all", "owned", "never"}

VARIABLES
    missed,  \* per client: what it gave up when it heard of its generation, and had said to own
    must     \* per client: it has to join again

all == <<vars, missed, must>>

RejoinInit == Init /\ missed = [m \in Members |-> {}] /\ must = [m \in Members |-> FALSE]

-----------------------------------------------------------------------------
(* What a leader has heard.                                                 *)
Said(m) == owned[m] \cup missed[m]
Heads(m, p) == IsCurrent(m) /\ p \in Said(m) /\ phase[m] # "absent"
Alone(m, p) == \A n \in Members \ {m} : ~Heads(n, p)

(* It gives away nothing that somebody else says to own, and leaves that    *)
(* out for a round. In later generations it lets everybody keep what it     *)
(* has, so that there is an end of it.                                      *)
MayAssign(to) ==
    \A p \in Partitions :
        /\ to[p] = Nobody => \E m \in Members : Heads(m, p)
        /\ to[p] # Nobody => to[p] \in In(phase)
        /\ \A m \in Members : Heads(m, p) =>
            /\ to[p] \in {m, Nobody}
            /\ generation >= MaxGeneration /\ Alone(m, p) => to[p] = m

(* What clients know after a step in which some are told their assignment,  *)
(* and some join again.                                                     *)
GaveUp(m) ==
    CASE Rejoins = "all" -> Said(m) \ owned'[m] # {}
      [] Rejoins = "owned" -> owned[m] \ owned'[m] # {}
      [] Rejoins = "never" -> FALSE

Knows(told, joins) ==
    /\ missed' = [m \in Members |->
        IF m \in told \/ m \notin In(phase') THEN {}
        ELSE IF believes'[m] # believes[m]
             THEN IF believes'[m] > believes[m] + 1 THEN owned[m] ELSE {}
             ELSE missed[m]]
    /\ must' = [m \in Members |->
        IF m \notin In(phase') THEN FALSE
        ELSE IF m \in told THEN must[m] \/ GaveUp(m)
        ELSE m \notin joins /\ must[m]]

Assign(m, to) ==
    /\ IsCurrent(m) /\ state = "CompletingRebalance" /\ leader = m
    /\ MayAssign(to)
    /\ state' = "Stable" /\ assignment' = to
    /\ UNCHANGED <<generation, leader, initial, believes, commit>>
    /\ LET told == {n \in Members : n = m \/ phase[n] = "syncing"} IN
        /\ phase' = [n \in Members |-> IF n \in told THEN "in" ELSE phase[n]]
        /\ owned' = Take(told, to)
        /\ Knows(told, {})

Ask(m) == Sync(m) /\ Knows(IF state = "Stable" THEN {m} ELSE {}, {})

(* With other metadata than before: it says to own less.                    *)
JoinAgain(m) ==
    /\ must[m] /\ m \in In(phase)
    /\ Rebalance([phase EXCEPT ![m] = IF @ = "new" THEN @ ELSE "joining"], leader)
    /\ Heard({}) /\ UNCHANGED commit /\ Knows({}, {m})

RejoinNext ==
    \/ \E m \in Members, to \in [Partitions -> 0..M] : Assign(m, to)
    \/ \E m \in Members : Ask(m)
    \/ \E m \in Members : JoinAgain(m)
    \/ \E m \in Members, news \in BOOLEAN :
        Join(m, news) /\ Knows({}, IF news \/ ~MissedAnswer(m) THEN {m} ELSE {})
    \/ /\ \/ \E m \in Members : \/ AskId(m) \/ JoinPending(m) \/ JoinStatic(m) \/ ReplaceStatic(m)
                                \/ Leave(m) \/ Expire(m) \/ Lose(m)
          \/ JoinTimer \/ SyncTimer
       /\ Knows({}, {})

(* A member that is asked to join hears it by a heartbeat, or has none and  *)
(* its session ends.                                                        *)
Answer(m) ==
    /\ state = "PreparingRebalance" /\ m \in Silent(phase)
    /\ \/ Expire(m) /\ Knows({}, {})
       \/ Join(m, TRUE) /\ Knows({}, {m})

(* Timers run, whoever asks for an id comes back with it, and whoever must  *)
(* join again does so. Nobody need ever ask for its assignment.             *)
RejoinSpec ==
    /\ RejoinInit /\ [][RejoinNext]_all
    /\ WF_all(JoinTimer /\ Knows({}, {})) /\ WF_all(SyncTimer /\ Knows({}, {}))
    /\ \A m \in Members :
        /\ WF_all(phase[m] = "pending" /\ Expire(m) /\ Knows({}, {}))
        /\ WF_all(Answer(m)) /\ WF_all(JoinAgain(m))

-----------------------------------------------------------------------------
(* Promises *)

(* Liveness: in the end every partition is somebody's.                      *)
Covered == <>[](In(phase) = {} \/ (state = "Stable" /\ \A p \in Partitions : assignment[p] # Nobody))

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverLeftOut == ~(state = "Stable" /\ \E p \in Partitions : assignment[p] = Nobody)
NeverForgotten == \A m \in Members : missed[m] = {}
=============================================================================
