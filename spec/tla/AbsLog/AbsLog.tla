------------------------------- MODULE AbsLog -------------------------------
(* The top floor: what a partition is to those who use it.                  *)
(*                                                                          *)
(* One log that only grows. Every reader sees a prefix of it. A record that *)
(* was committed once is gone only by the step Lose, and Lose happens only  *)
(* where an assumption says so out loud (unclean election, too few replicas *)
(* left, acks=1). Every other module is measured against this one: it says  *)
(* what its `committed` and its `views` are, and promises to evolve as here.*)
EXTENDS Logs

CONSTANTS
    (* @type: Set(Int); *) Readers,      \* whoever looks at the log
    (* @type: Set(Int); *) Records,      \* what can be written into it
    (* @type: Int; *)      MaxLength,    \* a bound for the model
    (* @type: Bool; *)     LossAllowed,  \* TRUE where the configuration permits that committed records vanish
    (* @type: Str; *)      Dropped       \* the rule that is left out, "none" as it should be

(* Dropped: "prefix", a reader sees something of its own; "suffix", what is  *)
(* lost is replaced in the same step.                                       *)
ASSUME Dropped \in {"none", "prefix", "suffix"}

VARIABLES
    (* @type: Seq(Int); *)        committed,    \* the log
    (* @type: Int -> Seq(Int); *) views         \* what each reader has in front of it

vars == <<committed, views>>

Init ==
    /\ committed = <<>>
    /\ views = [reader \in Readers |-> <<>>]

(* A record is committed: it goes behind all others. *)
Commit(record) ==
    /\ Len(committed) < MaxLength
    /\ committed' = Append(committed, record)
    /\ UNCHANGED views

Seen(length) ==
    IF Dropped = "prefix" /\ length > 0 THEN Append(Take(committed, length - 1), 0)
    ELSE Take(committed, length)

(* A reader looks: at any prefix, for the replica that answers may lag.     *)
Observe(reader, length) ==
    /\ length <= Len(committed)
    /\ views' = [views EXCEPT ![reader] = Seen(length)]
    /\ UNCHANGED committed

Left(length) ==
    IF Dropped = "suffix" THEN Append(Take(committed, length), 0) ELSE Take(committed, length)

(* The end of the log is lost; readers who saw it are moved back.           *)
Lose(length) ==
    /\ LossAllowed
    /\ length < Len(committed)
    /\ committed' = Left(length)
    /\ views' = [reader \in Readers |->
                    Take(views[reader], Min({length, Len(views[reader])}))]

Next ==
    \/ \E record \in Records : Commit(record)
    \/ \E reader \in Readers, length \in 0..MaxLength : Observe(reader, length)
    \/ \E length \in 0..MaxLength : Lose(length)

Steps == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What every refinement promises: Spec, as a whole. The steps above are    *)
(* one way to keep it; a module with larger steps (a high watermark that    *)
(* jumps) keeps it too.                                                     *)

(* No reader sees what the log does not hold. *)
ViewsArePrefixes == \A reader \in Readers : IsPrefix(views[reader], committed)

(* What is committed stays, in its place. Where loss is allowed the log may *)
(* also shrink, but is never rewritten.                                     *)
Grows == IsPrefix(committed, committed')
Shrinks == LossAllowed /\ IsPrefix(committed', committed)

Evolves == (Grows \/ Shrinks) /\ ViewsArePrefixes'
Spec == Init /\ [][Evolves]_vars

AppendOnly == [][Grows]_committed

-----------------------------------------------------------------------------
(* Probes: states that must be reachable, or the promises say nothing.      *)
NeverBehind == \A reader \in Readers : views[reader] = <<>> \/ views[reader] = committed
=============================================================================
