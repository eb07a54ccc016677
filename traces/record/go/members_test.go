package recorder

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var group = []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")}

func operations(t *testing.T, path string) (found []string) {
	t.Helper()
	for _, one := range lines(t, path) {
		if one["op"] != nil && one["op"] != "describe_topics" {
			found = append(found, fmt.Sprint(one["op"], " ", one["partitions"]))
		}
	}
	return found
}

func TestRebalancesAreSeenBesideTheApplicationsCallbacks(t *testing.T) {
	made, run := newRecorder(t, "c")
	said := []string{}
	say := func(what string) rebalance {
		return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			said = append(said, fmt.Sprint(what, given))
			clear(given)
		}
	}
	opts := append(group[:2:2], OnPartitionsAssigned(say("assigned")), OnPartitionsRevoked(say("revoked")), OnPartitionsLost(say("lost")))
	c := client(t, made.Opts(opts...)...)
	ctx, two := context.Background(), func() map[string][]int32 { return map[string][]int32{"t": {1, 0}} }
	option[rebalance](c, kgo.OnPartitionsAssigned)(ctx, c, two())
	option[rebalance](c, kgo.OnPartitionsRevoked)(ctx, c, two())
	option[rebalance](c, kgo.OnPartitionsLost)(ctx, c, two())
	c.Close()
	if !reflect.DeepEqual(said[:3], []string{"assignedmap[t:[1 0]]", "revokedmap[t:[1 0]]", "lostmap[t:[1 0]]"}) {
		t.Error(said)
	}
	expected := []string{"subscribe <nil>", "assigned [t:0 t:1]", "revoked [t:0 t:1]", "lost [t:0 t:1]", "close <nil>"}
	if found := operations(t, journalOf(run, "c#0")); !reflect.DeepEqual(found, expected) {
		t.Error(found)
	}
}

func TestRebalancesThatAreNotSeenAreMarkedAsMissing(t *testing.T) {
	call := func(context.Context, *kgo.Client, map[string][]int32) {}
	for name, opts := range map[string][]kgo.Opt{
		"theirs":       append(group[:2:2], kgo.OnPartitionsRevoked(call)),
		"transactions": append(group[:2:2], kgo.TransactionalID("x")),
	} {
		made, run := newRecorder(t, name)
		client(t, made.Opts(opts...)...)
		if found := operations(t, journalOf(run, name+"#0")); !reflect.DeepEqual(found, []string{"subscribe <nil>", "assigned <nil>"}) {
			t.Error(name, found)
		}
	}
	made, run := newRecorder(t, "hook")
	client(t, append(group[:2:2], kgo.WithHooks(made.Hook()))...)
	if found := operations(t, journalOf(run, "hook#0")); len(found) != 2 || found[1] != "assigned <nil>" {
		t.Error("hook", found)
	}
}

func TestAManualAssignmentNamesTheOffsetsThatAreNumbers(t *testing.T) {
	made, run := newRecorder(t, "c")
	client(t, made.Opts(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {
		0: kgo.NewOffset().At(7), 1: kgo.NewOffset().AtStart(), 2: kgo.NewOffset().At(7).Relative(3),
	}}))...)
	assigned := calls(t, journalOf(run, "c#0"), "assign")
	if found := fmt.Sprint(assigned[0]["partitions"], assigned[0]["offsets"]); found != "[t:0 t:1 t:2] map[t:0:7]" {
		t.Error(found)
	}
}

func TestAutomaticCommitsAreToldAndHandedOn(t *testing.T) {
	made, run := newRecorder(t, "c")
	handed := 0
	opts := append(group[:2:2], AutoCommitCallback(func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) { handed++ }))
	c := client(t, made.Opts(opts...)...)
	call := option[committing](c, kgo.AutoCommitCallback)
	one := kmsg.OffsetCommitRequestTopicPartition{Partition: 1, Offset: 7}
	asked := &kmsg.OffsetCommitRequest{Group: "g", MemberID: "m", Generation: 3, Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{one}}}}
	answer := func(code int16) *kmsg.OffsetCommitResponse {
		return &kmsg.OffsetCommitResponse{Topics: []kmsg.OffsetCommitResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 1, ErrorCode: code}}}}}
	}
	call(c, asked, answer(0), nil)
	call(c, asked, answer(22), nil)
	call(c, asked, nil, context.Canceled)
	call(c, new(kmsg.OffsetCommitRequest), new(kmsg.OffsetCommitResponse), nil)
	c.Close()
	commits := calls(t, journalOf(run, "c#0"), "commit")
	if found := fmt.Sprint(commits[0]["auto"], commits[0]["offsets"], commits[0]["generation"], commits[0]["member"]); found != "true map[t:1:7]3m" {
		t.Error(found)
	}
	answers := []string{}
	for _, line := range lines(t, journalOf(run, "c#0")) {
		if line["op"] == nil && line["outcome"] != nil {
			answers = append(answers, fmt.Sprint(line["outcome"], " ", line["error"]))
		}
	}
	if !reflect.DeepEqual(answers, []string{"ok <nil>", "info ILLEGAL_GENERATION", "info Canceled"}) || handed != 4 {
		t.Error(answers, handed)
	}
}

func TestACommitIsSeenBehindTheApplicationsOwnFunction(t *testing.T) {
	made, run := newRecorder(t, "c")
	w := wrap(t, made.Opts(append(group[:2:2], kgo.DisableAutoCommit())...))
	offsets := map[string]map[int32]kgo.EpochOffset{"t": {0: {Epoch: -1, Offset: 5}}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handed := []string{}
	done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		handed = append(handed, fmt.Sprint(err))
	}
	refuses := kgo.PreCommitFnContext(ctx, func(*kmsg.OffsetCommitRequest) error { return errors.New("refused") })
	w.CommitOffsetsSync(refuses, offsets, done)
	changes := kgo.PreCommitFnContext(ctx, func(asked *kmsg.OffsetCommitRequest) error {
		asked.Topics[0].Partitions[0].Offset = 9
		cancel()
		return nil
	})
	w.CommitOffsetsSync(changes, offsets, done)
	brief, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	if err := w.CommitRecords(brief, &kgo.Record{Topic: "t", Partition: 1, Offset: 3}, &kgo.Record{Topic: "t", Partition: 1, Offset: 2}); err == nil {
		t.Error("nobody refuses")
	}
	if handed[0] != "refused" || len(handed) != 2 {
		t.Error(handed)
	}
	asked, answers := []string{}, []string{}
	for _, line := range lines(t, journalOf(run, "c#0")) {
		switch {
		case line["op"] == "commit":
			asked = append(asked, fmt.Sprint(line["offsets"]))
		case line["outcome"] != nil && line["op"] == nil:
			answers = append(answers, fmt.Sprint(line["outcome"], line["offsets"]))
		}
	}
	if !reflect.DeepEqual(asked, []string{"map[t:0:5]", "map[t:0:5]", "map[t:1:4]"}) {
		t.Error(asked)
	}
	if answers[0] != "fail<nil>" || answers[1] != "infomap[t:0:9]" || !strings.HasPrefix(answers[2], "info") && answers[2] != "fail<nil>" {
		t.Error(answers)
	}
}

func TestOffsetsOfARevokedPartitionThatAreDueAreThoseBeforeTheLastPoll(t *testing.T) {
	made, _ := newRecorder(t, "c")
	c := client(t, made.Opts(group...)...)
	m := observerOf(c).members
	at := func(offset int64) map[string]map[int32]kgo.EpochOffset {
		return map[string]map[int32]kgo.EpochOffset{"t": {0: {Epoch: 1, Offset: offset}, 1: {Epoch: 1, Offset: 2}}}
	}
	m.heads = at(5)
	m.seek(map[string]map[int32]kgo.EpochOffset{"t": {0: {Epoch: 1, Offset: 3}, 7: {Epoch: 1, Offset: 1}}})
	if m.heads["t"][0].Offset != 3 || len(m.heads["t"]) != 2 {
		t.Error("a position that the application sets is not the one before it", m.heads)
	}
	m.assigned(map[string][]int32{"t": {0}})
	if _, kept := m.heads["t"][0]; kept || len(m.heads["t"]) != 1 {
		t.Error("a partition that is given anew has the position of before", m.heads)
	}
	m.heads = at(5)
	if due := m.committable(); len(due) != 0 {
		t.Error("nothing is held, and something is due", due)
	}
}

func TestAnAutomaticCommitIsWrittenBeforeItIsSent(t *testing.T) {
	made, run := newRecorder(t, "c")
	w := wrap(t, made.Opts(group...))
	offsets := map[string]map[int32]kgo.EpochOffset{"t": {0: {Epoch: -1, Offset: 5}}}
	ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
	defer cancel()
	found := func() (commits []string) {
		for _, one := range calls(t, journalOf(run, "c#0"), "commit") {
			commits = append(commits, fmt.Sprint(one["auto"], " ", one["offsets"]))
		}
		return commits
	}
	// The client's own commits have its context, and nobody answers here.
	before := 0
	w.Client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		before = len(found())
		option[committing](w.Client, kgo.AutoCommitCallback)(w.Client, asked, answer, err)
	})
	if before != 1 || len(w.observer.members.underWay) != 0 {
		t.Error(before, "commits were written down before the answer")
	}
	later, stop := context.WithTimeout(w.Context(), 50*time.Millisecond)
	defer stop()
	w.CommitOffsetsSync(later, offsets, nil)
	expected := []string{"true map[t:0:5]", "<nil> map[t:0:5]"}
	if commits := found(); !reflect.DeepEqual(commits, expected) {
		t.Error(commits)
	}
}
