----------------------------- MODULE Controller -----------------------------
(* Who is controller, and what one can still do who no longer is. The store *)
(* is ZooKeeper's contract, cut to what this needs: an ephemeral node, two   *)
(* nodes with versions, watches that fire once and are noticed late,         *)
(* sessions that end without their owner knowing, answers that are lost      *)
(* although the write has happened. A process may outlive its session: it    *)
(* connects anew and works off what it had in its queue.                     *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,                    \* brokers 1..N, each of which may be controller
    (* @type: Int; *)  MaxSessions,          \* bound: sessions of each broker
    (* @type: Int; *)  MaxControllerEpoch,   \* bound: controller epochs
    (* @type: Int; *)  MaxLeaderEpoch,       \* bound: leader epochs, one for each decision
    (* @type: Int; *)  MaxLost,              \* bound: answers that are lost
    (* @type: Bool; *) ResignOnExpire,       \* whoever learns that its session is over stops at once
    (* @type: Bool; *) Atomic,               \* /controller and /controller_epoch are written in one transaction
    (* @type: Bool; *) CheckFence,           \* every decision is conditional on the version of /controller_epoch
    (* @type: Bool; *) CheckVersion,         \* and on that of the node that it changes
    (* @type: Str; *)  OwnBy,                \* how a broker knows /controller for its own, see below
    (* @type: Bool; *) Rearm,                \* a broker that reads /controller watches it as well
    (* @type: Bool; *) TellWhatIsRead,       \* a controller tells brokers what it reads, not only what it writes
    (* @type: Bool; *) CheckControllerEpoch, \* a broker refuses news of an older controller (KAFKA-1188)
    (* @type: Bool; *) CheckLeaderEpoch      \* and news of an older leader epoch (KAFKA-2721)

(* OwnBy:                                                                   *)
(*   "session"  by the session that made it                                 *)
(*   "broker"   by the broker's number in it: also one of an earlier life    *)
(*   "never"    a node that is there is somebody else's (KAFKA-13407)        *)
ASSUME OwnBy \in {"session", "broker", "never"}

\* @typeAlias: decision = {leader: Int, epoch: Int, by: Int};
Brokers == 1..N
Sessions == 1..MaxSessions
Nobody == [broker |-> 0, session |-> 0]
Unread == 0

VARIABLES
    (* @type: Set(<<Int, Int>>); *)    live,             \* the sessions that the store keeps
    (* @type: {broker: Int, session: Int}; *) node,             \* /controller: whose it is
    (* @type: Int; *)                  controllerEpoch,  \* /controller_epoch: its value, which is its version as well
    (* @type: $decision; *)            state,            \* one partition's state: leader, epoch (its version), controller epoch
    (* @type: Int -> Int; *)           session,          \* per broker: the session that it has, or believes to have
    (* @type: Int -> Str; *)           watch,            \* per broker: "unread", "armed", "fired"; "deaf" where no watch was set
    (* @type: Int -> Str; *)           role,             \* per broker: "follower", "candidate", "unsure", "raising", "controller"
    (* @type: Int -> Int; *)           fence,            \* per broker: the version of /controller_epoch that it counts on
    (* @type: Int -> Int; *)           read,             \* per broker: the version of the state that it counts on, Unread for none
    (* @type: Set($decision); *)       sent,             \* news under way to brokers: nothing is taken from it
    (* @type: $decision; *)            heard,            \* what one broker has heard last; the others are like it
    (* @type: Set({epoch: Int, broker: Int, session: Int}); *) won,              \* ghost: who ever was controller, by epoch
    (* @type: Int; *)                  lost              \* answers that were lost

store == <<live, node, controllerEpoch, state>>
process == <<session, watch, role, fence, read>>
vars == <<store, process, sent, heard, won, lost>>

Init ==
    /\ live = {<<b, 1>> : b \in Brokers}
    /\ node = Nobody /\ controllerEpoch = 0
    /\ state = [leader |-> 1, epoch |-> 1, by |-> 0]
    /\ session = [b \in Brokers |-> 1]
    /\ watch = [b \in Brokers |-> "unread"]
    /\ role = [b \in Brokers |-> "follower"]
    /\ fence = [b \in Brokers |-> 0]
    /\ read = [b \in Brokers |-> Unread]
    /\ sent = {} /\ heard = state
    /\ won = {} /\ lost = 0

-----------------------------------------------------------------------------
Connected(b) == <<b, session[b]>> \in live
Mine(b) == [broker |-> b, session |-> session[b]]
IsOwn(b) == CASE OwnBy = "session" -> node = Mine(b)
              [] OwnBy = "broker" -> node.broker = b
              [] OwnBy = "never" -> FALSE

(* The node was made or has gone: who watched it will hear of that, once.   *)
Fired == [b \in Brokers |-> IF watch[b] = "armed" THEN "fired" ELSE watch[b]]

(* Whoever is neither controller nor candidate counts on nothing.           *)
Resign(b) ==
    /\ role' = [role EXCEPT ![b] = "follower"]
    /\ fence' = [fence EXCEPT ![b] = 0]
    /\ read' = [read EXCEPT ![b] = Unread]

Become(b, epoch) ==
    /\ role' = [role EXCEPT ![b] = "controller"]
    /\ fence' = [fence EXCEPT ![b] = epoch]
    /\ read' = [read EXCEPT ![b] = Unread]
    /\ won' = won \cup {[epoch |-> epoch, broker |-> b, session |-> session[b]]}

-----------------------------------------------------------------------------
(* Sessions *)

(* The store ends a session, and with it the node. Its owner is not told.   *)
Expire(b, s) ==
    /\ <<b, s>> \in live
    /\ live' = live \ {<<b, s>>}
    /\ IF node = [broker |-> b, session |-> s]
       THEN node' = Nobody /\ watch' = Fired
       ELSE UNCHANGED <<node, watch>>
    /\ UNCHANGED <<controllerEpoch, state, session, role, fence, read, sent, heard, won, lost>>

(* A broker learns that its session is over, and has a new one. What it was *)
(* about to do it still does, unless it resigns; its watch is gone.         *)
Connect(b) ==
    /\ ~Connected(b) /\ session[b] < MaxSessions
    /\ session' = [session EXCEPT ![b] = @ + 1]
    /\ live' = live \cup {<<b, session[b] + 1>>}
    /\ watch' = [watch EXCEPT ![b] = "unread"]
    /\ IF ResignOnExpire THEN Resign(b) ELSE UNCHANGED <<role, fence, read>>
    /\ UNCHANGED <<node, controllerEpoch, state, sent, heard, won, lost>>

(* A process starts again, while the session of the one before may be alive.*)
Restart(b) ==
    /\ session[b] < MaxSessions
    /\ session' = [session EXCEPT ![b] = @ + 1]
    /\ live' = live \cup {<<b, session[b] + 1>>}
    /\ watch' = [watch EXCEPT ![b] = "unread"]
    /\ Resign(b)
    /\ UNCHANGED <<node, controllerEpoch, state, sent, heard, won, lost>>

-----------------------------------------------------------------------------
(* Election *)

(* A broker reads /controller_epoch and /controller, and watches the latter:*)
(* at its start, when its watch has fired, and after an answer was lost.    *)
Look(b) ==
    /\ Connected(b) /\ watch[b] \in {"unread", "fired"}
    /\ watch' = [watch EXCEPT ![b] = IF Rearm THEN "armed" ELSE "deaf"]
    /\ IF node = Nobody
       THEN /\ role' = [role EXCEPT ![b] = "candidate"]
            /\ fence' = [fence EXCEPT ![b] = controllerEpoch]
            /\ read' = [read EXCEPT ![b] = Unread]
            /\ UNCHANGED won
       ELSE IF ~IsOwn(b)
       THEN Resign(b) /\ UNCHANGED won
       ELSE IF role[b] = "controller"
       THEN UNCHANGED <<role, fence, read, won>>
       ELSE Become(b, controllerEpoch)
    /\ UNCHANGED <<store, session, sent, heard, lost>>

(* It makes the node and raises the epoch: both or neither, and only if     *)
(* nobody was elected since it looked.                                      *)
Claim(b, answered) ==
    /\ Connected(b) /\ role[b] = "candidate"
    /\ IF node # Nobody \/ (Atomic /\ controllerEpoch # fence[b])
       THEN /\ answered
            /\ Resign(b)
            /\ UNCHANGED <<node, controllerEpoch, watch, won, lost>>
       ELSE /\ controllerEpoch < MaxControllerEpoch
            /\ node' = Mine(b)
            /\ controllerEpoch' = IF Atomic THEN controllerEpoch + 1 ELSE controllerEpoch
            /\ IF answered
               THEN /\ watch' = Fired /\ UNCHANGED lost
                    /\ IF Atomic THEN Become(b, controllerEpoch')
                       ELSE role' = [role EXCEPT ![b] = "raising"] /\ UNCHANGED <<fence, read, won>>
               ELSE /\ Atomic /\ lost < MaxLost /\ lost' = lost + 1
                    /\ watch' = [Fired EXCEPT ![b] = "unread"]
                    /\ role' = [role EXCEPT ![b] = "unsure"]
                    /\ UNCHANGED <<fence, read, won>>
    /\ UNCHANGED <<live, state, session, sent, heard>>

(* The second write, where the two are not one. *)
RaiseEpoch(b) ==
    /\ Connected(b) /\ role[b] = "raising"
    /\ controllerEpoch' = fence[b] + 1
    /\ Become(b, fence[b] + 1)
    /\ UNCHANGED <<live, node, state, session, watch, sent, heard, lost>>

-----------------------------------------------------------------------------
(* What a controller does, or believes to *)

Read(b) ==
    /\ Connected(b) /\ role[b] = "controller" /\ read[b] # state.epoch
    /\ read' = [read EXCEPT ![b] = state.epoch]
    /\ sent' = IF TellWhatIsRead THEN sent \cup {[state EXCEPT !.by = fence[b]]} ELSE sent
    /\ UNCHANGED <<store, session, watch, role, fence, heard, won, lost>>

(* A decision: l leads. Whoever finds that the epoch has moved on is no     *)
(* controller; whoever finds another version has to read again, and may     *)
(* find that it was its own write, of which it never heard.                 *)
Decide(b, l, answered) ==
    /\ Connected(b) /\ role[b] = "controller" /\ read[b] # Unread
    /\ IF CheckFence /\ controllerEpoch # fence[b]
       THEN /\ answered
            /\ Resign(b)
            /\ UNCHANGED <<state, watch, sent, lost>>
       ELSE IF CheckVersion /\ read[b] # state.epoch
       THEN /\ answered
            /\ read' = [read EXCEPT ![b] = Unread]
            /\ UNCHANGED <<state, watch, role, fence, sent, lost>>
       ELSE /\ read[b] < MaxLeaderEpoch
            /\ state' = [leader |-> l, epoch |-> read[b] + 1, by |-> fence[b]]
            /\ IF answered
               THEN /\ sent' = sent \cup {state'}
                    /\ read' = [read EXCEPT ![b] = @ + 1]
                    /\ UNCHANGED <<watch, lost>>
               ELSE /\ lost < MaxLost /\ lost' = lost + 1
                    /\ watch' = [watch EXCEPT ![b] = "unread"]
                    /\ UNCHANGED <<sent, read>>
            /\ UNCHANGED <<role, fence>>
    /\ UNCHANGED <<live, node, controllerEpoch, session, heard, won>>

(* A broker hears from the controller of an epoch: anything it ever sent.   *)
Hear(epoch) ==
    \E m \in sent :
        /\ m.by = epoch /\ m # heard
        /\ CheckControllerEpoch => m.by >= heard.by
        /\ CheckLeaderEpoch => m.epoch >= heard.epoch
        /\ heard' = m
        /\ UNCHANGED <<store, process, sent, won, lost>>

Next ==
    \/ \E b \in Brokers, s \in Sessions : Expire(b, s)
    \/ \E b \in Brokers : Connect(b)
    \/ \E b \in Brokers : Restart(b)
    \/ \E b \in Brokers : Look(b)
    \/ \E b \in Brokers, answered \in BOOLEAN : Claim(b, answered)
    \/ \E b \in Brokers : RaiseEpoch(b)
    \/ \E b \in Brokers : Read(b)
    \/ \E b, l \in Brokers, answered \in BOOLEAN : Decide(b, l, answered)
    \/ \E epoch \in 1..MaxControllerEpoch : Hear(epoch)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

TypeOK ==
    /\ live \subseteq Brokers \X Sessions
    /\ node = Nobody \/ <<node.broker, node.session>> \in live
    /\ controllerEpoch \in 0..MaxControllerEpoch
    /\ state.leader \in Brokers /\ state.epoch \in 1..MaxLeaderEpoch
    /\ state.by \in 0..MaxControllerEpoch
    /\ session \in [Brokers -> Sessions]
    /\ \A b \in Brokers : fence[b] <= controllerEpoch /\ read[b] <= state.epoch

(* R10: an epoch has one controller, which is one session of one broker.    *)
OneControllerPerEpoch == \A x, y \in won : x.epoch = y.epoch => x = y

(* What brokers are told of a leader epoch is one thing.                    *)
OneDecisionPerEpoch == \A m, n \in sent : m.epoch = n.epoch => m.leader = n.leader

(* No write of a deposed controller takes effect.                           *)
ControllerEpochAscends == [][state'.by >= state.by]_state

(* Decisions form one sequence: none is overwritten.                        *)
LeaderEpochAscends == [][state'.epoch > state.epoch]_state

(* Whoever has heard of a controller obeys no earlier one, and no earlier   *)
(* decision.                                                                *)
NeverBack == [][heard'.by >= heard.by /\ heard'.epoch >= heard.epoch]_heard

(* The node never names a broker that has looked, and does nothing.         *)
OwnerActs ==
    \A b \in Brokers :
        (Connected(b) /\ node = Mine(b) /\ watch[b] = "armed") => role[b] = "controller"

(* Where nobody is controller, everybody who is there knows or will hear.   *)
VacancyIsNoticed ==
    node = Nobody =>
        \A b \in Brokers :
            Connected(b) => watch[b] \in {"unread", "fired"} \/ role[b] # "follower"

(* A candidate that has heard nothing new may win.                          *)
CandidateMayWin ==
    \A b \in Brokers :
        (role[b] = "candidate" /\ watch[b] = "armed") => node = Nobody /\ fence[b] = controllerEpoch

(* Whoever was elected has the node as long as its session.                 *)
NodeLasts ==
    \A w \in won :
        <<w.broker, w.session>> \in live => node = [broker |-> w.broker, session |-> w.session]

(* Who is controller counts on an epoch, it alone on what it has read, and  *)
(* who does not want to be on nothing.                                      *)
OnlyControllersCount ==
    \A b \in Brokers :
        /\ role[b] = "controller" => fence[b] > 0
        /\ role[b] # "controller" => read[b] = Unread
        /\ role[b] = "follower" => fence[b] = 0

(* What a controller believes to be in force, brokers have been told.       *)
NothingUntold ==
    \A b \in Brokers :
        (role[b] = "controller" /\ read[b] = state.epoch /\ fence[b] = controllerEpoch) =>
            state.epoch = 1 \/ \E m \in sent : m.epoch = state.epoch

(* Liveness: as long as there are sessions and epochs left somebody acts,   *)
(* again and again. Whoever can look does, and claims; a process that lost  *)
(* its session opens another one, and a session that nobody has any more    *)
(* ends.                                                                    *)
Acts(b) == Connected(b) /\ node = Mine(b) /\ role[b] = "controller"
ExpireAbandoned(b) == \E s \in Sessions : s < session[b] /\ Expire(b, s)
Calm ==
    /\ Spec
    /\ \A b \in Brokers :
        /\ WF_vars(Look(b)) /\ SF_vars(Claim(b, TRUE)) /\ WF_vars(Connect(b))
        /\ WF_vars(ExpireAbandoned(b))
SomebodyActs ==
    <>[](controllerEpoch < MaxControllerEpoch /\ \E b \in Brokers : Connected(b))
        => []<>(\E b \in Brokers : Acts(b))

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverFenced ==
    \A b \in Brokers :
        ~(role[b] = "controller" /\ Connected(b) /\ controllerEpoch > fence[b] /\ read[b] # Unread)
NeverUnsure == \A b \in Brokers : role[b] # "unsure"
NeverTwo ==
    \A a, b \in Brokers : role[a] = "controller" /\ role[b] = "controller" => a = b
NeverBeaten == \A b \in Brokers : ~(role[b] = "candidate" /\ controllerEpoch # fence[b])
NeverOverwrites ==
    \A b \in Brokers : ~(read[b] # Unread /\ read[b] # state.epoch /\ fence[b] = controllerEpoch)
NeverOutlives == \A b \in Brokers : role[b] = "controller" /\ Connected(b) => node = Mine(b)
NeverWatches == \A b \in Brokers : watch[b] # "armed"
NeverHearsTwice == [][heard'.by # heard.by]_heard
NeverOwnOfBefore == \A b \in Brokers : ~(Connected(b) /\ node.broker = b /\ node # Mine(b))
=============================================================================
