package recorder

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// settings are those of a client that the recorder needs, in franz-go's own words.
type settings struct {
	client          *kgo.Client
	group, instance string
	transactionalID string
	topics          []string
	regex           bool
	partitions      map[string]map[int32]kgo.Offset
	acks            string
	ordered         bool
	autoCommit      bool
	lagging         bool // automatic commits are one poll behind
	shares          bool
}

func settingsOf(cl *kgo.Client) *settings {
	s := &settings{
		client:          cl,
		group:           option[string](cl, kgo.ConsumerGroup),
		instance:        option[string](cl, kgo.InstanceID),
		transactionalID: option[string](cl, kgo.TransactionalID),
		topics:          option[[]string](cl, kgo.ConsumeTopics),
		regex:           option[bool](cl, kgo.ConsumeRegex),
		partitions:      option[map[string]map[int32]kgo.Offset](cl, kgo.ConsumePartitions),
		shares:          option[string](cl, kgo.ShareGroup) != "",
	}
	s.acks = acksOf(option[kgo.Acks](cl, kgo.RequiredAcks))
	s.ordered = s.idempotent() || option[int](cl, kgo.MaxProduceRequestsInflightPerBroker) == 1
	// With transactions the client commits nothing by itself, whatever the switch says.
	s.autoCommit = s.group != "" && s.transactionalID == "" && !option[bool](cl, kgo.DisableAutoCommit)
	s.lagging = s.autoCommit && !option[bool](cl, kgo.GreedyAutoCommit) && !option[bool](cl, kgo.AutoCommitMarks)
	return s
}

// option is the value of an option, or zero in a version of franz-go that has it not.
func option[T any](cl *kgo.Client, of any) T {
	value, _ := cl.OptValue(of).(T)
	return value
}

func acksOf(acks kgo.Acks) string {
	switch acks {
	case kgo.NoAck():
		return "0"
	case kgo.LeaderAck():
		return "1"
	}
	return "all"
}

func (s *settings) idempotent() bool {
	return !option[bool](s.client, kgo.DisableIdempotentWrite)
}

func (s *settings) consumes() bool {
	return s.group != "" || len(s.topics) > 0 || len(s.partitions) > 0
}

// producer are the settings of a producer in the words of meta.json.
func (s *settings) producer() fields {
	inFlight := option[int](s.client, kgo.MaxProduceRequestsInflightPerBroker)
	if s.idempotent() {
		inFlight = 5 // whatever is set
	}
	about := fields{
		"acks":          s.acks,
		"idempotence":   s.idempotent(),
		"max_in_flight": inFlight,
		"retries":       min(option[int64](s.client, kgo.RecordRetries), math.MaxInt32),
		"partitioner":   partitionerName(option[kgo.Partitioner](s.client, kgo.RecordPartitioner)),
	}
	if timeout := option[time.Duration](s.client, kgo.RecordDeliveryTimeout); timeout > 0 {
		about["delivery_timeout_ms"] = timeout.Milliseconds()
	}
	if s.transactionalID != "" {
		about["transactional_id"] = s.transactionalID
		about["transaction_timeout_ms"] = option[time.Duration](s.client, kgo.TransactionTimeout).Milliseconds()
	}
	return about
}

// consumer are the settings of a consumer in the words of meta.json.
func (s *settings) consumer(commitOrder string) fields {
	about := fields{
		"isolation":   s.isolation(),
		"auto_commit": s.autoCommit,
		"rack":        option[string](s.client, kgo.Rack),
	}
	if commitOrder == "" && s.autoCommit {
		commitOrder = "auto"
	}
	for name, text := range map[string]string{
		"group":             s.group,
		"group_instance_id": s.instance,
		"commit_order":      commitOrder,
		"auto_offset_reset": s.reset(),
	} {
		if text != "" {
			about[name] = text
		}
	}
	if s.group != "" {
		about["group_protocol"] = s.protocol()
		about["session_timeout_ms"] = option[time.Duration](s.client, kgo.SessionTimeout).Milliseconds()
	}
	return about
}

func (s *settings) isolation() string {
	if s.client.OptValue(kgo.FetchIsolationLevel) == int8(1) {
		return "read_committed"
	}
	return "read_uncommitted"
}

func (s *settings) protocol() string {
	// The name by which it was asked for before there was an option.
	early := s.client.Context().Value("opt_in_kafka_next_gen_balancer_beta")
	if early != nil || option[bool](s.client, kgo.ServerSideBalancer) {
		return "consumer"
	}
	return "classic"
}

// reset is where a group begins that has committed nothing, where that has a name.
func (s *settings) reset() string {
	switch option[kgo.Offset](s.client, kgo.ConsumeStartOffset) {
	case kgo.NewOffset().AtStart():
		return "earliest"
	case kgo.NewOffset().AtEnd():
		return "latest"
	}
	return ""
}

// grouped are the fields that name the group on its calls.
func (s *settings) grouped() fields {
	about := fields{}
	if s.group != "" {
		about["group"] = s.group
	}
	if s.group != "" && s.instance != "" {
		about["instance"] = s.instance
	}
	return about
}

// partitionerName is a name that the checks know if keys go where Kafka's own producer sends them,
// or the type's.
func partitionerName(used kgo.Partitioner) string {
	name := fmt.Sprintf("%T", used)
	if !murmur2(used) {
		return name
	}
	return "murmur2_random"
}

// murmur2 says whether one of franz-go's own partitioners, which keep no state about keys, puts
// some keys where Kafka's does.
func murmur2(used kgo.Partitioner) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	reference := kgo.UniformBytesPartitioner(64<<10, true, true, nil)
	sticky := kgo.StickyKeyPartitioner(nil)
	if name := fmt.Sprintf("%T", used); name != fmt.Sprintf("%T", reference) && name != fmt.Sprintf("%T", sticky) {
		return false
	}
	ours, theirs := reference.ForTopic(""), used.ForTopic("")
	for _, key := range []string{"", "k", "order-17", "é漢", "0123456789abcdef"} {
		record := &kgo.Record{Key: []byte(key)}
		if !theirs.RequiresConsistency(record) {
			return false
		}
		for _, partitions := range []int{3, 64, 1009} {
			if pick(ours, record, partitions) != pick(theirs, record, partitions) {
				return false
			}
		}
	}
	return true
}

func pick(by kgo.TopicPartitioner, record *kgo.Record, partitions int) int {
	if backed, ok := by.(kgo.TopicBackupPartitioner); ok {
		return backed.PartitionByBackup(record, partitions, nil)
	}
	return by.Partition(record, partitions)
}

// library is the client with its version, and that of Go.
func library() string {
	version := "(devel)"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, one := range build.Deps {
			if one.Path == "github.com/twmb/franz-go" {
				version = one.Version
			}
		}
	}
	return fmt.Sprintf("franz-go %s, %s", version, runtime.Version())
}

// given says whether valid options have something of which another option is a contradiction.
func given(opts []kgo.Opt, contradiction ...kgo.Opt) bool {
	return kgo.ValidateOpts(opts...) == nil && kgo.ValidateOpts(append(opts[:len(opts):len(opts)], contradiction...)...) != nil
}

// transacts says whether options of a client name a transactional id.
func transacts(opts []kgo.Opt) bool {
	return given(opts, kgo.DisableIdempotentWrite())
}

// joins says whether options of a client name a consumer group.
func joins(opts []kgo.Opt) bool {
	callback := kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {})
	return kgo.ValidateOpts(opts...) == nil && !given(opts, callback)
}
