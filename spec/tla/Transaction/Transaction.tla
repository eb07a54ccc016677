---------------------------- MODULE Transaction -----------------------------
(* What a transaction is to those who use it: begun, decided once, and then *)
(* visible in all its partitions or in none.                                *)
(*                                                                          *)
(* A partition holds records of several transactions, and learns of each    *)
(* decision when it likes. Readers of committed records stop at the first   *)
(* record of which the partition has not learned yet (the last stable       *)
(* offset), and leave out what was aborted: so what they see only grows.    *)
(* TransactionCoordinator says what each of these variables is in Kafka.    *)
EXTENDS Logs, FiniteSets

CONSTANTS
    (* @type: Set(Int); *) Partitions,
    (* @type: Set(Int); *) Transactions,   \* numbered as they begin
    (* @type: Str; *)      Dropped         \* the rule that is left out, "none" as it should be

(* Dropped: "once", a decision is taken back; "decision", a partition ends a*)
(* transaction otherwise than was decided; "open", a record is written where*)
(* the transaction has ended; "told", somebody is told before the decision; *)
(* "stable", readers do not wait for the transactions before.               *)
ASSUME Dropped \in {"none", "once", "decision", "open", "told", "stable"}

VARIABLES
    (* @type: Set(Int); *)             begun,     \* transactions that were begun
    (* @type: Int -> Str; *)           decision,  \* per transaction: "none", "commit", "abort"
    (* @type: Int -> Seq(Int); *)      records,   \* per partition: the transaction of each record
    (* @type: Int -> (Int -> Str); *)  ended,     \* per partition and transaction: what the partition has learned
    (* @type: Int -> Str; *)           told       \* per transaction: what its producer was told

vars == <<begun, decision, records, ended, told>>

Undecided == [t \in Transactions |-> "none"]

Init ==
    /\ begun = {}
    /\ decision = Undecided
    /\ records = [p \in Partitions |-> <<>>]
    /\ ended = [p \in Partitions |-> Undecided]
    /\ told = Undecided

\* @type: (Int, Int) => Bool;
Wrote(t, p) == \E i \in 1..Len(records[p]) : records[p][i] = t

-----------------------------------------------------------------------------
Begin(t) ==
    /\ t \notin begun
    /\ begun' = begun \cup {t}
    /\ UNCHANGED <<decision, records, ended, told>>

(* One record for each partition: it stands for all of the transaction's.   *)
(* It may still arrive after the decision, before the partition learns of   *)
(* that: then it shares the decision.                                       *)
Write(t, p) ==
    /\ t \in begun
    /\ ~Wrote(t, p)
    /\ Dropped # "open" => ended[p][t] = "none"
    /\ records' = [records EXCEPT ![p] = Append(@, t)]
    /\ UNCHANGED <<begun, decision, ended, told>>

Decide(t, outcome) ==
    /\ t \in begun
    /\ Dropped # "once" => decision[t] = "none"
    /\ decision' = [decision EXCEPT ![t] = outcome]
    /\ UNCHANGED <<begun, records, ended, told>>

(* A partition learns of the decision.                                      *)
End(t, p) ==
    /\ decision[t] # "none"
    /\ ended[p][t] = "none"
    /\ ended' = [ended EXCEPT ![p][t] = IF Dropped = "decision" THEN "commit" ELSE decision[t]]
    /\ UNCHANGED <<begun, decision, records, told>>

(* The producer learns of it, before the partitions or after.               *)
Tell(t) ==
    /\ told[t] = "none"
    /\ IF Dropped = "told" THEN t \in begun ELSE decision[t] # "none"
    /\ told' = [told EXCEPT ![t] = IF Dropped = "told" THEN "commit" ELSE decision[t]]
    /\ UNCHANGED <<begun, decision, records, ended>>

Next ==
    \/ \E t \in Transactions : Begin(t) \/ Tell(t)
    \/ \E t \in Transactions, p \in Partitions : Write(t, p) \/ End(t, p)
    \/ \E t \in Transactions, outcome \in {"commit", "abort"} : Decide(t, outcome)

Steps == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What every refinement promises: Spec, as a whole. The steps above are one*)
(* way to keep it; a marker that ends several at once keeps it too.         *)

\* @type: (Int -> Str, Int -> Str) => Bool;
Stays(before, after) == \A t \in Transactions : before[t] # "none" => after[t] = before[t]
\* @type: (Int -> Str, Int -> Str) => Bool;
Follows(known, decided) == \A t \in Transactions : known[t] \in {"none", decided[t]}

DecidesOnce ==
    /\ begun \subseteq begun'
    /\ Stays(decision, decision')
    /\ \A t \in Transactions : decision'[t] # "none" => t \in begun'

(* What is written belongs to a transaction that the partition has not ended.*)
WritesWhileOpen ==
    \A p \in Partitions :
        /\ IsPrefix(records[p], records'[p])
        /\ \A i \in (Len(records[p]) + 1)..Len(records'[p]) :
            records'[p][i] \in begun /\ ended[p][records'[p][i]] = "none"

(* A partition ends a transaction as was decided, and only once.            *)
EndsAsDecided ==
    \A p \in Partitions : Stays(ended[p], ended'[p]) /\ Follows(ended'[p], decision')

TellsTheDecision == Stays(told, told') /\ Follows(told', decision')

Evolves == DecidesOnce /\ WritesWhileOpen /\ EndsAsDecided /\ TellsTheDecision
Spec == Init /\ [][Evolves]_vars

(* Committed in all its partitions, or aborted in all.                      *)
Atomic ==
    \A t \in Transactions, p, q \in Partitions :
        ended[p][t] = "none" \/ ended[q][t] \in {"none", ended[p][t]}

(* What a producer is told of its transaction is so, in each partition.     *)
ToldTruly ==
    \A t \in Transactions, p \in Partitions :
        told[t] = "none" \/ ended[p][t] \in {"none", told[t]}

-----------------------------------------------------------------------------
(* Readers of committed records *)

(* The records before the first one whose transaction has not ended here.   *)
\* @type: Int => Int;
LastStable(p) ==
    Max({n \in 0..Len(records[p]) : \A i \in 1..n : ended[p][records[p][i]] # "none"})

\* @type: Int => Seq(Int);
Visible(p) ==
    LET Committed(t) == ended[p][t] = "commit"
        end == IF Dropped = "stable" THEN Len(records[p]) ELSE LastStable(p)
    IN  SelectSeq(Take(records[p], end), Committed)

(* One partition, which is like any other: what its readers see is a log    *)
(* that only grows.                                                         *)
Abs == INSTANCE AbsLog WITH
    Readers <- {"reader"}, Records <- Transactions, MaxLength <- Cardinality(Transactions),
    LossAllowed <- FALSE, Dropped <- "none",
    committed <- Visible(1), views <- [reader \in {"reader"} |-> Visible(1)]
RefinesAbsLog == Abs!Spec

(* Nothing stands in the way of a decision: an open transaction can be      *)
(* decided, a decided one ended in each of its partitions, and told.        *)
Available ==
    \A t \in begun :
        /\ decision[t] = "none" =>
            \A outcome \in {"commit", "abort"} : ENABLED (Decide(t, outcome) /\ decision'[t] = outcome)
        /\ decision[t] # "none" =>
            /\ told[t] = "none" => ENABLED (Tell(t) /\ told'[t] = decision[t])
            /\ \A p \in Partitions :
                ended[p][t] = "none" => ENABLED (End(t, p) /\ ended'[p][t] = decision[t])

-----------------------------------------------------------------------------
(* Probes: states that must be reachable, or the promises say nothing.      *)
NeverInAll == \E p \in Partitions : Visible(p) = <<>>
NeverWaits == \A p \in Partitions, t \in Transactions : ended[p][t] = "commit" /\ Wrote(t, p) => Visible(p) # <<>>
NeverToldFirst == \A t \in Transactions, p \in Partitions : told[t] # "none" => ended[p][t] # "none"
NeverAborted == \A p \in Partitions : Len(Visible(p)) = LastStable(p)
=============================================================================
