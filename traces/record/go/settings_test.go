package recorder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAProducersSettingsAreThoseThatHold(t *testing.T) {
	plain := settingsOf(client(t)).producer()
	for name, value := range map[string]any{
		"acks": "all", "idempotence": true, "max_in_flight": 5, "retries": int64(1<<31 - 1), "partitioner": "murmur2_random",
	} {
		if plain[name] != value {
			t.Errorf("%s: %v", name, plain[name])
		}
	}
	if len(plain) != 5 {
		t.Error(plain)
	}
	unsafe := settingsOf(client(t, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(3), kgo.RecordRetries(2), kgo.RecordDeliveryTimeout(time.Second)))
	if found := fmt.Sprint(unsafe.producer()); found != "map[acks:1 delivery_timeout_ms:1000 idempotence:false max_in_flight:3 partitioner:murmur2_random retries:2]" {
		t.Error(found)
	}
	if unsafe.ordered || !settingsOf(client(t, kgo.DisableIdempotentWrite())).ordered {
		t.Error("batches are ordered where one request is under way at a time, and only there")
	}
	txn := settingsOf(client(t, kgo.TransactionalID("x"))).producer()
	if txn["transactional_id"] != "x" || txn["transaction_timeout_ms"] != int64(40_000) {
		t.Error(txn)
	}
}

func TestAConsumersSettingsAreThoseThatHold(t *testing.T) {
	group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")}
	with := func(more ...kgo.Opt) fields {
		return settingsOf(client(t, append(group[:2:2], more...)...)).consumer("")
	}
	if found := fmt.Sprint(with()); found != "map[auto_commit:true auto_offset_reset:earliest commit_order:auto group:g group_protocol:classic isolation:read_uncommitted rack: session_timeout_ms:45000]" {
		t.Error(found)
	}
	manual := with(kgo.DisableAutoCommit(), kgo.ServerSideBalancer(), kgo.InstanceID("i"), kgo.Rack("r"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()))
	if found := fmt.Sprint(manual); found != "map[auto_commit:false auto_offset_reset:latest group:g group_instance_id:i group_protocol:consumer isolation:read_committed rack:r session_timeout_ms:45000]" {
		t.Error(found)
	}
	if txn := with(kgo.TransactionalID("x")); txn["auto_commit"] != false {
		t.Error(txn)
	}
	direct := settingsOf(client(t, kgo.ConsumeTopics("t"))).consumer("none")
	if found := fmt.Sprint(direct); found != "map[auto_commit:false auto_offset_reset:earliest commit_order:none isolation:read_uncommitted rack:]" {
		t.Error(found)
	}
}

func TestAPartitionerIsKnownByWhatItDoes(t *testing.T) {
	for name, partitioner := range map[string]kgo.Partitioner{
		"murmur2_random":               kgo.StickyKeyPartitioner(nil),
		"*kgo.stickyPartitioner":       kgo.StickyPartitioner(),
		"*kgo.basicPartitioner":        kgo.ManualPartitioner(),
		"*kgo.uniformBytesPartitioner": kgo.UniformBytesPartitioner(1<<10, true, false, nil),
		"*kgo.keyPartitioner":          kgo.StickyKeyPartitioner(kgo.SaramaHasher(func(b []byte) uint32 { return uint32(len(b)) })),
	} {
		if found := partitionerName(partitioner); found != name {
			t.Errorf("expected %s, found %s", name, found)
		}
	}
}

func TestCallbacksAreGivenToMembersOfGroupsAlone(t *testing.T) {
	group := []kgo.Opt{nobody, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")}
	call := func(context.Context, *kgo.Client, map[string][]int32) {}
	for _, one := range []struct {
		opts  []kgo.Opt
		given int
	}{
		{group, 5},
		{append(group[:3:3], kgo.DisableAutoCommit(), kgo.OnPartitionsRevoked(call)), 5},
		{append(group[:3:3], kgo.TransactionalID("x")), 0},
		{[]kgo.Opt{nobody}, 0},
		{[]kgo.Opt{nobody, kgo.ShareGroup("g"), kgo.ConsumeTopics("t")}, 0},
		{append(group[:3:3], kgo.RequiredAcks(kgo.NoAck())), 0},
	} {
		if found := len(callbacksFor(one.opts, newObserver(nil))); found != one.given {
			t.Errorf("%d callbacks", found)
		}
	}
}
