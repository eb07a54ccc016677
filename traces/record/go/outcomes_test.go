package recorder

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWhatIsCertainOfACommit(t *testing.T) {
	for _, one := range []struct {
		err        error
		partitions int
		requests   int64
		outcome    string
	}{
		{kerr.IllegalGeneration, 3, 1, fail},
		{kerr.StaleMemberEpoch, 3, 1, fail},
		{kerr.UnknownMemberID, 3, 2, info}, // the first may have been taken
		{kerr.OffsetMetadataTooLarge, 1, 1, fail},
		{kerr.OffsetMetadataTooLarge, 2, 1, info},
		{kerr.RequestTimedOut, 1, 1, info},
		{context.Canceled, 1, 1, info},
	} {
		if found := commitOutcome(one.err, one.partitions, one.requests); found != one.outcome {
			t.Errorf("%+v: %s", one, found)
		}
	}
}

func TestWhatIsCertainOfTheEndOfATransaction(t *testing.T) {
	for _, one := range []struct {
		err      error
		requests int64
		outcome  string
	}{
		{kerr.OperationNotAttempted, 0, fail},
		{context.Canceled, 0, info}, // a request may be on its way
		{kerr.ProducerFenced, 1, fail},
		{kerr.ProducerFenced, 2, info},
		{kerr.UnknownServerError, 1, info},
		{kerr.CoordinatorNotAvailable, 1, info},
	} {
		if found := endOutcome(one.err, one.requests); found != one.outcome {
			t.Errorf("%+v: %s", one, found)
		}
	}
}

func TestErrorsHaveKafkasNames(t *testing.T) {
	for name, err := range map[string]error{
		"NOT_ENOUGH_REPLICAS":    fmt.Errorf("why: %w", kerr.NotEnoughReplicas),
		"NOT_LEADER_OR_FOLLOWER": kerr.NotLeaderForPartition,
		"ErrRecordRetries":       fmt.Errorf("%w, last err: %w", kgo.ErrRecordRetries, kerr.NotEnoughReplicas),
		"DeadlineExceeded":       context.DeadlineExceeded,
		"ErrClientClosed":        kgo.ErrClientClosed,
		"*errors.errorString":    errors.New("else"),
	} {
		if found := errorName(err); found != name {
			t.Errorf("%v: %s", err, found)
		}
	}
}
