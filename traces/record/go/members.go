package recorder

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// members is one consumer as a member of its group: what it subscribes to, and what it is given.
type members struct {
	process  *recording
	settings *settings
	client   *kgo.Client
	seen     bool // rebalances are

	mu    sync.Mutex
	holds map[partition]bool
	// What automatic commits may commit, as of the beginning of the last poll.
	heads map[string]map[int32]kgo.EpochOffset
	// Places of automatic commits that are not answered.
	underWay map[*kmsg.OffsetCommitRequest]int64
}

func newMembers(of *observer, process *recording) *members {
	return &members{
		process:  process,
		settings: of.settings,
		client:   of.settings.client,
		seen:     seesRebalances(of.settings.client) && of.settings.transactionalID == "",
		holds:    make(map[partition]bool),
		underWay: make(map[*kmsg.OffsetCommitRequest]int64),
	}
}

// begin writes down what the client consumes from the beginning.
func (m *members) begin() {
	switch {
	case m.settings.group != "":
		m.subscribed(m.settings.topics)
		if !m.seen {
			m.unseen()
		}
	case len(m.settings.partitions) > 0 && len(m.settings.topics) == 0:
		m.assign(m.settings.partitions)
	}
}

// unseen says that rebalances are not seen: a line that does not name the partitions.
func (m *members) unseen() {
	m.process.note("assigned", now(), m.settings.grouped())
}

func (m *members) subscribed(topics []string) {
	if m.settings.regex {
		patterns := make([]string, 0, len(topics))
		for _, topic := range topics {
			patterns = append(patterns, "/"+topic+"/")
		}
		topics = patterns
	}
	about := fields{"topics": slices.Sorted(slices.Values(topics))}
	m.process.note("subscribe", now(), about.and(m.settings.grouped()))
}

// assign writes down a manual assignment, with the offsets that it names.
func (m *members) assign(partitions map[string]map[int32]kgo.Offset) {
	names, offsets := []string{}, map[string]int64{}
	for topic, several := range partitions {
		for number, from := range several {
			name := partition{topic, number}.String()
			names = append(names, name)
			if at, exact := exactly(from); exact {
				offsets[name] = at
			}
		}
	}
	slices.Sort(names)
	m.process.note("assign", now(), fields{"partitions": names, "offsets": offsets})
}

// exactly is the offset of which an option names the number.
func exactly(from kgo.Offset) (at int64, exact bool) {
	named := from.EpochOffset()
	return named.Offset, named.Offset >= 0 && from == kgo.NewOffset().At(named.Offset).WithEpoch(named.Epoch)
}

func (p partition) String() string {
	return fmt.Sprintf("%s:%d", p.topic, p.number)
}

func named(partitions map[string][]int32) []string {
	names := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			names = append(names, partition{topic, number}.String())
		}
	}
	slices.Sort(names)
	return names
}

// offsetsOf are positions by partition, as the trace names them.
func offsetsOf(positions map[string]map[int32]kgo.EpochOffset) map[string]int64 {
	offsets := make(map[string]int64)
	for topic, several := range positions {
		for number, at := range several {
			offsets[partition{topic, number}.String()] = at.Offset
		}
	}
	return offsets
}

// membership is group, member and generation as the client holds them now.
func (m *members) membership() fields {
	about := maps.Clone(m.settings.grouped())
	if member, generation := m.client.GroupMetadata(); member != "" && generation >= 0 {
		about["member"], about["generation"] = member, generation
	}
	return about
}

func (m *members) assigned(partitions map[string][]int32) {
	invoked := now()
	m.mu.Lock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			m.holds[partition{topic, number}] = true
		}
	}
	m.forget(partitions)
	m.mu.Unlock()
	if m.seen {
		m.process.note("assigned", invoked, fields{"partitions": named(partitions)}.and(m.membership()))
	}
}

// left writes down that partitions were revoked or lost.
func (m *members) left(op string, invoked int64, partitions map[string][]int32, held fields) {
	m.mu.Lock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			delete(m.holds, partition{topic, number})
		}
	}
	m.forget(partitions)
	m.mu.Unlock()
	if names := named(partitions); m.seen && len(names) > 0 {
		m.process.note(op, invoked, fields{"partitions": names}.and(held))
	}
}

// held are the partitions that the member was given of these topics, or of all.
func (m *members) held(topics ...string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := []string{}
	for one := range m.holds {
		if len(topics) == 0 || slices.Contains(topics, one.topic) {
			names = append(names, one.String())
		}
	}
	slices.Sort(names)
	return names
}
