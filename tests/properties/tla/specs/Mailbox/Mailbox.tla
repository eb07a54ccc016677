------------------------------- MODULE Mailbox -------------------------------
(* Clerks post numbered letters; the postman delivers them, perhaps in order.  *)
(* Small, and yet: an action over a set that depends on the state, sets of     *)
(* records, a function on strings, a helper module, a refinement, liveness.    *)
EXTENDS Sequencing, FiniteSets

CONSTANTS
    Clerks,   \* who posts
    Letters,  \* bound: letters posted
    Ordered   \* the postman takes the oldest letter first

ASSUME Letters > 0

VARIABLES
    posted,   \* per clerk: how many letters
    bag,      \* letters under way
    shelf     \* numbers of the letters delivered

vars == <<posted, bag, shelf>>

Init ==
    /\ posted = [c \in Clerks |-> 0]
    /\ bag = {}
    /\ shelf = <<>>

Count == Cardinality(bag) + Len(shelf)
Oldest(letter) == \A other \in bag : letter.number <= other.number

(* The guard is true in two ways at first, and TLC then takes the step twice. *)
Post(c) ==
    /\ Count < Letters \/ Count = 0
    /\ posted' = [posted EXCEPT ![c] = @ + 1]
    /\ bag' = bag \cup {[from |-> c, number |-> Count + 1]}
    /\ UNCHANGED shelf

Deliver(letter) ==
    /\ letter \in bag
    /\ Ordered => Oldest(letter)
    /\ bag' = bag \ {letter}
    /\ shelf' = Append(shelf, letter.number)
    /\ UNCHANGED posted

(* Some letters are lost, nobody knows how many; only with many letters. *)
Drop ==
    /\ Letters > 2 /\ Len(shelf) = Letters
    /\ \E kept \in 0..Len(shelf) - 1 : shelf' = SubSeq(shelf, 1, kept)
    /\ UNCHANGED <<posted, bag>>

Next ==
    \/ \E c \in Clerks : Post(c)
    \/ \E letter \in bag : Deliver(letter)
    \/ Drop

Spec == Init /\ [][Next]_vars
Fair == Spec /\ WF_vars(Next)

InOrder == Ascends(shelf)
NeverTwoUnderWay == Cardinality(bag) < 2
NothingLost == [][Len(shelf') >= Len(shelf)]_shelf
AllArrive == <>(Len(shelf) = Letters)

Pile == INSTANCE Pile WITH items <- shelf, Height <- Letters
PileGrows == Pile!Grows
IsPile == Pile!Spec
=============================================================================
