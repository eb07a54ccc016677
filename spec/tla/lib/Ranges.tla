------------------------------- MODULE Ranges -------------------------------
(* What a variable ranges over, where TLA+ itself has only infinite sets.   *)
EXTENDS Naturals

(* Sequences of elements of S, of at least `least` and at most `most`.      *)
SeqOf(S, least, most) == UNION {[1..n -> S] : n \in least..most}
=============================================================================
