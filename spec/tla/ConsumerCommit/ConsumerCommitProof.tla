------------------------- MODULE ConsumerCommitProof -------------------------
(* Why the generation fence keeps a group from going back, and, with the    *)
(* application's order of commit and work, from skipping or repeating.      *)
EXTENDS ConsumerCommit, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
InRange ==
    /\ generation \in 0..MaxGeneration
    /\ owner \in 0..M
    /\ committed \in 0..LogEnd
    /\ joined \in [Members -> 0..MaxGeneration]
    /\ position \in [Members -> 0..LogEnd]
    /\ done \in [Members -> 0..LogEnd]
    /\ last \in [Members -> 0..MaxGeneration]
    /\ requests \in SUBSET [member : Members, generation : 1..MaxGeneration,
                            offset : 1..LogEnd, answered : BOOLEAN]
    /\ processed \in [Records -> 0..MaxProcessed]

TypeOK ==
    /\ owner \in Members \cup {Nobody}
    /\ committed \in 0..LogEnd
    /\ \A m \in Members : done[m] <= position[m] /\ position[m] <= LogEnd

-----------------------------------------------------------------------------
(* Who owns the partition *)

Requested == \A c \in requests : c.offset <= LogEnd

Joined == \A m \in Members : last[m] <= generation /\ joined[m] \in {0, last[m]}
PolledOne == \A m \in Members : done[m] <= position[m] /\ position[m] <= done[m] + 1

(* A generation belongs to one member. *)
LastIsOwner == \A m \in Members : (last[m] = generation /\ generation > 0) => m = owner
OneJoins == \A m, n \in Members : (last[m] = last[n] /\ last[m] > 0) => m = n
SentInGeneration ==
    \A c \in requests :
        /\ 1 <= c.generation /\ c.generation <= last[c.member]
        /\ \A m \in Members : last[m] = c.generation => m = c.member

(* Nobody commits what it has not reached. *)
SentWhatItReached ==
    \A c \in requests : \A m \in Members :
        joined[m] = c.generation => c.offset <= Offset(m)

(* What the owner may commit next is not behind what is committed. *)
OwnerIsAhead ==
    \A m \in Members : (joined[m] = generation /\ generation > 0) => committed <= Offset(m)

(* A commit of this generation goes forward, or was overtaken. *)
CommitsGoForward ==
    \A c \in requests : c.generation = generation =>
        \/ c.offset >= committed
        \/ \E d \in requests : d.answered /\ Same(c, d) /\ d.offset > c.offset

CommittedNeverFalls == committed' >= committed

(* At least once: CommitWhen = "after" *)
OfferedIsProcessed == \A c \in requests : \A o \in Records : o <= c.offset => processed[o] >= 1
DoneIsProcessed ==
    \A m \in Members : joined[m] > 0 => \A o \in Records : o <= done[m] => processed[o] >= 1

(* At most once: CommitWhen = "before" *)
AnsweredIsCommitted == \A c \in requests : c.answered => c.offset <= committed
JoinedBehindAnswered ==
    \A c \in requests : \A m \in Members :
        (c.answered /\ joined[m] > c.generation) => c.offset <= done[m]
ProcessedByOne ==
    \A o \in Records : processed[o] >= 1 =>
        \E c \in requests :
            /\ c.answered /\ c.offset = o
            /\ \A m \in Members : joined[m] = c.generation => done[m] >= o
            /\ \A d \in requests : (d.answered /\ d.generation < c.generation) => d.offset < o
=============================================================================
