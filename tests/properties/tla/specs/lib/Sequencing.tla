----------------------------- MODULE Sequencing -----------------------------
(* In lib/, to show that modules find their helpers there. *)
EXTENDS Naturals, Sequences

Ascends(s) == \A i, j \in 1..Len(s) : i < j => s[i] < s[j]
=============================================================================
