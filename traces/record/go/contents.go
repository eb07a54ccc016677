package recorder

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record of the trace, as a line spells it out.
type spelt struct {
	Topic     string  `json:"topic"`
	Partition *int32  `json:"partition,omitempty"`
	Offset    *int64  `json:"offset,omitempty"`
	ID        any     `json:"id,omitempty"`
	Key       *string `json:"key,omitempty"`
	Timestamp *int64  `json:"timestamp,omitempty"`
	Epoch     *int32  `json:"epoch,omitempty"`
	Hash      *uint32 `json:"hash,omitempty"`
	Chosen    *bool   `json:"chosen,omitempty"`
}

// keyed adds the key as text, in which bytes that are no UTF-8 stay legible.
func (s *spelt) keyed(key []byte) {
	if key != nil {
		text := legible(key)
		s.Key = &text
	}
}

func (s *spelt) hashed(record *kgo.Record) {
	sum := digest(record)
	s.Hash = &sum
}

// digest is a number of key, value and headers, but ours: the same where the record is sent and
// where it is read.
func digest(record *kgo.Record) uint32 {
	sum := crc32.NewIEEE()
	part := func(raw []byte) {
		size := uint32(len(raw))
		if raw == nil {
			size = 1<<32 - 1
		}
		// A hash never returns an error.
		_, _ = sum.Write(binary.BigEndian.AppendUint32(nil, size))
		_, _ = sum.Write(raw)
	}
	part(record.Key)
	part(record.Value)
	for _, one := range record.Headers {
		if one.Key != header {
			part([]byte(one.Key))
			part(one.Value)
		}
	}
	return sum.Sum32()
}

func legible(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	var text strings.Builder
	for len(raw) > 0 {
		found, size := utf8.DecodeRune(raw)
		if found == utf8.RuneError && size == 1 {
			fmt.Fprintf(&text, `\x%02x`, raw[0])
		} else {
			text.Write(raw[:size])
		}
		raw = raw[size:]
	}
	return text.String()
}
