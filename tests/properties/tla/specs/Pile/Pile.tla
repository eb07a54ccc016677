-------------------------------- MODULE Pile --------------------------------
(* Things are put on a pile, and one at most is taken away again. *)
EXTENDS Naturals, Sequences
CONSTANT Height
VARIABLE items

Init == items = <<>>
Put == Len(items) < Height /\ items' = Append(items, Len(items) + 1)
Next == Put
Grows == [][Len(items') >= Len(items)]_items
Spec == Init /\ [][Next]_items
Low == Len(items) < Height
=============================================================================
