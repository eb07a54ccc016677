//go:build unix

package recorder

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock holds the file until it is closed, or its process ends.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

func mapped(file *os.File, start int64, size int) ([]byte, error) {
	return syscall.Mmap(int(file.Fd()), start, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func unmap(window []byte) {
	if window != nil {
		// It fails only for memory that is not mapped.
		_ = syscall.Munmap(window)
	}
}

// largestFile is the size beyond which a write raises SIGXFSZ.
func largestFile() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(limit.Cur)
}
