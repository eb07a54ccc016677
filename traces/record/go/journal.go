package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"
)

// windowSize is how much of a journal is mapped at a time.
const windowSize = 4 << 20

const (
	tagMark     = "JRN2"
	tagStopped  = "HALT"
	tagLine     = "LINE"
	tagSent     = "SEND"
	tagKeyed    = "SKEY"
	tagReported = "REPT"
	tagPolled   = "POLL"
	tagFilled   = "FILL"

	sumSize  = 4
	fillSize = 12
	// Every window keeps so much free, for the entry that leads to the next one.
	roomSize   = fillSize + 8
	usualEntry = 64 << 10
)

var little = binary.LittleEndian

// A journal is memory that is mapped into a file, and outlives its process.
//
// Its entries are those of traces/record/entries.py. Any goroutine may add one; an entry costs no
// system call. The file is locked as long as the process lives.
type journal struct {
	path string

	mu     sync.Mutex
	file   *os.File
	least  int // how much is mapped at a time
	window []byte
	start  int64
	at     int
	limit  int
	entry  []byte
}

// createJournal makes the file, which must not be there.
func createJournal(path string, window int) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, file: file, least: window}
	if err := lock(file); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return j, nil
}

// head adds the first line. Nothing is left of the file if it cannot be written.
func (j *journal) head(json []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begin(len(json))
	j.entry = append(j.entry, json...)
	if err := j.add(tagLine); err != nil {
		j.letGo()
		return errors.Join(plain(err), os.Remove(j.path))
	}
	return nil
}

// line adds a line of JSON.
func (j *journal) line(json []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begin(len(json))
	j.entry = append(j.entry, json...)
	j.end(tagLine)
}

// send adds a send: the context that it is made in, and the key where there is one.
func (j *journal) send(context int32, seq, id int64, key []byte, invoked int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begin(28 + len(key))
	j.entry = little.AppendUint32(j.entry, uint32(context))
	j.numbers(seq, invoked, id)
	if key == nil {
		j.end(tagSent)
		return
	}
	j.entry = append(j.entry, key...)
	j.end(tagKeyed)
}

// report adds an acknowledgement.
func (j *journal) report(seq, partition, offset, timestamp, returned int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begin(40)
	j.numbers(returned, seq, partition, offset, timestamp)
	j.end(tagReported)
}

// poll adds a poll: its numbers, then its keys.
func (j *journal) poll(numbers, keys []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begin(len(numbers) + len(keys))
	j.entry = append(append(j.entry, numbers...), keys...)
	j.end(tagPolled)
}

// close lets go of the file, without the space that was reserved behind its last entry.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return
	}
	if j.window != nil {
		if err := j.file.Truncate(j.start + int64(j.at) + sumSize); err != nil {
			j.stopLocked(err)
			return
		}
	}
	j.letGo()
}

// stop ends the recording and says why, once; the application goes on.
func (j *journal) stop(reason error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopLocked(reason)
}

func (j *journal) stopLocked(reason error) {
	if j.file == nil {
		return
	}
	// The first page is there: so it can still say that it has stopped.
	_, unwritten := j.file.WriteAt([]byte(tagStopped), 0)
	j.letGo()
	slog.Warn(fmt.Sprintf("%s: recording has stopped: %v", filepath.Base(j.path), errors.Join(plain(reason), unwritten)))
}

// plain is the reason without the path, which the warning names already.
func plain(reason error) error {
	if of, ok := errors.AsType[*fs.PathError](reason); ok {
		return of.Err
	}
	return reason
}

func (j *journal) begin(body int) {
	j.entry = little.AppendUint32(j.entry[:0], uint32(body))
}

func (j *journal) numbers(several ...int64) {
	for _, number := range several {
		j.entry = little.AppendUint64(j.entry, uint64(number))
	}
}

func (j *journal) end(tag string) {
	if j.file == nil {
		return
	}
	if err := j.add(tag); err != nil {
		j.stopLocked(err)
	}
}

func (j *journal) add(tag string) error {
	body := len(j.entry) - 4
	j.entry = append(append(j.entry, "\x00\x00\x00\x00\x00\x00\x00"[:(4-body)&7]...), tag...)
	length := sumSize + len(j.entry)
	if j.at+length <= j.limit {
		j.at = put(j.window, j.at, j.entry)
	} else if err := j.putInNextWindow(length); err != nil {
		return err
	}
	if cap(j.entry) > usualEntry {
		j.entry = nil
	}
	return nil
}

// put copies an entry to its place. Its checksum comes when all else is there: an entry that
// begins with nothing is none.
func put(window []byte, at int, entry []byte) int {
	var sum [4]byte
	little.PutUint32(sum[:], max(crc32.ChecksumIEEE(entry), 1))
	copy(window[at+sumSize:], entry)
	// An atomic store is one that no compiler moves before the copy.
	place := (*atomic.Uint32)(unsafe.Pointer(&window[at]))
	place.Store(binary.NativeEndian.Uint32(sum[:]))
	return at + sumSize + len(entry)
}

func (j *journal) putInNextWindow(length int) error {
	before, end := j.window, j.at
	if err := j.mapNext(length); err != nil {
		return err
	}
	j.at = put(j.window, j.at, j.entry)
	if before == nil {
		return nil
	}
	left := len(before) - end - sumSize - fillSize
	fill := little.AppendUint32(nil, 4)
	fill = append(little.AppendUint32(fill, uint32(left)), tagFilled...)
	put(before, end, fill)
	unmap(before)
	return nil
}

// mapNext maps the window behind the last one, with room for an entry of this length. Its space is
// written before it is mapped: a full disk is an error here, and would be a signal later.
func (j *journal) mapNext(length int) error {
	start := j.start + int64(len(j.window))
	size := (len(tagMark) + length + roomSize + j.least - 1) / j.least * j.least
	if err := reserve(j.file, start, size); err != nil {
		return errors.Join(err, j.file.Truncate(start))
	}
	window, err := mapped(j.file, start, size)
	if err != nil {
		return err
	}
	copy(window, tagMark)
	j.window, j.start, j.at, j.limit = window, start, len(tagMark), size-roomSize
	return nil
}

var zeros [64 << 10]byte

func reserve(file *os.File, start int64, size int) error {
	for done := 0; done < size; done += len(zeros) {
		block := zeros[:min(len(zeros), size-done)]
		if _, err := file.WriteAt(block, start+int64(done)); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) letGo() {
	unmap(j.window)
	// What was written is in the file, whatever is said of its end.
	_ = j.file.Close()
	j.file, j.window, j.limit = nil, nil, 0
}
