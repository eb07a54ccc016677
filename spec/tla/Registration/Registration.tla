---------------------------- MODULE Registration ----------------------------
(* Brokers that start, register, are heard of, shut down in good order or   *)
(* vanish, and one partition that they may lead. A process that was thought *)
(* dead may go on: a zombie, whose words arrive after its successor's. The  *)
(* broker epoch tells them apart: it grows with each process of a broker    *)
(* (KIP-380, KIP-631), so a process is named by it here.                    *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    (* @type: Int; *)  N,               \* brokers 1..N
    (* @type: Int; *)  MaxEpoch,        \* bound: processes of each broker
    (* @type: Bool; *) CheckEpoch,      \* heartbeats and farewells of another process than the registered one are refused
    (* @type: Bool; *) NewestRegisters, \* a process older than the registered one does not register
    (* @type: Bool; *) AwaitSession,    \* a newer one does not, as long as the session of the one before is alive
    (* @type: Bool; *) FenceNew,        \* who registers is fenced until it is heard of
    (* @type: Bool; *) FinalLeave,      \* who shuts down is not unfenced, joins no ISR and is not elected (KIP-841)
    (* @type: Bool; *) LeaveBeforeStop, \* who is let go neither leads nor is in the ISR, if another one can
    (* @type: Bool; *) LastStays        \* the last member of the ISR stays in it (KAFKA-708; see DurableIsr for the ELR)

Brokers == 1..N
Epochs == 1..MaxEpoch
Nobody == 0

VARIABLES
    (* @type: Int -> Int; *)        started,     \* per broker: its newest process
    (* @type: Int -> Int; *)        registered,  \* per broker: the process that the controller knows of, 0 for none
    (* @type: Set(Int); *)          alive,       \* brokers that are not fenced
    (* @type: Set(Int); *)          leaving,     \* brokers that shut down in good order
    (* @type: Set(<<Int, Int>>); *) stopped,     \* processes that were let go
    (* @type: Int; *) leader, (* @type: Set(Int); *) isr, \* the partition; Nobody leads while the leader is gone
    (* @type: Int; *)               elected,     \* ghost: the process as which the leader was elected, 0 for none
    (* @type: Int -> Int; *)        heard        \* ghost: per broker: the process that was heard of when it was unfenced

vars == <<started, registered, alive, leaving, stopped, leader, isr, elected, heard>>
partition == <<leader, isr, elected>>

Init ==
    /\ started = [b \in Brokers |-> 1]
    /\ registered = [b \in Brokers |-> 1]
    /\ alive = Brokers /\ leaving = {} /\ stopped = {}
    /\ leader = 1 /\ isr = Brokers /\ elected = 1
    /\ heard = [b \in Brokers |-> 1]

-----------------------------------------------------------------------------
Active == alive \ leaving
Runs(b, e) == e <= started[b] /\ <<b, e>> \notin stopped

(* A broker is gone: nobody leads where it led, and it leaves the ISR, of   *)
(* which the last member stays.                                             *)
Without(b) ==
    /\ leader' = IF leader = b THEN Nobody ELSE leader
    /\ elected' = IF leader = b THEN 0 ELSE elected
    /\ isr' = IF LastStays /\ isr = {b} THEN isr ELSE isr \ {b}

-----------------------------------------------------------------------------
(* Brokers *)

(* Another process starts, whatever has become of the one before.           *)
Start(b) ==
    /\ started[b] < MaxEpoch
    /\ started' = [started EXCEPT ![b] = @ + 1]
    /\ UNCHANGED <<registered, alive, leaving, stopped, partition, heard>>

(* Again by the same process, it changes nothing (KAFKA-16952).             *)
Register(b, e) ==
    /\ Runs(b, e)
    /\ e # registered[b]
    /\ NewestRegisters => e > registered[b]
    /\ AwaitSession => b \notin alive
    /\ registered' = [registered EXCEPT ![b] = e]
    /\ leaving' = leaving \ {b}
    /\ alive' = IF FenceNew THEN alive ELSE alive \cup {b}
    /\ UNCHANGED <<started, stopped, partition, heard>>

(* A heartbeat unfences; one that was sent before its sender was let go may *)
(* arrive after.                                                            *)
Heartbeat(b, e) ==
    /\ e <= started[b]
    /\ CheckEpoch => e = registered[b]
    /\ b \notin alive
    /\ FinalLeave => b \notin leaving
    /\ alive' = alive \cup {b}
    /\ heard' = [heard EXCEPT ![b] = e]
    /\ UNCHANGED <<started, registered, leaving, stopped, partition>>

(* A process asks to stop in good order.                                    *)
ShutDown(b, e) ==
    /\ Runs(b, e)
    /\ CheckEpoch => e = registered[b]
    /\ b \notin leaving
    /\ leaving' = leaving \cup {b}
    /\ IF LeaveBeforeStop THEN Without(b) ELSE UNCHANGED partition
    /\ UNCHANGED <<started, registered, alive, stopped, heard>>

(* It hears that it may: from then on it is fenced.                         *)
LetGo(b, e) ==
    /\ Runs(b, e) /\ e = registered[b]
    /\ b \in leaving
    /\ stopped' = stopped \cup {<<b, e>>}
    /\ alive' = alive \ {b}
    /\ UNCHANGED <<started, registered, leaving, partition, heard>>

-----------------------------------------------------------------------------
(* The controller *)

(* A session ends: the process is dead, or only not heard of.               *)
Expire(b) ==
    /\ b \in alive /\ alive' = alive \ {b}
    /\ Without(b)
    /\ UNCHANGED <<started, registered, leaving, stopped, heard>>

Elect(b) ==
    /\ leader = Nobody
    /\ b \in isr /\ b \in alive
    /\ FinalLeave => b \notin leaving
    /\ leader' = b /\ elected' = registered[b]
    /\ UNCHANGED <<started, registered, alive, leaving, stopped, isr, heard>>

(* The leader lets another broker into the ISR (see AlterPartition).        *)
Join(b) ==
    /\ leader # Nobody
    /\ b \notin isr /\ b \in alive
    /\ FinalLeave => b \notin leaving
    /\ isr' = isr \cup {b}
    /\ UNCHANGED <<started, registered, alive, leaving, stopped, leader, elected, heard>>

Next ==
    \/ \E b \in Brokers : Start(b)
    \/ \E b \in Brokers, e \in Epochs : Register(b, e)
    \/ \E b \in Brokers, e \in Epochs : Heartbeat(b, e)
    \/ \E b \in Brokers, e \in Epochs : ShutDown(b, e)
    \/ \E b \in Brokers, e \in Epochs : LetGo(b, e)
    \/ \E b \in Brokers : Expire(b)
    \/ \E b \in Brokers : Elect(b)
    \/ \E b \in Brokers : Join(b)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Promises *)

TypeOK ==
    /\ \A b \in Brokers : registered[b] <= started[b]
    /\ leader = Nobody \/ leader \in isr
    /\ isr # {}
    /\ \A p \in stopped : p[2] <= started[p[1]]

(* Broker epochs ascend: an older process never takes its broker back.      *)
EpochsAscend == [][\A b \in Brokers : registered'[b] >= registered[b]]_registered

(* Who is alive was heard of, as the process that is registered: a zombie   *)
(* keeps nobody's session up.                                               *)
AliveIsRegistered == \A b \in alive : heard[b] = registered[b]

(* Who leads was elected as the process that is registered: what one of its *)
(* predecessors had in memory, and was not flushed, is not counted on.      *)
LeaderIsRegistered == leader # Nobody => elected = registered[leader]

(* Who leads is alive, and stays.                                           *)
LeaderIsActive == leader # Nobody => leader \in Active

(* Who was let go is not alive, does not lead, and is in the ISR only as    *)
(* its last member: nothing waits for it.                                   *)
StoppedIsGone ==
    \A b \in Brokers :
        <<b, registered[b]>> \in stopped =>
            b \notin alive /\ leader # b /\ (b \in isr => leader = Nobody)

(* One decision follows on another as LeaderAndIsr wants it: what Truncation*)
(* assumes of the controller.                                               *)
Interface == INSTANCE Decisions WITH Replicas <- Brokers, Dropped <- "none"
KeepsToLeaderAndIsr ==
    [][/\ isr' # {}
       /\ Interface!Follows([leader |-> leader, isr |-> isr],
                            [leader |-> leader', isr |-> isr'], Active, {})]_<<leader, isr>>

(* A process that registers is not shutting down, and only the registered   *)
(* one shuts its broker down.                                               *)
StartsAfresh == [][\A b \in Brokers : registered'[b] = registered[b] \/ b \notin leaving']_registered
FarewellIsOwn == [][\A b \in Brokers, e \in Epochs : ShutDown(b, e) => e = registered[b]]_leaving

(* Nobody is stuck: who is in sync and active can lead, who is active can   *)
(* join the ISR; a broker that was not heard of can return, and a newer     *)
(* process of it register; who shuts down is let go, and who is not heard   *)
(* of is given up.                                                          *)
MayLead == (leader = Nobody /\ isr \cap Active # {}) => \E b \in Brokers : ENABLED Elect(b)
MayJoin == leader # Nobody => \A b \in Active \ isr : ENABLED <<Join(b)>>_isr
MayReturn ==
    \A b \in Brokers \ alive :
        /\ b \notin leaving => ENABLED <<Heartbeat(b, registered[b])>>_alive
        /\ started[b] > registered[b] => ENABLED <<Register(b, started[b])>>_registered
MayStop ==
    \A b \in Brokers :
        <<b, registered[b]>> \notin stopped =>
            IF b \in leaving THEN ENABLED <<LetGo(b, registered[b])>>_stopped
            ELSE ENABLED <<ShutDown(b, registered[b])>>_leaving
MayExpire == \A b \in alive : ENABLED <<Expire(b)>>_alive

-----------------------------------------------------------------------------
(* Probes *)
NeverZombie == \A b \in Brokers : started[b] = registered[b]
NeverStopped == stopped = {}
NeverOfflineByShutDown == ~(leader = Nobody /\ leaving # {} /\ \E b \in leaving : isr = {b})
NeverBack == \A b \in Brokers : ~(registered[b] > 1 /\ b \in isr /\ leader = b)
=============================================================================
