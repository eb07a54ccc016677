//go:build !unix

package recorder

import (
	"errors"
	"math"
	"os"
)

func lock(*os.File) error {
	return errors.ErrUnsupported
}

func mapped(*os.File, int64, int) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func unmap([]byte) {}

func largestFile() int64 {
	return math.MaxInt64
}
