//go:build unix

package recorder

import (
	"os"
	"syscall"
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
