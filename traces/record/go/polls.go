package recorder

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// polls are those of one consumer: the numbers of all records in one piece, or lines where that is
// too little.
type polls struct {
	process *recording
	id      func(*kgo.Record) any
	hashes  bool
	about   fields
	topics  topics

	mu         sync.Mutex
	context    int32
	partitions map[partition]int32
	numbers    []byte
	keys       []byte
	last       delivery
	since      int64 // of a client without a wrapper: when the poll began, or its last record came
}

type partition struct {
	topic  string
	number int32
}

// A delivery is what a poll returned, and to whom.
type delivery struct {
	seq     int64
	records []*kgo.Record
	by      goroutine
}

func newPolls(of *observer, process *recording) *polls {
	choices := &of.recorder.choices
	p := &polls{
		process:    process,
		id:         choices.id,
		hashes:     choices.hashes,
		about:      fields{"isolation": of.settings.isolation()}.and(of.settings.grouped()),
		topics:     topics{ask: of.settings.client},
		context:    process.nextContext(),
		partitions: make(map[partition]int32),
	}
	process.write(fields{"context": p.context, "inside": p.about})
	return p
}

// returned writes down a poll that returned records; its place is that of the return.
func (p *polls) returned(fetches kgo.Fetches, invoked int64) {
	records := delivered(fetches)
	if len(records) == 0 {
		return
	}
	by := thisGoroutine()
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.write(records, invoked)
	p.last = delivery{seq: seq, records: records, by: by}
}

// starts notes that the poll of a client without a wrapper begins.
func (p *polls) starts() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = now()
}

// alone writes down a record of a poll that no wrapper sees, as a poll of its own.
func (p *polls) alone(record *kgo.Record) {
	if record.Attrs.IsControl() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write([]*kgo.Record{record}, p.since)
	p.since = now()
}

// delivered are the records of a poll that the application has a use for.
func delivered(fetches kgo.Fetches) []*kgo.Record {
	records := make([]*kgo.Record, 0, fetches.NumRecords())
	fetches.EachRecord(func(record *kgo.Record) {
		if !record.Attrs.IsControl() {
			records = append(records, record)
		}
	})
	return records
}

func (p *polls) write(records []*kgo.Record, invoked int64) int64 {
	seq, returned := p.process.next(), now()
	if p.hashes || !p.compact(records, seq, invoked, returned) {
		line := fields{"seq": seq, "op": "poll", "outcome": ok, "invoked_ns": invoked, "returned_ns": returned}
		p.process.write(line.and(p.about).and(fields{"records": p.spell(records)}))
	}
	return seq
}

func (p *polls) compact(records []*kgo.Record, seq, invoked, returned int64) bool {
	p.numbers, p.keys = p.numbers[:0], p.keys[:0]
	p.numbers = little.AppendUint32(p.numbers, uint32(p.context))
	p.numbers = little.AppendUint32(p.numbers, uint32(len(records)))
	p.number(seq, invoked, returned)
	var last partition
	var number int32
	for _, record := range records {
		id := int64(noID)
		if p.id == nil {
			id = idIn(record)
		} else if own := ownID(p.id, record); own != nil {
			named, isNumber := own.(int64)
			if !isNumber {
				return false
			}
			id = named
		}
		if in := (partition{record.Topic, record.Partition}); in != last || number == 0 {
			last, number = in, p.numberOf(in)
		}
		length := int64(-1)
		if record.Key != nil {
			length = int64(len(record.Key))
			p.keys = append(p.keys, record.Key...)
		}
		stamp := max(record.Timestamp.UnixMilli(), -1)
		p.number(int64(number), record.Offset, id, stamp, int64(record.LeaderEpoch), length)
	}
	p.process.journal.poll(p.numbers, p.keys)
	if cap(p.numbers) > 4*usualEntry || cap(p.keys) > 4*usualEntry {
		p.numbers, p.keys = nil, nil
	}
	return true
}

func (p *polls) number(several ...int64) {
	for _, number := range several {
		p.numbers = little.AppendUint64(p.numbers, uint64(number))
	}
}

func (p *polls) numberOf(in partition) int32 {
	number, known := p.partitions[in]
	if !known {
		number = p.process.nextContext()
		p.process.write(fields{"context": number, "topic": in.topic, "partition": in.number})
		p.partitions[in] = number
		p.topics.use(p.process, in.topic)
	}
	return number
}

func (p *polls) spell(records []*kgo.Record) []spelt {
	several := make([]spelt, 0, len(records))
	for _, record := range records {
		one := p.identify(record)
		one.keyed(record.Key)
		if stamp := record.Timestamp.UnixMilli(); stamp >= 0 {
			one.Timestamp = &stamp
		}
		if record.LeaderEpoch >= 0 {
			one.Epoch = &record.LeaderEpoch
		}
		if p.hashes {
			one.hashed(record)
		}
		several = append(several, one)
	}
	return several
}

func (p *polls) identify(record *kgo.Record) spelt {
	one := spelt{Topic: record.Topic, Partition: &record.Partition, Offset: &record.Offset}
	if p.id != nil {
		one.ID = ownID(p.id, record)
	} else if id := idIn(record); id != noID {
		one.ID = id
	}
	return one
}

// lastDelivery is the last poll that returned records.
func (p *polls) lastDelivery() delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// seen are the partitions of which records were returned.
func (p *polls) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.partitions))
	for one := range p.partitions {
		names = append(names, one.String())
	}
	slices.Sort(names)
	return names
}
