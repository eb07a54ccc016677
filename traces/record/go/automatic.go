package recorder

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked writes down a commit that the client makes of its own accord.
func (m *members) asked(request *kmsg.OffsetCommitRequest) {
	about := requested(request).and(m.settings.grouped())
	about["auto"] = true
	seq := m.process.call("commit", about)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.underWay[request] = seq
}

// committed writes down the answer to such a commit.
func (m *members) committed(request *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
	if request == nil || len(request.Topics) == 0 {
		return
	}
	seq, known := m.answered(request)
	if !known {
		m.asked(request)
		seq, _ = m.answered(request)
	}
	if err == nil {
		err, _ = refusal(answer)
	}
	if err != nil {
		m.process.answer(seq, info, fields{"error": errorName(err)})
		return
	}
	m.process.answer(seq, ok, nil)
}

func (m *members) answered(request *kmsg.OffsetCommitRequest) (seq int64, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seq, known = m.underWay[request]
	delete(m.underWay, request)
	return seq, known
}

// requested are offsets, member and generation of a commit as it is sent.
func requested(commit *kmsg.OffsetCommitRequest) fields {
	offsets := make(map[string]int64)
	for _, topic := range commit.Topics {
		for _, one := range topic.Partitions {
			offsets[partition{topic.Topic, one.Partition}.String()] = one.Offset
		}
	}
	about := fields{"offsets": offsets, "group": commit.Group}
	if commit.MemberID != "" && commit.Generation >= 0 {
		about["member"], about["generation"] = commit.MemberID, commit.Generation
	}
	return about
}

// refusal is the error of a commit's answer, and whether it is that of every partition.
func refusal(answer *kmsg.OffsetCommitResponse) (err error, ofAll bool) {
	if answer == nil {
		return nil, false
	}
	ofAll = true
	var code int16
	for _, topic := range answer.Topics {
		for _, one := range topic.Partitions {
			if one.ErrorCode != 0 && code == 0 {
				code = one.ErrorCode
			}
		}
	}
	for _, topic := range answer.Topics {
		for _, one := range topic.Partitions {
			ofAll = ofAll && one.ErrorCode == code
		}
	}
	return kerr.ErrorForCode(code), ofAll
}

// pollStarts keeps what automatic commits may commit while the poll goes on: what was returned
// before it. The client has the number, and does not say it.
func (m *members) pollStarts() {
	if !m.settings.lagging || !m.seen {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heads = m.client.UncommittedOffsets()
}

// forget drops the positions of partitions that are given or taken.
func (m *members) forget(partitions map[string][]int32) {
	for topic, numbers := range partitions {
		for _, number := range numbers {
			delete(m.heads[topic], number)
		}
	}
}

// seek puts positions in place of those that are kept.
func (m *members) seek(offsets map[string]map[int32]kgo.EpochOffset) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, several := range offsets {
		for number, at := range several {
			if _, known := m.heads[topic][number]; known {
				m.heads[topic][number] = at
			}
		}
	}
}

// commitAsByDefault does what the client does where partitions are revoked and there is no
// callback: it commits what it would have committed by itself.
func (m *members) commitAsByDefault() {
	if !m.settings.autoCommit {
		return
	}
	call := option[committing](m.client, kgo.AutoCommitCallback)
	m.client.CommitOffsetsSync(m.client.Context(), m.committable(), call)
}

func (m *members) committable() map[string]map[int32]kgo.EpochOffset {
	if option[bool](m.client, kgo.AutoCommitMarks) {
		return m.client.MarkedOffsets()
	}
	uncommitted := m.client.UncommittedOffsets()
	if !m.settings.lagging {
		return uncommitted
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	committed := m.client.CommittedOffsets()
	due := make(map[string]map[int32]kgo.EpochOffset)
	for topic, several := range m.heads {
		for number, at := range several {
			_, isHeld := uncommitted[topic][number]
			done, isDone := committed[topic][number]
			if !isHeld || isDone && done == at {
				continue
			}
			if due[topic] == nil {
				due[topic] = make(map[int32]kgo.EpochOffset)
			}
			due[topic][number] = at
		}
	}
	return due
}

// complain logs what the client's own callback logs of an automatic commit.
func complain(cl *kgo.Client, answer *kmsg.OffsetCommitResponse, err error) {
	logger := option[kgo.Logger](cl, kgo.WithLogger)
	if logger == nil || logger.Level() < kgo.LogLevelError {
		return
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			logger.Log(kgo.LogLevelError, "default commit failed", "group", cl.OptValue(kgo.ConsumerGroup), "err", err)
		}
		return
	}
	if err, _ := refusal(answer); err != nil {
		logger.Log(kgo.LogLevelError, "in default commit: unable to commit offsets",
			"group", cl.OptValue(kgo.ConsumerGroup), "error", err)
	}
}
