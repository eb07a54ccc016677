-------------------------- MODULE TransactionProof ---------------------------
(* Why a transaction that is decided once ends alike everywhere, and why    *)
(* what readers of committed records see only grows.                        *)
EXTENDS Transaction, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
Outcomes == {"none", "commit", "abort"}

InRange ==
    /\ begun \in SUBSET Transactions
    /\ decision \in [Transactions -> Outcomes]
    /\ records \in [Partitions -> SeqOf(Transactions, 0, Cardinality(Transactions))]
    /\ ended \in [Partitions -> [Transactions -> Outcomes]]
    /\ told \in [Transactions -> Outcomes]

-----------------------------------------------------------------------------
DecidedIsBegun == \A t \in Transactions : decision[t] # "none" => t \in begun

(* Who knows of an end knows the decision.                                  *)
EndsAreDecided == \A p \in Partitions : Follows(ended[p], decision)
ToldIsDecided == Follows(told, decision)

WrittenOnce ==
    \A p \in Partitions : \A j \in 1..Len(records[p]) : \A i \in 1..(j - 1) : records[p][i] # records[p][j]

(* RefinesAbsLog, of every partition, as a step.                            *)
VisibleGrows == \A p \in Partitions : IsPrefix(Visible(p), Visible(p)')
=============================================================================
