------------------------------ MODULE Apalache ------------------------------
(* What our specs use of the module that Apalache brings, in words that TLC *)
(* and SANY understand; Apalache has a meaning of its own for it.           *)
EXTENDS Naturals

(* F(1), F(2), ... as a sequence: to Apalache no function on 1..n is one.   *)
MkSeq(n, F(_)) == [i \in 1..n |-> F(i)]
=============================================================================
