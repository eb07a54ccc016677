package recorder

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestASessionThatAbortsByItselfSaysWhatBecameOfItsCommit(t *testing.T) {
	for name, one := range map[string]struct {
		sees        bool // that the session asks for a commit
		ends, inits int64
		committed   bool
		err         error
		calls       []string
	}{
		"commits":          {true, 1, 0, true, nil, []string{"txn_offsets ok", "txn_commit ok"}},
		"aborts at once":   {false, 1, 0, false, nil, []string{"txn_abort ok"}},
		"aborts afterward": {true, 1, 0, false, nil, []string{"txn_offsets info", "txn_commit fail", "txn_abort ok"}},
		"ends twice":       {true, 2, 0, false, nil, []string{"txn_offsets info", "txn_commit info", "txn_abort ok"}},
		"gets another id":  {true, 1, 1, false, nil, []string{"txn_offsets info", "txn_commit info", "txn_abort ok"}},
		"fails":            {true, 1, 0, false, errors.New("over"), []string{"txn_offsets info", "txn_commit info", "txn_abort info"}},
	} {
		made, run := newRecorder(t, "s", CommitOrder("transaction"))
		opts := made.Opts(append(group[:2:2], nobody, kgo.TransactionalID("x"))...)
		s, err := WrapSession(kgo.NewGroupTransactSession(opts...))
		if err != nil {
			t.Fatal(err)
		}
		s.transactions.open, s.transactions.begun = true, 1
		mine := s.ask()
		if one.sees {
			part := kmsg.TxnOffsetCommitRequestTopicPartition{Partition: 1, Offset: 7}
			topics := []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{part}}}
			mine.asked(&kmsg.TxnOffsetCommitRequest{Group: "g", Topics: topics})
		}
		s.observer.requests[endTxn].Add(one.ends)
		s.observer.requests[initProducerID].Add(one.inits)
		mine.done(one.committed, one.err)
		if s.transactions.open != (one.err != nil) {
			t.Error(name, "the transaction is open:", s.transactions.open)
		}
		ops, outcomes := []string{}, map[string]string{}
		for _, line := range lines(t, journalOf(run, "s-producer#0")) {
			if seq := fmt.Sprint(line["seq"]); line["seq"] != nil {
				if line["op"] != nil {
					ops = append(ops, seq+" "+fmt.Sprint(line["op"]))
				}
				if line["outcome"] != nil {
					outcomes[seq] = fmt.Sprint(line["outcome"])
				}
			}
		}
		found := []string{}
		for n, op := range ops {
			found = append(found, op[2:]+" "+outcomes[fmt.Sprint(n)])
		}
		if !reflect.DeepEqual(found, one.calls) {
			t.Error(name, found)
		}
		s.Close()
	}
}
