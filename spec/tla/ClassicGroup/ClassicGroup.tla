---------------------------- MODULE ClassicGroup ----------------------------
(* A group of the classic protocol. Its members join, the coordinator names *)
(* a generation and a leader, the leader assigns the partitions, and each   *)
(* member asks for what it was assigned (KIP-62). Members are ids, which    *)
(* are used once: a process that is removed comes back as another one, and  *)
(* may go on as the old one for a while. Static members are one instance,   *)
(* whose processes take it over from each other (KIP-345).                  *)
(*                                                                          *)
(* A request and what it is answered at once are one step. A lost answer is *)
(* a client that acts as if it had heard nothing: it joins again.           *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    (* @type: Int; *)      M,             \* members 1..M
    (* @type: Int; *)      P,             \* partitions 1..P
    (* @type: Int; *)      MaxGeneration, \* bound: generations in which somebody still joins again unasked
    (* @type: Set(Int); *) Statics,       \* members that are processes of one static instance
    (* @type: Bool; *)     Commits,       \* commits are sent
    (* @type: Bool; *)     Cooperative,   \* who joins keeps what it owns, and gives up what is not assigned to it (KIP-429)
    (* @type: Str; *)      Dropped        \* the rule that is left out, "none" as it should be

(* Dropped:                                                                 *)
(*   "pending"    an id that was given out is waited for (KIP-394)          *)
(*   "silent"     who has not joined in time is removed                     *)
(*   "static"     but for a static member (KAFKA-8220)                      *)
(*   "instance"   another process of an instance replaces the one before    *)
(*   "elect"      the leader is one that has joined                         *)
(*   "unsynced"   who does not ask for its assignment is removed, whether   *)
(*                it is heard of or not (KAFKA-12890)                       *)
(*   "member"     only members commit, not who was one                      *)
(*   "generation" a commit is of the group's generation                     *)
(*   "completing" and not taken while the assignment is awaited             *)
(*   "rounds"     a partition is not given to one while another owns it     *)
(*   "absent"     a generation is not told to who is in it without having   *)
(*                joined it, but another one prepared; Kafka tells it       *)
(*   "missed"     who has missed a generation gives up what it owned before; *)
(*                Kafka's clients do not                                    *)
ASSUME Dropped \in {"none", "pending", "silent", "static", "instance", "elect", "unsynced",
                    "member", "generation", "completing", "rounds", "absent", "missed"}
\* @typeAlias: commit = {member: Int, partition: Int, generation: Int};
Rule(name) == Dropped # name

Members == 1..M
Partitions == 1..P
Nobody == 0
NoCommit == [member |-> Nobody, partition |-> 0, generation |-> 0]
Unassigned == [p \in Partitions |-> Nobody]

VARIABLES
    (* @type: Str; *) state, (* @type: Int; *) generation, (* @type: Int; *) leader,
    (* @type: Bool; *)            initial,     \* the group had no members: the first ones wait for more
    (* @type: Int -> Str; *)      phase,       \* per member, at the coordinator, see below
    (* @type: Int -> Int; *)      assignment,  \* per partition: its member, while the group is stable
    (* @type: Int -> Int; *)      believes,    \* per client: the generation that it was told, 0 for none
    (* @type: Int -> Set(Int); *) owned,       \* per client: what it owns
    (* @type: $commit; *)         commit       \* a commit that is under way

(* phase: "none", not yet known; "pending", its id was given out; "new" and *)
(* "joining", a join is parked, of a new member or one that was answered    *)
(* before; "unsynced", it was answered; "absent", it is in the generation   *)
(* and has not joined it; "syncing", a sync is parked; "in"; "gone".        *)
group == <<state, generation, leader, initial, phase, assignment>>
vars == <<group, believes, owned, commit>>

Init ==
    /\ state = "Empty" /\ generation = 0 /\ leader = Nobody /\ initial = FALSE
    /\ phase = [m \in Members |-> "none"] /\ assignment = Unassigned
    /\ believes = [m \in Members |-> 0] /\ owned = [m \in Members |-> {}]
    /\ commit = NoCommit

-----------------------------------------------------------------------------
Least(S) == CHOOSE m \in S : \A n \in S : m <= n
\* @type: (Int -> Str) => Set(Int);
Joined(ph) == {m \in Members : ph[m] \in {"new", "joining"}}
\* @type: (Int -> Str) => Set(Int);
Silent(ph) == {m \in Members : ph[m] \in {"unsynced", "absent", "syncing", "in"}}
In(ph) == Joined(ph) \cup Silent(ph)
\* @type: (Int -> Str) => Bool;
AllJoined(ph) == Silent(ph) = {} /\ (Rule("pending") => \A m \in Members : ph[m] # "pending")

\* @type: (Int -> Str, Set(Int)) => Int -> Str;
Without(ph, gone) == [m \in Members |-> IF m \in gone THEN "gone" ELSE ph[m]]
LeaderOf(ph, led) == IF led \in In(ph) THEN led
                     ELSE IF In(ph) = {} THEN Nobody ELSE Least(In(ph))

(* What a client owns once it hears of another generation.                  *)
Kept(m) == IF Rule("missed") /\ believes'[m] > believes[m] + 1 THEN {} ELSE owned[m]

(* The next generation: who has joined is in it, and is told so.            *)
Complete(ph, led) ==
    LET late == {m \in Silent(ph) : Rule("silent") /\ (Rule("static") => m \notin Statics)}
        next == Without(ph, late)
        joined == Joined(next)
    IN  /\ assignment' = Unassigned
        /\ IF joined = {} /\ In(next) # {}
           THEN /\ state' = "PreparingRebalance" /\ phase' = next /\ leader' = LeaderOf(next, led)
                /\ UNCHANGED <<generation, initial, believes>>
           ELSE /\ state' = IF joined = {} THEN "Empty" ELSE "CompletingRebalance"
                /\ generation' = generation + 1 /\ initial' = FALSE
                /\ phase' = [m \in Members |-> IF m \in joined THEN "unsynced"
                                                ELSE IF m \in In(next) THEN "absent" ELSE next[m]]
                /\ leader' = IF led \in joined \/ ~Rule("elect") THEN LeaderOf(next, led)
                             ELSE IF joined = {} THEN Nobody ELSE Least(joined)
                /\ believes' = [m \in Members |-> IF m \in joined THEN generation' ELSE believes[m]]

(* While members join: the next generation, if nobody is waited for.        *)
CompleteIfAllJoined(ph, led) ==
    IF ~initial /\ AllJoined(ph) THEN Complete(ph, led)
    ELSE /\ phase' = ph /\ leader' = led
         /\ UNCHANGED <<state, generation, initial, assignment, believes>>

(* All are to join again. Parked syncs are answered so.                     *)
Prepare(ph, led) ==
    LET asked == [m \in Members |-> IF m \in Silent(ph) THEN "in" ELSE ph[m]]
    IN  IF state # "Empty" /\ AllJoined(asked) THEN Complete(asked, led)
        ELSE /\ state' = "PreparingRebalance" /\ initial' = (state = "Empty")
             /\ phase' = asked /\ leader' = led /\ assignment' = Unassigned
             /\ UNCHANGED <<generation, believes>>

Rebalance(ph, led) ==
    IF state = "PreparingRebalance" THEN CompleteIfAllJoined(ph, led) ELSE Prepare(ph, led)

(* A member or a pending id is taken out.                                   *)
Remove(m) ==
    LET ph == Without(phase, {m}) IN
    IF state \in {"Stable", "CompletingRebalance"} /\ m \in In(phase)
    THEN Prepare(ph, LeaderOf(ph, leader))
    ELSE IF state = "PreparingRebalance" THEN CompleteIfAllJoined(ph, LeaderOf(ph, leader))
    ELSE phase' = ph /\ UNCHANGED <<state, generation, leader, initial, assignment, believes>>

(* What clients own after a step in which some give up everything: whoever  *)
(* hears of a generation keeps what it has, unless it missed one.           *)
Heard(giveUp) ==
    owned' = [m \in Members |-> IF m \in giveUp THEN {}
                                ELSE IF believes'[m] # believes[m] THEN Kept(m) ELSE owned[m]]

-----------------------------------------------------------------------------
(* Members come *)

(* A dynamic member is given an id, with which it is to come back.          *)
AskId(m) ==
    /\ m \notin Statics /\ phase[m] = "none"
    /\ phase' = [phase EXCEPT ![m] = "pending"]
    /\ UNCHANGED <<state, generation, leader, initial, assignment, believes, owned, commit>>

Instance == {m \in Statics : m \in In(phase)}
Fenced(m) == m \in Statics /\ m \notin In(phase) /\ Instance # {}
Added(m) == [phase EXCEPT ![m] = "new"]
LedBy(m) == IF leader = Nobody THEN m ELSE leader

JoinPending(m) ==
    /\ phase[m] = "pending"
    /\ Rebalance(Added(m), LedBy(m)) /\ Heard({}) /\ UNCHANGED commit

JoinStatic(m) ==
    /\ m \in Statics /\ phase[m] = "none"
    /\ Rule("instance") => Instance = {}
    /\ Rebalance(Added(m), LedBy(m)) /\ Heard({}) /\ UNCHANGED commit

(* Another process of the instance. In a stable group it takes its          *)
(* predecessor's place, and asks for its assignment; nobody else notices.   *)
ReplaceStatic(m) ==
    /\ m \in Statics /\ phase[m] = "none" /\ Instance # {}
    /\ LET old == Least(Instance)
           led == IF leader = old THEN m ELSE leader
           by(how) == [phase EXCEPT ![old] = "gone", ![m] = how]
       IN  IF state = "Stable"
           THEN /\ phase' = by(IF phase[old] = "absent" THEN "unsynced" ELSE phase[old])
                /\ leader' = led
                /\ assignment' = [p \in Partitions |-> IF assignment[p] = old THEN m
                                                       ELSE assignment[p]]
                /\ believes' = [believes EXCEPT ![m] = generation]
                /\ UNCHANGED <<state, generation, initial>>
           ELSE Rebalance(by(IF phase[old] = "new" THEN "new" ELSE "joining"), led)
    /\ Heard({}) /\ UNCHANGED commit

(* It is in the generation already, and is told so again.                   *)
MissedAnswer(m) ==
    /\ state # "PreparingRebalance" /\ ~(state = "Stable" /\ leader = m)
    /\ Rule("absent") => phase[m] # "absent"

(* A member joins again, because it was asked to, has missed an answer, or  *)
(* has `news`: other metadata than before.                                  *)
Join(m, news) ==
    /\ m \in In(phase) \/ Fenced(m)
    /\ ~Fenced(m)
    /\ IF MissedAnswer(m) /\ ~news
       THEN believes' = [believes EXCEPT ![m] = generation] /\ UNCHANGED group
       ELSE /\ state # "PreparingRebalance" => generation < MaxGeneration
            /\ Rebalance([phase EXCEPT ![m] = IF @ = "new" THEN @ ELSE "joining"], leader)
    /\ Heard(IF Cooperative THEN {} ELSE {m}) /\ UNCHANGED commit

-----------------------------------------------------------------------------
(* The assignment *)

IsCurrent(m) == m \in In(phase) /\ believes[m] = generation
Owns(m, p) == IsCurrent(m) /\ p \in owned[m]
\* @type: (Set(Int), Int -> Int) => Int -> Set(Int);
Take(ms, to) == [m \in Members |-> IF m \in ms THEN {p \in Partitions : to[p] = m} ELSE owned[m]]

(* What a leader may say. It has heard what those own who have joined; who  *)
(* is cooperative leaves that out for a round, if another one is to have it. *)
Claims(m, p) == Owns(m, p) /\ phase[m] # "absent"
\* @type: (Int -> Int) => Bool;
Sensible(to) ==
    \A p \in Partitions :
        /\ to[p] = Nobody => Cooperative /\ \E m \in Members : Claims(m, p)
        /\ to[p] # Nobody => to[p] \in In(phase)
\* @type: (Int -> Int) => Bool;
NotOwnedByOthers(to) ==
    \A p \in Partitions, m \in Members : to[p] # Nobody /\ Claims(m, p) => to[p] = m

SyncLeader(m, to) ==
    /\ m \in In(phase) /\ believes[m] = generation
    /\ state = "CompletingRebalance" /\ leader = m
    /\ Sensible(to)
    /\ Rule("rounds") => NotOwnedByOthers(to)
    /\ LET told == {n \in Members : n = m \/ phase[n] = "syncing"} IN
        /\ phase' = [n \in Members |-> IF n \in told THEN "in" ELSE phase[n]]
        /\ owned' = Take(told, to)
    /\ state' = "Stable" /\ assignment' = to
    /\ UNCHANGED <<generation, leader, initial, believes, commit>>

Sync(m) ==
    /\ m \in In(phase) \/ Fenced(m)
    /\ ~Fenced(m) /\ believes[m] = generation
    /\ state \in {"CompletingRebalance", "Stable"}
    /\ state = "CompletingRebalance" => leader # m
    /\ IF state = "Stable"
       THEN phase' = [phase EXCEPT ![m] = "in"] /\ owned' = Take({m}, assignment)
       ELSE phase' = [phase EXCEPT ![m] = "syncing"] /\ UNCHANGED owned
    /\ UNCHANGED <<state, generation, leader, initial, assignment, believes, commit>>

-----------------------------------------------------------------------------
(* Members go, and time passes *)

Leave(m) ==
    /\ m \in In(phase) \/ phase[m] = "pending"
    /\ Remove(m) /\ Heard({m}) /\ UNCHANGED commit

(* Its session is over. Who waits for an answer lives, but for who is new.  *)
Expire(m) ==
    /\ m \in In(phase) \/ phase[m] = "pending"
    /\ phase[m] \notin {"joining", "syncing"}
    /\ Remove(m) /\ Heard({}) /\ UNCHANGED commit

JoinTimer ==
    /\ state = "PreparingRebalance"
    /\ Complete(phase, leader) /\ Heard({}) /\ UNCHANGED commit

SyncTimer ==
    /\ Rule("unsynced")
    /\ state \in {"CompletingRebalance", "Stable"}
    /\ LET late == {m \in Members : phase[m] \in {"unsynced", "absent"}}
           ph == Without(phase, late)
       IN  late # {} /\ Prepare(ph, LeaderOf(ph, leader))
    /\ Heard({}) /\ UNCHANGED commit

(* A heartbeat is refused, and the client gives up what it owns.            *)
Lose(m) ==
    /\ believes[m] > 0 /\ ~IsCurrent(m)
    /\ believes' = [believes EXCEPT ![m] = 0] /\ owned' = [owned EXCEPT ![m] = {}]
    /\ UNCHANGED <<group, commit>>

-----------------------------------------------------------------------------
(* Commits, which may be on their way for long *)

SendCommit(m, p) ==
    /\ Commits /\ commit = NoCommit
    /\ believes[m] > 0 /\ p \in owned[m]
    /\ commit' = [member |-> m, partition |-> p, generation |-> believes[m]]
    /\ UNCHANGED <<group, believes, owned>>

\* @type: $commit => Bool;
Accepted(c) ==
    /\ Rule("member") => c.member \in In(phase)
    /\ Rule("generation") => c.generation = generation
    /\ Rule("completing") => state # "CompletingRebalance"

TakeCommit ==
    /\ commit # NoCommit
    /\ Rule("member") => commit.member \in In(phase)
    /\ Rule("generation") => commit.generation = generation
    /\ Rule("completing") => state # "CompletingRebalance"
    /\ commit' = NoCommit /\ UNCHANGED <<group, believes, owned>>

LoseCommit ==
    /\ commit # NoCommit
    /\ commit' = NoCommit /\ UNCHANGED <<group, believes, owned>>

Next ==
    \/ \E m \in Members : AskId(m)
    \/ \E m \in Members : JoinPending(m)
    \/ \E m \in Members : JoinStatic(m)
    \/ \E m \in Members : ReplaceStatic(m)
    \/ \E m \in Members, news \in BOOLEAN : Join(m, news)
    \/ \E m \in Members, to \in [Partitions -> 0..M] : SyncLeader(m, to)
    \/ \E m \in Members : Sync(m)
    \/ \E m \in Members : Leave(m)
    \/ \E m \in Members : Expire(m)
    \/ JoinTimer
    \/ SyncTimer
    \/ \E m \in Members : Lose(m)
    \/ \E m \in Members, p \in Partitions : SendCommit(m, p)
    \/ TakeCommit
    \/ LoseCommit

Spec == Init /\ [][Next]_vars

(* Timers run, and whoever asks for an id comes back with it; but nobody    *)
(* need ever join again or ask for its assignment.                          *)
FairSpec ==
    /\ Spec /\ WF_vars(JoinTimer) /\ WF_vars(SyncTimer)
    /\ \A m \in Members : WF_vars(phase[m] = "pending" /\ Expire(m))

-----------------------------------------------------------------------------
(* Promises *)

(* No two members own one partition in one generation.                      *)
OneOwner == \A m, n \in Members, p \in Partitions : Owns(m, p) /\ Owns(n, p) => m = n

(* A commit is not taken of a partition that somebody else owns by now.     *)
OnlyOwnersCommit ==
    (commit # NoCommit /\ Accepted(commit)) =>
        \A n \in Members \ {commit.member} : ~Owns(n, commit.partition)

(* Who is to assign has heard of it.                                        *)
LeaderKnows == state = "CompletingRebalance" => believes[leader] = generation

(* An instance is one member.                                               *)
OneProcess == Cardinality(Instance) <= 1

(* Who waits for a rebalance to end does so for who may still come.         *)
NobodyLeftOut ==
    [][(generation' > generation /\ \E m \in Members : phase[m] = "pending" /\ phase'[m] = "pending")
        => JoinTimer]_vars

(* A static member stays until its session ends or another process comes.   *)
StaticStays == [][JoinTimer => \A m \in Instance : phase'[m] # "gone"]_vars

(* Members that are in no generation that was begun without them: who has   *)
(* not joined it is not in it, unless it is static.                         *)
MembersJoined ==
    state \in {"CompletingRebalance", "Stable"} =>
        \A m \in In(phase) \ Statics : believes[m] = generation

(* A group that has members has a leader, which is one of them.             *)
LeaderIsMember == IF In(phase) = {} THEN leader = Nobody ELSE leader \in In(phase)

(* Who waits for an answer waits for what is coming: a join for the end of  *)
(* the rebalance, a sync for the assignment.                                *)
NobodyWaitsInVain ==
    \A m \in Members :
        /\ phase[m] \in {"new", "joining"} => state = "PreparingRebalance"
        /\ phase[m] = "syncing" => state = "CompletingRebalance" /\ leader # m
        /\ phase[m] = "in" => state \in {"PreparingRebalance", "Stable"}
        /\ phase[m] \in {"unsynced", "absent"} => state \in {"CompletingRebalance", "Stable"}

(* Who has joined a generation knows it, who has not is not told it.        *)
MembersKnow ==
    state \in {"CompletingRebalance", "Stable"} =>
        \A m \in In(phase) : (phase[m] # "absent") = (believes[m] = generation)

(* While a group rebalances nobody is assigned anything; what is assigned   *)
(* is assigned to members, and by eager ones all of it.                     *)
MembersAreAssigned ==
    \A p \in Partitions :
        IF state # "Stable" THEN assignment[p] = Nobody
        ELSE assignment[p] \in In(phase) \/ (Cooperative /\ assignment[p] = Nobody)

(* Who has asked for its assignment reads that, and nothing else; who joins *)
(* again, or takes the place of another process, has yet to ask.            *)
ReadsItsAssignment ==
    state = "Stable" => \A m \in Members : phase[m] = "in" =>
        \/ owned[m] = {p \in Partitions : assignment[p] = m}
        \/ owned[m] = {} /\ (~Cooperative \/ m \in Statics)

(* An eager member gives up what it reads before it joins.                  *)
EagerGivesUp ==
    ~Cooperative => \A m \in Members : phase[m] \in {"new", "joining"} => owned[m] = {}

(* A rebalance waits for somebody who may still come, or for the first ones *)
(* of a group, who have all just come.                                      *)
WaitsForSomebody ==
    /\ state = "PreparingRebalance" /\ ~initial => \E m \in Members : phase[m] \in {"pending", "in"}
    /\ initial => state = "PreparingRebalance" /\ \A m \in In(phase) : phase[m] = "new"

(* An id is used once, and a dynamic member is one only by an id that it    *)
(* was given before (KIP-394).                                              *)
IdsAreUsedOnce ==
    [][\A m \in Members :
        /\ phase[m] = "gone" => phase'[m] = "gone"
        /\ phase[m] = "none" => phase'[m] \in {"none", "pending"} \/ (m \in Statics /\ phase'[m] # "gone")
        /\ phase'[m] = "pending" => phase[m] \in {"none", "pending"}]_phase

(* Members stay: they go when they say so, when another process of theirs   *)
(* comes, or when they are silent for too long, but not while they wait for *)
(* an answer.                                                               *)
MembersStay ==
    [][\A m \in In(phase) : phase'[m] = "gone" =>
        \/ Leave(m) \/ (\E n \in Statics \ {m} : ReplaceStatic(n))
        \/ phase[m] \notin {"joining", "syncing"} /\ Expire(m)
        \/ phase[m] = "in" /\ state = "PreparingRebalance" /\ JoinTimer
        \/ phase[m] \in {"unsynced", "absent"} /\ SyncTimer]_phase

(* A partition that nobody is assigned is one that somebody has yet to give *)
(* up.                                                                      *)
LeftOutIsOwned ==
    [][state' = "Stable" /\ state # "Stable" =>
        \A p \in Partitions : assignment'[p] = Nobody => \E m \in Members : Owns(m, p)]_state

(* Assignments are made by the leader, once in a generation; but another    *)
(* process of a static member has that of the one before.                   *)
LeaderAssigns ==
    [][state' = "Stable" /\ assignment' # assignment =>
        IF state = "Stable" THEN \E m \in Statics : ReplaceStatic(m)
        ELSE state = "CompletingRebalance" /\ phase'[leader] = "in"]_assignment

(* A member of the generation reads on until it joins again, if it is eager,*)
(* or is told to give something up (KIP-429).                               *)
ReadsOn ==
    [][\A m \in Members : \A p \in owned[m] : IsCurrent(m) /\ p \notin owned'[m] =>
        \/ phase'[m] = "gone" \/ (phase'[m] = "in" /\ state' = "Stable")
        \/ ~Cooperative /\ \E news \in BOOLEAN : Join(m, news)]_owned

(* A commit that is under way is answered or lost, not replaced, and is of  *)
(* a partition that its member owned.                                       *)
CommitsItsOwn ==
    [][commit' \notin {commit, NoCommit} =>
        commit = NoCommit /\ commit'.partition \in owned[commit'.member]]_commit

(* What is taken is of nobody else's partition.                             *)
OnlyOwnersAreTaken ==
    [][TakeCommit => \A n \in Members \ {commit.member} : ~Owns(n, commit.partition)]_commit

(* Availability: who comes is let in, who is in may join again, hears again *)
(* what it missed without a rebalance for that, and may leave; timers end   *)
(* what is waited for in vain.                                              *)
Served ==
    /\ state = "PreparingRebalance" => ENABLED JoinTimer
    /\ \A m \in Members :
        /\ phase[m] = "none" =>
            IF m \notin Statics THEN ENABLED (AskId(m) /\ phase'[m] = "pending")
            ELSE ENABLED ((JoinStatic(m) \/ ReplaceStatic(m)) /\ phase'[m] # "none")
        /\ phase[m] = "pending" => ENABLED (JoinPending(m) /\ phase'[m] # "pending")
        /\ phase[m] \notin {"none", "gone"} => ENABLED (Leave(m) /\ phase'[m] = "gone")
        /\ phase[m] \notin {"none", "gone", "joining", "syncing"} =>
            ENABLED (Expire(m) /\ phase'[m] = "gone")
        /\ state = "PreparingRebalance" /\ phase[m] = "in" /\ m \notin Statics =>
            ENABLED (JoinTimer /\ phase'[m] = "gone")
        /\ phase[m] \in {"unsynced", "absent"} => ENABLED (SyncTimer /\ phase'[m] = "gone")
        /\ phase[m] \notin {"none", "pending", "gone"} /\ generation < MaxGeneration =>
            \A news \in BOOLEAN :
                IF news \/ state = "PreparingRebalance" \/ phase[m] = "absent"
                    \/ (state = "Stable" /\ leader = m)
                THEN ENABLED (Join(m, news) /\ (generation' > generation
                                                \/ phase'[m] \in {"new", "joining"}))
                ELSE ENABLED (Join(m, news) /\ state' = state /\ generation' = generation)
        /\ believes[m] > 0 /\ (phase[m] = "gone" \/ believes[m] # generation) =>
            ENABLED (Lose(m) /\ believes'[m] = 0 /\ owned'[m] = {})

(* And who is in a generation has its assignment for the asking, once the   *)
(* leader has said it, which it may.                                        *)
Assigned ==
    /\ state = "CompletingRebalance" =>
        ENABLED ((\E to \in [Partitions -> 0..M] : SyncLeader(leader, to)) /\ state' = "Stable")
    /\ \A m \in In(phase) : believes[m] = generation =>
        /\ state = "CompletingRebalance" /\ leader # m => ENABLED (Sync(m) /\ phase'[m] = "syncing")
        /\ state = "Stable" =>
            ENABLED (Sync(m) /\ phase'[m] = "in" /\ owned'[m] = {p \in Partitions : assignment[p] = m})

(* And may commit what it owns; but while the assignment is awaited that is *)
(* taken.                                                                   *)
CommitsAreServed ==
    /\ Commits /\ commit = NoCommit => \A m \in Members : \A p \in owned[m] :
        ENABLED (SendCommit(m, p) /\ commit' # NoCommit)
    /\ commit # NoCommit =>
        /\ ENABLED (LoseCommit /\ commit' = NoCommit)
        /\ Owns(commit.member, commit.partition) /\ commit.generation = generation
                /\ state # "CompletingRebalance" => Accepted(commit) /\ ENABLED (TakeCommit /\ commit' = NoCommit)

(* Liveness: when nobody comes any more, the group settles.                 *)
Settles == <>[](state = "Empty" \/ (state = "Stable" /\ \A m \in In(phase) : phase[m] = "in"))

-----------------------------------------------------------------------------
(* Probes: each must be violated, or the model never gets there. *)
NeverMissed == \A m \in In(phase) : believes[m] = 0 \/ believes[m] = generation
NeverRefusedCommit == commit = NoCommit \/ Accepted(commit)
NeverTwoMembers == state = "Stable" => Cardinality(In(phase)) < 2
NeverHandedOver == ~(state = "Stable" /\ generation > 2 /\ \E m \in Members : phase[m] = "gone")
=============================================================================
