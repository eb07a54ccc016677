package recorder

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

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
