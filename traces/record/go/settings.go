package recorder

import (
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
