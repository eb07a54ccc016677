---------------------------- MODULE GroupOffsets ----------------------------
(* What a group has committed of one partition: who may commit, what a      *)
(* fetch answers, and when an offset goes by itself (KIP-211). The group is *)
(* a classic one; of its protocol only the phases are here (ClassicGroup    *)
(* has the rest), and that answers wait to be replicated is GroupLog's.     *)
EXTENDS Naturals

CONSTANTS
    (* @type: Int; *)  MaxGeneration,   \* bound: generations
    (* @type: Int; *)  MaxOffset,       \* bound: offsets 1..MaxOffset
    (* @type: Int; *)  MaxTopic,        \* bound: topics that bear the name, one after the other
    (* @type: Int; *)  Retention,       \* bound: offsets.retention.minutes, in ticks
    (* @type: Bool; *) Fenced,          \* a commit of another generation is refused
    (* @type: Bool; *) AwaitAssignment, \* so is one of a member that has not been given its assignment yet
    (* @type: Bool; *) KeptInUse,       \* an offset does not expire while members subscribe to its topic (KAFKA-4682)
    (* @type: Bool; *) KeptMeanwhile,   \* nor while members come and go, when nobody knows what they read (KAFKA-13636)
    (* @type: Bool; *) CountFromCommit, \* it is unused since it was committed, if that is later than the last member's end
    (* @type: Bool; *) SameTopic        \* a fetch answers no offset of another topic that bore the name (KAFKA-19154)

VARIABLES
    (* @type: Str; *)                  phase,      \* of the group: "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
    (* @type: Int; *)                  generation, \* 0: there is no group, or one that nobody ever joined
    (* @type: Bool; *)                 subscribed, \* whether the members read the topic
    (* @type: {value: Int, topic: Int, by: Int}; *) committed,  \* the offset, the topic that it is of, and ghost: the generation that it is by
    (* @type: Int; *)                  topic,      \* which topic bears the name
    (* @type: Int; *)                  age,        \* how long ago the commit was, up to Retention
    (* @type: Int; *)                  idle,       \* how long the group has been empty, up to Retention
    (* @type: Str; *)                  gone,       \* ghost: what took the last offset away: "", "expiry", "deletion", "topic"
    (* @type: Int; *)                  fetch       \* what a fetch answers, 0 for nothing

vars == <<phase, generation, subscribed, committed, topic, age, idle, gone, fetch>>
group == <<phase, generation, subscribed, idle>>
offset == <<committed, age, gone>>

None == [value |-> 0, topic |-> 0, by |-> 0]
Nobody == 0
Up(n) == IF n < Retention THEN n + 1 ELSE n

(* A fetch names the topic that bears the name.                             *)
Shows ==
    fetch' = IF committed'.value # 0 /\ (SameTopic => committed'.topic = topic')
             THEN committed'.value ELSE 0

Init ==
    /\ phase = "Empty" /\ generation = 0 /\ subscribed = FALSE /\ idle = Retention
    /\ committed = None /\ age = 0 /\ gone = ""
    /\ topic = 1 /\ fetch = 0

-----------------------------------------------------------------------------
(* The group *)

(* The first members join.                                                  *)
Join(s) ==
    /\ phase = "Empty"
    /\ generation < MaxGeneration
    /\ phase' = "PreparingRebalance" /\ subscribed' = s /\ idle' = 0
    /\ UNCHANGED <<generation, offset, topic>> /\ Shows

(* A member joins again, and the others have yet to.                        *)
Rejoin ==
    /\ phase = "Stable"
    /\ generation < MaxGeneration
    /\ phase' = "PreparingRebalance"
    /\ UNCHANGED <<generation, subscribed, idle, offset, topic>> /\ Shows

(* All have joined.                                                         *)
Complete ==
    /\ phase = "PreparingRebalance"
    /\ generation < MaxGeneration
    /\ phase' = "CompletingRebalance" /\ generation' = generation + 1
    /\ UNCHANGED <<subscribed, idle, offset, topic>> /\ Shows

(* The leader has assigned.                                                 *)
Sync ==
    /\ phase = "CompletingRebalance"
    /\ phase' = "Stable"
    /\ UNCHANGED <<generation, subscribed, idle, offset, topic>> /\ Shows

(* All members leave.                                                       *)
Leave ==
    /\ phase # "Empty"
    /\ generation < MaxGeneration
    /\ phase' = "Empty" /\ generation' = generation + 1
    /\ subscribed' = FALSE /\ idle' = 0
    /\ UNCHANGED <<offset, topic>> /\ Shows

-----------------------------------------------------------------------------
(* Offsets *)

(* A member of generation g commits; nobody's commit, with 0, counts as     *)
(* long as there are no members. Members still own what they had while the  *)
(* next generation is prepared.                                             *)
Commit(g, o) ==
    /\ g = Nobody => phase = "Empty"
    /\ g # Nobody => phase # "Empty"
    /\ Fenced /\ g # Nobody => g = generation
    /\ AwaitAssignment => phase # "CompletingRebalance"
    /\ committed' = [value |-> o, topic |-> topic, by |-> g]
    /\ age' = 0 /\ gone' = ""
    /\ UNCHANGED <<group, topic>> /\ Shows

(* OffsetDelete, which spares what is read (KIP-496).                       *)
Delete ==
    /\ phase \in {"Empty", "Stable"}
    /\ ~subscribed
    /\ committed # None
    /\ committed' = None /\ age' = 0 /\ gone' = "deletion"
    /\ UNCHANGED <<group, topic>> /\ Shows

Unused ==
    \/ /\ phase = "Empty" /\ idle >= Retention
       /\ CountFromCommit \/ generation = 0 => age >= Retention
    \/ /\ phase = "Stable" /\ ~subscribed /\ age >= Retention
    \/ ~KeptInUse /\ age >= Retention /\ phase = "Stable"
    \/ ~KeptMeanwhile /\ age >= Retention /\ phase \notin {"Empty", "Stable"}

(* The offset is unused for offsets.retention.minutes, and goes; with it a  *)
(* group that has no members.                                               *)
Expire ==
    /\ committed # None
    /\ Unused
    /\ committed' = None /\ age' = 0 /\ gone' = "expiry"
    /\ generation' = IF phase = "Empty" THEN 0 ELSE generation
    /\ idle' = IF phase = "Empty" THEN Retention ELSE idle
    /\ UNCHANGED <<phase, subscribed, topic>> /\ Shows

-----------------------------------------------------------------------------
(* The world *)

(* Time passes.                                                             *)
Tick ==
    /\ \/ committed # None /\ age < Retention
       \/ phase = "Empty" /\ idle < Retention
    /\ age' = IF committed # None THEN Up(age) ELSE age
    /\ idle' = IF phase = "Empty" THEN Up(idle) ELSE idle
    /\ UNCHANGED <<phase, generation, subscribed, committed, topic, gone>> /\ Shows

(* The topic is deleted, and another one made of the name (KAFKA-2000).     *)
RecreateTopic ==
    /\ topic < MaxTopic
    /\ topic' = topic + 1
    /\ IF committed.topic = topic
       THEN committed' = None /\ age' = 0 /\ gone' = "topic"
       ELSE UNCHANGED offset
    /\ UNCHANGED group /\ Shows

(* Likewise while the group had no coordinator: nobody noticed.             *)
RecreateUnseen ==
    /\ topic < MaxTopic
    /\ topic' = topic + 1
    /\ UNCHANGED <<group, offset>> /\ Shows

(* Another coordinator takes over, and has what was written down.           *)
Reload ==
    /\ phase \in {"Empty", "Stable"}
    /\ UNCHANGED vars

Next ==
    \/ \E s \in BOOLEAN : Join(s)
    \/ Rejoin
    \/ Complete
    \/ Sync
    \/ Leave
    \/ \E g \in 0..MaxGeneration, o \in 1..MaxOffset : Commit(g, o)
    \/ Delete
    \/ Expire
    \/ Tick
    \/ RecreateTopic
    \/ RecreateUnseen
    \/ Reload

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

(* What is committed is of the generation that is there, or of nobody in a  *)
(* group without members.                                                   *)
CommitsOfThisGeneration ==
    [][committed'.by # committed.by /\ committed' # None
        => committed'.by = IF phase = "Empty" THEN Nobody ELSE generation]_vars

(* And of members that know what they own.                                  *)
CommitsAfterAssignment ==
    [][committed'.by # committed.by /\ committed'.by # Nobody
        => phase # "CompletingRebalance"]_vars

Expires == gone' = "expiry" /\ committed # None /\ committed' = None

(* Nothing expires that members read, or may be about to read.              *)
NothingExpiresInUse ==
    [][Expires => phase = "Empty" \/ (phase = "Stable" /\ ~subscribed)]_vars

(* Nothing expires before its time, counted from its commit.                *)
NothingExpiresEarly == [][Expires => age >= Retention]_vars

(* Nobody begins to read a topic where he was in another one.               *)
FetchedOfThisTopic == fetch # 0 => committed.topic = topic

(* The phases follow each other as in Kafka's ClassicGroupState; all may    *)
(* leave at any time.                                                       *)
Turns(before, after) == phase = before /\ phase' = after
PhasesInOrder ==
    [][\/ phase' = "Empty"
       \/ Turns("Empty", "PreparingRebalance")
       \/ Turns("Stable", "PreparingRebalance")
       \/ Turns("CompletingRebalance", "PreparingRebalance")
       \/ Turns("PreparingRebalance", "CompletingRebalance")
       \/ Turns("CompletingRebalance", "Stable")]_phase

(* A generation begins when all have joined, or all have left; it ends with *)
(* the group, when the offset of one without members expires.               *)
GenerationsInOrder ==
    [][generation' = IF phase' # phase /\ phase' \in {"CompletingRebalance", "Empty"}
                     THEN generation + 1
                     ELSE IF Expires /\ phase = "Empty" THEN 0 ELSE generation]_vars

(* Nobody's subscription holds an offset, and only while nobody is there    *)
(* the time runs after which one goes.                                      *)
EmptyReadsNothing == phase = "Empty" => ~subscribed
IdleWhileEmpty == phase # "Empty" => idle = 0

(* OffsetDelete takes away nothing that members read, or may be about to.   *)
DeletesNothingRead ==
    [][gone' = "deletion" /\ gone # "deletion" => phase \in {"Empty", "Stable"} /\ ~subscribed]_gone

(* What goes was there, and is gone; with the topic only when that goes.    *)
GoesOnce ==
    [][gone' \notin {"", gone} =>
        /\ committed # None /\ committed' = None
        /\ gone' = "topic" => topic' # topic]_vars
GoneIsNotThere == committed # None => gone = ""

(* An offset's age is counted from its commit. *)
AgeFromCommit == [][committed' # committed => age' = 0]_vars

(* Availability: members may join again, be assigned, leave, and commit as  *)
(* of their generation; and what nobody reads may be deleted.               *)
Available ==
    /\ phase = "Stable" /\ generation < MaxGeneration => ENABLED (Rejoin /\ phase' # phase)
    /\ phase = "CompletingRebalance" => ENABLED Sync
    /\ phase # "Empty" /\ generation < MaxGeneration => ENABLED Leave
    /\ phase = "Empty" => ENABLED Commit(Nobody, 1)
    /\ phase \in {"Stable", "PreparingRebalance"} /\ generation > 0 => ENABLED Commit(generation, 1)
    /\ phase \in {"Empty", "Stable"} /\ ~subscribed /\ committed # None =>
        ENABLED (Delete /\ committed' = None /\ gone' = "deletion")

-----------------------------------------------------------------------------
(* Probes *)
NeverExpires == gone # "expiry"
NeverExpiresInStable == ~(gone = "expiry" /\ phase = "Stable")
NeverOfAnotherTopic == ~(committed # None /\ committed.topic # topic)
NeverByAnother == ~(committed.by # 0 /\ committed.by # generation /\ phase = "Stable")
=============================================================================
