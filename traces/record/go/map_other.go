//go:build !unix

package recorder

import (
	"errors"
	"os"
)

func lock(*os.File) error {
	return errors.ErrUnsupported
}

func mapped(*os.File, int64, int) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func unmap([]byte) {}
