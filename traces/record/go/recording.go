package recorder

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
)

const (
	ok   = "ok"
	fail = "fail"
	info = "info"
)

// Of the 63 bits of an id, so many count the messages of one process.
const counterBits = 33

// The number of a call that is not recorded.
const unrecorded = -1

var taken = []string{".journal", ".ndjson", ".ndjson.gz", ".parquet"}

// fields are those of a line of JSON.
type fields map[string]any

// and returns these fields with others.
func (f fields) and(more fields) fields {
	both := make(fields, len(f)+len(more))
	maps.Copy(both, f)
	maps.Copy(both, more)
	return both
}

// A recording is one process of a run: its program, call by call, in its journal.
//
// A call is written down when it is made and when it is answered; one without an answer becomes
// info. Goroutines take the time of a call before its place, and that of an answer behind it.
// A nil recording writes nothing.
type recording struct {
	name     string
	journal  *journal
	firstID  int64
	seqs     atomic.Int64
	contexts atomic.Int32
	ended    atomic.Bool
}

// openRecording opens the next incarnation of a client: p0#0, after a restart p0#1.
func openRecording(run, client string, window int, about fields) (*recording, error) {
	for number := 0; ; number++ {
		name := fmt.Sprintf("%s#%d", client, number)
		if isTaken(run, name) {
			continue
		}
		journal, err := createJournal(filepath.Join(run, name+".journal"), window)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r := &recording{name: name, journal: journal, firstID: firstID()}
		head := fields{"journal": 2, "process": name, "clock": clockDomain, "ids": r.firstID}
		text, err := json.Marshal(head.and(about))
		if err != nil {
			return nil, err
		}
		return r, journal.head(text)
	}
}

func isTaken(run, name string) bool {
	for _, suffix := range taken {
		if _, err := os.Stat(filepath.Join(run, name+suffix)); err == nil {
			return true
		}
	}
	return false
}

func firstID() int64 {
	var random [8]byte
	// It never fails, by its own promise.
	_, _ = rand.Read(random[:])
	return int64(binary.LittleEndian.Uint64(random[:])>>(counterBits+1)) << counterBits
}

// next is the next place in the program.
func (r *recording) next() int64 {
	return r.seqs.Add(1) - 1
}

// nextContext is a number for what several entries share; 0 is none.
func (r *recording) nextContext() int32 {
	return r.contexts.Add(1)
}

// call writes down a call that is being made, before the client is called; returns its place.
func (r *recording) call(op string, about fields) int64 {
	if r == nil {
		return unrecorded
	}
	invoked := now()
	seq := r.next()
	r.write(fields{"seq": seq, "op": op, "invoked_ns": invoked}.and(about))
	return seq
}

// answer writes down the answer to a call.
func (r *recording) answer(seq int64, outcome string, about fields) {
	if r != nil && seq != unrecorded {
		r.write(fields{"seq": seq, "outcome": outcome, "returned_ns": now()}.and(about))
	}
}

// note writes down a call that has returned well.
func (r *recording) note(op string, invoked int64, about fields) {
	if r == nil {
		return
	}
	line := fields{"seq": r.next(), "op": op, "outcome": ok, "invoked_ns": invoked, "returned_ns": now()}
	r.write(line.and(about))
}

func (r *recording) write(line fields) {
	text, err := json.Marshal(line)
	if err != nil {
		r.broken(err)
		return
	}
	r.journal.line(text)
}

// end writes the last line, unless it is there.
func (r *recording) end(how string, invoked int64) {
	if r != nil && !r.ended.Swap(true) {
		r.note(how, invoked, nil)
		r.journal.close()
	}
}

// broken stops the recording after a mistake of the recorder, which is none of the application's.
func (r *recording) broken(mistake any) {
	if r != nil {
		r.journal.stop(fmt.Errorf("%v", mistake))
	}
}
