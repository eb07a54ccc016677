package recorder

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestASendIsWrittenBeforeItIsMadeAndItsReportAfterwards(t *testing.T) {
	made, run := newRecorder(t, "p")
	c := client(t, made.Opts()...)
	o := observerOf(c)
	stored := &kgo.Record{Topic: "t", Key: []byte("k")}
	refused := &kgo.Record{Topic: "t"}
	lost := &kgo.Record{Topic: "t"}
	for _, record := range []*kgo.Record{stored, refused, lost} {
		o.OnProduceRecordBuffered(record)
	}
	stored.Partition, stored.Offset = 2, 7
	o.OnProduceRecordUnbuffered(stored, nil)
	o.OnProduceRecordUnbuffered(refused, fmt.Errorf("%w (more)", kerr.MessageTooLarge))
	o.OnProduceRecordUnbuffered(lost, kgo.ErrRecordTimeout)
	first := o.producing.Load().firstID
	c.Close()

	tags := []string{}
	for _, one := range lines(t, journalOf(run, "p#0")) {
		switch {
		case one["op"] == "describe_topics":
		case one["tag"] != nil:
			tags = append(tags, one["tag"].(string))
		case one["outcome"] != nil:
			tags = append(tags, fmt.Sprint(one["outcome"], " ", one["error"]))
		}
	}
	expected := []string{tagKeyed, tagSent, tagSent, tagReported, "fail MESSAGE_TOO_LARGE", "info ErrRecordTimeout", "ok <nil>"}
	if !reflect.DeepEqual(tags, expected) {
		t.Error(tags)
	}
	for seq, record := range []*kgo.Record{stored, refused, lost} {
		if id := idIn(record); id != first+int64(seq) {
			t.Errorf("the id of send %d is %d", seq, id-first)
		}
	}
}

func TestAHeaderIsAddedAndNobodyElsesIsTouched(t *testing.T) {
	shared := make([]kgo.RecordHeader, 1, 8)
	shared[0] = kgo.RecordHeader{Key: "trace", Value: []byte("x")}
	one, other := &kgo.Record{Headers: shared}, &kgo.Record{Headers: shared}
	mark(one, 1)
	mark(other, 2)
	if idIn(one) != 1 || idIn(other) != 2 || shared[:2][1].Key != "" {
		t.Error("records that share headers share an id")
	}
	mark(one, 3)
	if idIn(one) != 3 || len(one.Headers) != 2 || one.Headers[0].Key != "trace" {
		t.Error("a record that is sent again keeps its former id", one.Headers)
	}
}

func TestOwnIDsAreKept(t *testing.T) {
	given := []any{7, "seven", nil, uint8(8)}
	turn := -1
	made, run := newRecorder(t, "p", ID(func(*kgo.Record) any {
		if turn++; turn == len(given) {
			panic("no id")
		}
		return given[turn]
	}))
	c := client(t, made.Opts()...)
	o := observerOf(c)
	for range 5 {
		record := &kgo.Record{Topic: "t"}
		o.OnProduceRecordBuffered(record)
		if len(record.Headers) > 0 {
			t.Error("a record with an id of its own gets a header")
		}
		o.OnProduceRecordUnbuffered(record, errors.New("over"))
	}
	c.Close()
	found := lines(t, journalOf(run, "p#0"))
	if ids, isThere := found[0]["ids"]; ids != nil || !isThere {
		t.Error(found[0])
	}
	ids, answers := []string{}, 0
	for _, one := range found {
		switch {
		case one["tag"] == tagSent:
			ids = append(ids, fmt.Sprint(little.Uint64(one["body"].([]byte)[20:])))
		case one["op"] == "send":
			ids = append(ids, fmt.Sprint(one["records"].([]any)[0].(map[string]any)["id"]))
		case one["error"] != nil:
			answers++
		}
	}
	if !reflect.DeepEqual(ids, []string{"7", "seven", "<nil>", "8", "<nil>"}) || answers != 5 {
		t.Error(ids, answers)
	}
}

func TestAMistakeOfTheRecorderIsOneWarningAndNoneOfTheApplications(t *testing.T) {
	made, _ := newRecorder(t, "p")
	c := client(t, made.Opts()...)
	said := warnings(t)
	o := observerOf(c)
	for range 3 {
		o.OnProduceRecordBuffered(nil)
	}
	if strings.Count(said.String(), "p#0.journal: recording has stopped") != 1 {
		t.Error(said)
	}
}

func TestWhatIsCertainOfASend(t *testing.T) {
	for _, one := range []struct {
		err     error
		ordered bool
		outcome string
	}{
		{kerr.MessageTooLarge, true, fail},
		{kerr.InvalidRecord, true, fail},
		// A batch behind that of the error may have been stored.
		{kerr.MessageTooLarge, false, info},
		{kgo.ErrMaxBuffered, false, fail},
		{kerr.NotEnoughReplicas, true, info},
		{kerr.NotLeaderForPartition, true, info},
		{kerr.RequestTimedOut, true, info},
		{kgo.ErrClientClosed, true, info},
		{kgo.ErrAborting, true, info},
		{fmt.Errorf("%w, last err: %w", kgo.ErrRecordTimeout, kerr.InvalidTopicException), true, info},
	} {
		if found := sendOutcome(one.err, one.ordered); found != one.outcome {
			t.Errorf("%v, %v: %s", one.err, one.ordered, found)
		}
	}
}

func TestASendWithoutAcknowledgementsIsOfUnknownOutcome(t *testing.T) {
	for acks, outcome := range map[kgo.Acks]string{kgo.NoAck(): info, kgo.AllISRAcks(): ok} {
		made, run := newRecorder(t, "p")
		opts := []kgo.Opt{kgo.RequiredAcks(acks)}
		if acks == kgo.NoAck() {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		c := client(t, made.Opts(opts...)...)
		record := &kgo.Record{Topic: "t"}
		observerOf(c).OnProduceRecordBuffered(record)
		record.Partition, record.Offset = 2, -1
		observerOf(c).OnProduceRecordUnbuffered(record, nil)
		c.Close()
		for _, one := range lines(t, journalOf(run, "p#0")) {
			if one["at"] != nil && (one["outcome"] != outcome || fmt.Sprint(one["at"]) != "[2 <nil> <nil>]") {
				t.Error(one)
			}
		}
	}
}
