--------------------------- MODULE ControllerProof ---------------------------
(* Why the store's conditional writes are enough: whatever sessions end,    *)
(* processes outlive them and answers are lost, an epoch has one            *)
(* controller, no write of a deposed one takes effect, and brokers are told *)
(* what is in force.                                                        *)
EXTENDS Controller, Ranges

-----------------------------------------------------------------------------
(* What the variables range over; each step is shown to stay inside.        *)
Decision ==
    [leader : Brokers, epoch : 1..MaxLeaderEpoch, by : 0..MaxControllerEpoch]

InRange ==
    /\ live \in SUBSET (Brokers \X Sessions)
    /\ node \in [broker : 0..N, session : 0..MaxSessions]
    /\ controllerEpoch \in 0..MaxControllerEpoch
    /\ state \in Decision
    /\ session \in [Brokers -> Sessions]
    /\ watch \in [Brokers -> {"unread", "armed", "fired", "deaf"}]
    /\ role \in [Brokers -> {"follower", "candidate", "unsure", "raising", "controller"}]
    /\ fence \in [Brokers -> 0..MaxControllerEpoch]
    /\ read \in [Brokers -> 0..MaxLeaderEpoch]
    /\ sent \in SUBSET Decision
    /\ heard \in Decision
    /\ won \in SUBSET [epoch : 1..MaxControllerEpoch, broker : Brokers, session : Sessions]
    /\ lost \in 0..MaxLost

-----------------------------------------------------------------------------
(* Sessions and the node *)

(* A session that lives was opened: none is newer than its broker's.        *)
LiveIsOpened == \A p \in live : p[2] <= session[p[1]]

(* The node goes with its session, and came with an epoch.                  *)
NodeIsLive ==
    node = Nobody \/ (<<node.broker, node.session>> \in live /\ controllerEpoch > 0)

-----------------------------------------------------------------------------
(* Epochs *)

(* Nobody counts on more than the store has.                                *)
StoreIsAhead ==
    /\ state.by <= controllerEpoch
    /\ \A b \in Brokers : fence[b] <= controllerEpoch /\ read[b] <= state.epoch
    /\ \A w \in won : w.epoch <= controllerEpoch

(* Who won the store's epoch is the session that has the node.              *)
NodeHasWon ==
    node # Nobody =>
        \A w \in won : w.epoch = controllerEpoch =>
            w.broker = node.broker /\ w.session = node.session

(* Who has the node counts on the store's epoch, once it knows.             *)
OwnerCountsOnIt ==
    \A b \in Brokers : (role[b] = "controller" /\ node = Mine(b)) => fence[b] = controllerEpoch

-----------------------------------------------------------------------------
(* Who watches *)

NobodyIsDeaf == \A b \in Brokers : watch[b] # "deaf" /\ role[b] # "raising"

(* Whose answer was lost looks again before anything else.                  *)
UnsureLooks == \A b \in Brokers : role[b] = "unsure" => watch[b] = "unread"

(* Who has the node is controller, or was not answered.                     *)
OwnerKnows == \A b \in Brokers : node = Mine(b) => role[b] \in {"controller", "unsure"}

(* Where nobody has the node, who watches wants it.                         *)
WatchersAreCandidates ==
    node = Nobody => \A b \in Brokers : watch[b] = "armed" => role[b] = "candidate"

(* A candidate that is still waiting for news has seen the newest election. *)
CandidatesAreCurrent ==
    \A b \in Brokers : (role[b] = "candidate" /\ watch[b] = "armed") => fence[b] = controllerEpoch

-----------------------------------------------------------------------------
(* What brokers are told *)

(* Nothing is told that was not in force, and of the newest decision what   *)
(* it is.                                                                   *)
SentIsTrue ==
    \A m \in sent : m.epoch <= state.epoch /\ (m.epoch = state.epoch => m.leader = state.leader)

-----------------------------------------------------------------------------
(* Steps: ControllerEpochAscends, LeaderEpochAscends and NeverBack.         *)
EpochOfWritesAscends == state' = state \/ state'.by >= state.by
DecisionsAscend == state' = state \/ state'.epoch > state.epoch
NobodyGoesBack == heard' = heard \/ (heard'.by >= heard.by /\ heard'.epoch >= heard.epoch)
=============================================================================
