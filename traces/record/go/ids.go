package recorder

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The header with the id of a message: eight bytes, the highest first.
const header = "highwater-id"

// The place of an id where there is none.
const noID = -1 << 63

// idIn is the id that a record carries in its header, or noID.
func idIn(record *kgo.Record) int64 {
	// Ours is the last one, unless another hook adds one.
	for _, one := range slices.Backward(record.Headers) {
		if one.Key == header && len(one.Value) == 8 {
			return int64(binary.BigEndian.Uint64(one.Value))
		}
	}
	return noID
}

// mark gives a record an id of ours, in place of one that it may have been read with. The headers
// that the application holds stay as they are: other records may share them.
func mark(record *kgo.Record, id int64) {
	isOurs := func(one kgo.RecordHeader) bool { return one.Key == header }
	given := record.Headers
	if slices.ContainsFunc(given, isOurs) {
		given = slices.DeleteFunc(slices.Clone(given), isOurs)
	}
	if len(given) == 0 {
		// One allocation instead of two, for the usual record.
		alone := new(struct {
			headers [1]kgo.RecordHeader
			value   [8]byte
		})
		binary.BigEndian.PutUint64(alone.value[:], uint64(id))
		alone.headers[0] = kgo.RecordHeader{Key: header, Value: alone.value[:]}
		record.Headers = alone.headers[:]
		return
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(id))
	record.Headers = append(slices.Clip(given), kgo.RecordHeader{Key: header, Value: value})
}

// ownID is what the application calls a record: an int64, a string, or nil where it does not say.
func ownID(of func(*kgo.Record) any, record *kgo.Record) (id any) {
	defer func() {
		if recover() != nil {
			id = nil
		}
	}()
	found := of(record)
	value := reflect.ValueOf(found)
	switch {
	case found == nil:
		return nil
	case value.CanInt():
		return value.Int()
	case value.CanUint() && value.Uint() < 1<<63:
		return int64(value.Uint())
	}
	return fmt.Sprint(found)
}
