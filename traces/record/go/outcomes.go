package recorder

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Refused for what the record is: an earlier attempt was refused as well.
var refusedRecord = codes(
	kerr.MessageTooLarge,
	kerr.RecordListTooLarge,
	kerr.InvalidTimestamp,
	kerr.InvalidRecord,
	kerr.UnsupportedForMessageFormat,
	kerr.UnsupportedCompressionType,
	kerr.InvalidTopicException,
)

// Refused by the group's coordinator as a whole.
var refusedCommit = codes(
	kerr.IllegalGeneration,
	kerr.InvalidGroupID,
	kerr.UnknownMemberID,
	kerr.RebalanceInProgress,
	kerr.GroupAuthorizationFailed,
	kerr.FencedInstanceID,
	kerr.FencedMemberEpoch,
	kerr.StaleMemberEpoch,
)

// Refused of one partition: others may have been committed.
var refusedPartition = codes(
	kerr.OffsetMetadataTooLarge,
	kerr.InvalidCommitOffsetSize,
	kerr.TopicAuthorizationFailed,
)

// Refused by the coordinator of transactions, if it answers the only request.
var refusedEnd = codes(
	kerr.InvalidProducerEpoch,
	kerr.ProducerFenced,
	kerr.TransactionAbortable,
	kerr.TransactionalIDAuthorizationFailed,
)

func codes(errs ...*kerr.Error) map[int16]bool {
	found := make(map[int16]bool, len(errs))
	for _, err := range errs {
		found[err.Code] = true
	}
	return found
}

// kafkas is the error of Kafka's protocol that an error is, or nil.
func kafkas(err error) *kerr.Error {
	if errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries) {
		return nil // with one that was only the last
	}
	known, _ := errors.AsType[*kerr.Error](err)
	return known
}

func among(err error, known map[int16]bool) bool {
	found := kafkas(err)
	return found != nil && known[found.Code]
}

// sendOutcome is the outcome of a record by the error of its promise.
//
// The client fails all that it holds for a partition with the error of one batch. That is certain
// of the others, too, if no broker takes a batch behind one that it refused: `ordered` says that
// the producer is idempotent, or has one request under way at a time.
func sendOutcome(err error, ordered bool) string {
	if errors.Is(err, kgo.ErrMaxBuffered) || ordered && among(err, refusedRecord) {
		return fail
	}
	return info
}

// commitOutcome is the outcome of offsets by the error of their commit, which is certain where one
// request was made, and is that of all partitions or of the only one.
func commitOutcome(err error, partitions int, requests int64) string {
	if requests > 1 {
		return info
	}
	if among(err, refusedCommit) || partitions == 1 && among(err, refusedPartition) {
		return fail
	}
	return info
}

// endOutcome is the outcome of a transaction's commit by its error, and the requests to end it.
func endOutcome(err error, requests int64) string {
	// Of a call that was given up, a request may still be on its way.
	neverAsked := requests == 0 && kafkas(err) != nil
	if neverAsked || requests == 1 && among(err, refusedEnd) {
		return fail
	}
	return info
}

// errorName is Kafka's own name of an error, or that of Go.
func errorName(err error) string {
	switch known, _ := errors.AsType[*kerr.Error](err); {
	case errors.Is(err, kgo.ErrRecordTimeout):
		return "ErrRecordTimeout"
	case errors.Is(err, kgo.ErrRecordRetries):
		return "ErrRecordRetries"
	case known == kerr.NotLeaderForPartition:
		return "NOT_LEADER_OR_FOLLOWER" // as it is called today
	case known != nil:
		return known.Message
	case errors.Is(err, context.Canceled):
		return "Canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "DeadlineExceeded"
	case errors.Is(err, kgo.ErrAborting):
		return "ErrAborting"
	case errors.Is(err, kgo.ErrMaxBuffered):
		return "ErrMaxBuffered"
	case errors.Is(err, kgo.ErrClientClosed):
		return "ErrClientClosed"
	}
	return fmt.Sprintf("%T", err)
}
