// Package runtime holds no code of its own: its folders are the parts of the running program, and its test keeps the
// layout of the whole repository.
package runtime
