----------------------------- MODULE ShareQueue -----------------------------
(* A queue, as a share group promises it: a record waits, is held by one    *)
(* member, and is done with once. It may be given again only when it was    *)
(* given back. None goes from waiting to done, which would be a loss; what  *)
(* retention or compaction takes is gone, whoever held it.                  *)
EXTENDS Integers

VARIABLES
    (* @type: Int -> Str; *) record, \* "waiting", "held", "done", or "gone"
    (* @type: Int -> Int; *) holder  \* who holds it, 0 for nobody

vars == <<record, holder>>

Init == \A o \in DOMAIN record : record[o] = "waiting" /\ holder[o] = 0

(* What one step may do to one record.                                      *)
Step(o) ==
    \/ record'[o] = record[o] /\ holder'[o] = holder[o]
    \/ record[o] = "waiting" /\ record'[o] = "held" /\ holder'[o] # 0
    \/ record[o] = "held" /\ record'[o] = "waiting"
    \/ record[o] = "held" /\ record'[o] = "done"
    \/ record[o] # "gone" /\ record'[o] = "gone"

Next == \A o \in DOMAIN record : Step(o)

Spec == Init /\ [][Next]_vars
=============================================================================
