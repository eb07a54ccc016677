package recorder

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func fetched(records ...*kgo.Record) kgo.Fetches {
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "t", Partitions: []kgo.FetchPartition{{Records: records}}}}}}
}

func read(offset int64, key string) *kgo.Record {
	record := &kgo.Record{Topic: "t", Partition: 2, Offset: offset, Timestamp: time.UnixMilli(9), LeaderEpoch: 4}
	if key != "" {
		record.Key = []byte(key)
	}
	mark(record, 100+offset)
	return record
}

func TestAPollIsPackedAndItsHandlingNamesIt(t *testing.T) {
	made, run := newRecorder(t, "c", CommitOrder("process_then_commit"))
	w := wrap(t, made.Opts(append(group[:2:2], kgo.DisableAutoCommit())...))
	fetches := fetched(read(5, "key"), read(6, ""))
	w.observer.polled(fetches, now())
	w.observer.polled(nil, now())
	w.Process(fetches)()
	w.Processed(fetches)
	w.ProcessedRecords(fetches.Records()[1], nil)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		w.Processed(fetches)
	}()
	<-finished
	found := lines(t, journalOf(run, "c#0"))
	polls := 0
	for _, one := range found {
		if one["tag"] != tagPolled {
			continue
		}
		polls++
		body := one["body"].([]byte)
		numbers := make([]int64, (len(body)-32-3)/8)
		if _, err := binary.Decode(body[32:], little, numbers); err != nil {
			t.Fatal(err)
		}
		if expected := []int64{numbers[0], 5, 105, 9, 4, 3, numbers[0], 6, 106, 9, 4, -1}; !reflect.DeepEqual(numbers, expected) || string(body[len(body)-3:]) != "key" {
			t.Error(numbers)
		}
	}
	if polls != 1 {
		t.Error(polls, "polls")
	}
	handled := []string{}
	for _, one := range calls(t, journalOf(run, "c#0"), "process") {
		handled = append(handled, fmt.Sprint(one["records_of"] != nil, one["other_thread"], one["records"]))
	}
	expected := []string{
		"true <nil> <nil>",
		"true <nil> <nil>",
		"false <nil> [map[epoch:4 id:106 offset:6 partition:2 timestamp:9 topic:t]]",
		"true true <nil>",
	}
	if !reflect.DeepEqual(handled, expected) {
		t.Error(handled)
	}
}

func TestHashesAndKeysAreThoseOfTheRecorderInPython(t *testing.T) {
	record := &kgo.Record{
		Key:     []byte("k\xff"),
		Value:   []byte("v"),
		Headers: []kgo.RecordHeader{{Key: header, Value: make([]byte, 8)}, {Key: "h"}},
	}
	// traces.record.digest.digest(b"v", b"k\xff", [("h", None)])
	if found := digest(record); found != 576495919 {
		t.Error(found)
	}
	for raw, text := range map[string]string{
		"k": "k", "é漢🙂": "é漢🙂", "\xff\xfe": `\xff\xfe`, "\xc0\xaf": `\xc0\xaf`,
		"a\xe2\x82b\xed\xa0\x80c\xf0\x9f\x99": `a\xe2\x82b\xed\xa0\x80c\xf0\x9f\x99`, "\uFFFD": "\uFFFD",
	} {
		if found := legible([]byte(raw)); found != text {
			t.Errorf("%q: %s", raw, found)
		}
	}
}

func TestAClientWithAHookAloneTellsEachRecordThatIsPolled(t *testing.T) {
	made, run := newRecorder(t, "c")
	c := client(t, append(group[:2:2], kgo.WithHooks(made.Hook()))...)
	o := observerOf(c)
	control := &kgo.Record{Topic: "t"}
	o.OnFetchRecordUnbuffered(read(5, ""), true)
	o.OnFetchRecordUnbuffered(read(6, ""), false) // thrown away
	o.OnFetchRecordUnbuffered(control, true)
	polls := 0
	for _, one := range lines(t, journalOf(run, "c#0")) {
		if one["tag"] == tagPolled {
			polls++
		}
	}
	if polls != 2 {
		t.Error(polls, "polls")
	}
}
