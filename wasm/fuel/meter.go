package fuel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Why a metered call was ended. The error of the call wraps one of them; the instance must be discarded.
var (
	// ErrExhausted: the call used more units than its budget.
	ErrExhausted = errors.New("fuel budget used up")
	// ErrDeadline: the call's time is over.
	ErrDeadline = errors.New("deadline passed")
	// ErrCanceled: the call's context was canceled.
	ErrCanceled = errors.New("call canceled")
	// ErrStack: calls are nested too deeply for the native stack that a guest may use.
	ErrStack = errors.New("calls nested too deeply")
	// ErrUnmetered: guest code ran without a Meter in its context. It is a fault of the host.
	ErrUnmetered = errors.New("guest code ran without a meter")
)

// portion is the number of units handed out at a time. A unit stands for at most some 256 instructions (see region), so
// that the host regains control, and with it Go's collector, after some milliseconds at the very worst. Tests lower it.
var portion int64 = 2048

// Meter is the budget of one call, or of one instantiation. It serves one goroutine.
type Meter struct {
	// Budget is the number of units that the call may use.
	Budget int64
	// Deadline is when the call has to end; the zero value means never.
	Deadline time.Time
	// More is asked when the deadline has passed, and puts it off by what it returns; 0 ends the call, as does a nil More.
	More func() time.Duration

	// handed is the counter's value at the last refill plus everything used before.
	handed int64
	module api.Module
	fuel   api.Global
	stack  api.Global
}

type meterKey struct{}

// Context returns a context in which metered code may run on the meter's account. The host function looks it up on each
// portion, so that it should be the last value that is put into the context of a call.
func (m *Meter) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Begin prepares a metered instance for a call: what is left of an earlier portion is taken away.
func (m *Meter) Begin(mod api.Module) {
	m.bind(mod)
	m.handed = 0
	if g, ok := m.fuel.(api.MutableGlobal); ok {
		g.Set(0)
	}
}

// Used returns the units that were used since Begin, or since the instantiation. It is 0 for a module without metering.
func (m *Meter) Used() int64 {
	if m.fuel == nil {
		return 0
	}
	return m.handed - int64(m.fuel.Get())
}

func (m *Meter) bind(mod api.Module) {
	if m.module != mod {
		m.module, m.fuel, m.stack = mod, mod.ExportedGlobal(exportFuel), mod.ExportedGlobal(exportStack)
	}
}

// late reports whether the time is over.
func (m *Meter) late() bool {
	if m.Deadline.IsZero() || time.Now().Before(m.Deadline) {
		return false
	}
	if m.More == nil {
		return true
	}
	more := m.More()
	m.Deadline = time.Now().Add(more)
	return more <= 0
}

// refill accounts for what was used and returns the next portion, or why there is none.
func (m *Meter) refill(ctx context.Context) (int64, error) {
	if depth := int64(m.stack.Get()); depth < 0 {
		return 0, ErrStack
	}
	used := m.Used()
	switch {
	case used > m.Budget:
		return 0, fmt.Errorf("%w: more than %d units", ErrExhausted, m.Budget)
	case m.late():
		return 0, ErrDeadline
	case ctx.Err() != nil:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return 0, ErrDeadline
		}
		return 0, ErrCanceled
	}
	next := min(portion, m.Budget-used)
	m.handed = used + next
	return next, nil
}

// Install puts the host function that metered modules import into the runtime.
func Install(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(tick), nil, []api.ValueType{api.ValueTypeI64}).
		Export(ImportName).Instantiate(ctx)
	return err
}

// tick answers a metered module that has no units left. Its panics end the guest's call; wazero turns them into the
// call's error.
func tick(ctx context.Context, mod api.Module, stack []uint64) {
	m, ok := ctx.Value(meterKey{}).(*Meter)
	if !ok {
		panic(ErrUnmetered)
	}
	m.bind(mod)
	next, err := m.refill(ctx)
	if err != nil {
		panic(err)
	}
	stack[0] = uint64(next)
}
