// Package fault holds the errors of the room wasm: each has a stable code, so that status, metrics and command line name
// the same thing by the same name.
package fault

import (
	"errors"
	"fmt"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Error is one failure of a module, or of getting it.
type Error struct {
	Code *snapshot.Code
	// Message says what is wrong with this very module, call or setting. Text that came from a guest is escaped already.
	Message string
	// Temporary failures may pass by themselves; they are tried again.
	Temporary bool
	// Err is the cause, where there is one.
	Err error
}

// New returns an error of the code.
func New(code *snapshot.Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Retry returns an error of the code that may pass by itself.
func Retry(code *snapshot.Code, format string, args ...any) *Error {
	e := New(code, format, args...)
	e.Temporary = true
	return e
}

// Error returns "CODE: message".
func (e *Error) Error() string { return e.Code.ID + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err, or what it wraps, has the code.
func Is(err error, code *snapshot.Code) bool { return CodeOf(err) == code }

// CodeOf returns the code of the error, or nil for an error that has none.
func CodeOf(err error) *snapshot.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return nil
}

// IsTemporary reports whether the failure may pass by itself.
func IsTemporary(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Temporary
}
