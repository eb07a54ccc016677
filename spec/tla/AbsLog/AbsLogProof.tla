---------------------------- MODULE AbsLogProof ----------------------------
(* That readers see prefixes, by induction: for Apalache, which starts from *)
(* any state of the invariant. Three records at most, as in ok.cfg.         *)
EXTENDS AbsLog

Short == {Take(<<a, b, c>>, n) : a, b, c \in Records, n \in 0..3}

Inductive ==
    /\ committed \in Short
    /\ views \in [Readers -> Short]
    /\ ViewsArePrefixes
=============================================================================
