package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"unicode/utf16"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

const wasi = "wasi_snapshot_preview1"

// Errno of WASI preview 1 that the sandbox answers.
const (
	errnoSuccess = 0
	errnoBadFile = 8
	errnoFault   = 21
	errnoInvalid = 28
)

// What a guest may write per call: output beyond it is counted and dropped.
const (
	outputTail  = 4 << 10
	logLine     = 1 << 10
	logLines    = 32
	maxPollSubs = 64
	maxRandom   = 64 << 10
	startOfTime = 1_640_995_200_000_000_000 // 2022-01-01T00:00:00Z, for every call
)

type hostName struct{ module, name string }

// hostFunction is one function that guests may import. It returns WASI's errno where it has a result.
type hostFunction struct {
	params, results []api.ValueType
	call            func(s *sandbox, mem api.Memory, args []uint64) uint64
}

func (h hostFunction) signature() string {
	names := func(types []api.ValueType) string {
		text := ""
		for i, t := range types {
			if i > 0 {
				text += ","
			}
			text += api.ValueTypeName(t)
		}
		return text
	}
	return names(h.params) + "->" + names(h.results)
}

// sandbox is what host functions know of the call that they serve. Clock and random are the same for every call, so that
// an answer is a function of the module, its settings and its input.
type sandbox struct {
	written tail
	logs    []logEntry
	lost    int // log lines beyond the limit
	random  *rand.ChaCha8
	elapsed uint64 // nanoseconds of the fake monotonic clock; grows over the life of an instance
}

type logEntry struct {
	level int32
	text  string
}

func newSandbox() *sandbox {
	s := &sandbox{written: tail{limit: outputTail}}
	s.reset()
	return s
}

// reset prepares for the next call.
func (s *sandbox) reset() {
	s.written.reset()
	s.logs, s.lost = nil, 0
	s.random = rand.NewChaCha8([32]byte{'c', 'h', 'a', 'n', 'c', 'e', 'r', 'y'})
}

type sandboxKey struct{}

// guestFailure is what a guest says with fail or abort.
type guestFailure struct{ message string }

func (e *guestFailure) Error() string { return e.message }

// hostFailure is a fault in a host function.
type hostFailure struct{ reason any }

func (e *hostFailure) Error() string { return fmt.Sprintf("a host function failed: %v", e.reason) }

func values(n int, t api.ValueType) []api.ValueType { return slices.Repeat([]api.ValueType{t}, n) }

func i32s(n int) []api.ValueType { return values(n, api.ValueTypeI32) }

var errno = i32s(1)

// hostFunctions are all functions that guests may import: the fifteen that guests of Go's toolchain import of WASI preview 1, AssemblyScript's abort, and Chancery's own two.
var hostFunctions = map[hostName]hostFunction{
	{wasi, "sched_yield"}:         {nil, errno, func(*sandbox, api.Memory, []uint64) uint64 { return errnoSuccess }},
	{wasi, "proc_exit"}:           {i32s(1), nil, exit},
	{wasi, "args_get"}:            {i32s(2), errno, func(*sandbox, api.Memory, []uint64) uint64 { return errnoSuccess }},
	{wasi, "args_sizes_get"}:      {i32s(2), errno, noStrings},
	{wasi, "environ_get"}:         {i32s(2), errno, func(*sandbox, api.Memory, []uint64) uint64 { return errnoSuccess }},
	{wasi, "environ_sizes_get"}:   {i32s(2), errno, noStrings},
	{wasi, "clock_time_get"}:      {[]api.ValueType{api.ValueTypeI32, api.ValueTypeI64, api.ValueTypeI32}, errno, clockTime},
	{wasi, "random_get"}:          {i32s(2), errno, randomBytes},
	{wasi, "poll_oneoff"}:         {i32s(4), errno, poll},
	{wasi, "fd_write"}:            {i32s(4), errno, write},
	{wasi, "fd_close"}:            {i32s(1), errno, standardFile},
	{wasi, "fd_fdstat_get"}:       {i32s(2), errno, fdstat},
	{wasi, "fd_fdstat_set_flags"}: {i32s(2), errno, standardFile},
	{wasi, "fd_prestat_get"}:      {i32s(2), errno, noDirectory},
	{wasi, "fd_prestat_dir_name"}: {i32s(3), errno, noDirectory},
	{"env", "abort"}:              {i32s(4), nil, abort},
	{abi.HostModule, "log"}:       {i32s(3), nil, logLineOf},
	{abi.HostModule, "fail"}:      {i32s(2), nil, fail},
}

// install puts the host functions into a runtime.
func install(ctx context.Context, r wazero.Runtime) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for name, h := range hostFunctions {
		b := builders[name.module]
		if b == nil {
			b = r.NewHostModuleBuilder(name.module)
		}
		builders[name.module] = b.NewFunctionBuilder().
			WithGoModuleFunction(h, h.params, h.results).WithName(name.name).Export(name.name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return fuel.Install(ctx, r)
}

// Call serves a guest's call. A panic of ours ends the guest's call as a fault of the host, not the process.
func (h hostFunction) Call(ctx context.Context, mod api.Module, stack []uint64) {
	defer func() {
		reason := recover()
		switch reason.(type) {
		case nil:
		case *guestFailure, *sys.ExitError:
			panic(reason)
		default:
			panic(&hostFailure{reason})
		}
	}()
	s, ok := ctx.Value(sandboxKey{}).(*sandbox)
	if !ok {
		panic("no sandbox")
	}
	mem := mod.Memory()
	if mem == nil {
		panic(&guestFailure{"the module has no memory"})
	}
	result := h.call(s, mem, stack)
	if len(h.results) > 0 {
		stack[0] = result
	}
}

func exit(_ *sandbox, _ api.Memory, args []uint64) uint64 {
	panic(sys.NewExitError(uint32(args[0])))
}

// noStrings answers that there are no arguments and no environment.
func noStrings(_ *sandbox, mem api.Memory, args []uint64) uint64 {
	if !mem.WriteUint32Le(uint32(args[0]), 0) || !mem.WriteUint32Le(uint32(args[1]), 0) {
		return errnoFault
	}
	return errnoSuccess
}

// clockTime answers the fake clocks: real time stands still, monotonic time grows by a microsecond with each look.
func clockTime(s *sandbox, mem api.Memory, args []uint64) uint64 {
	now := uint64(startOfTime)
	switch uint32(args[0]) {
	case 0:
	case 1, 2, 3:
		s.elapsed += 1000
		now = s.elapsed
	default:
		return errnoInvalid
	}
	if !mem.WriteUint64Le(uint32(args[2]), now) {
		return errnoFault
	}
	return errnoSuccess
}

func randomBytes(s *sandbox, mem api.Memory, args []uint64) uint64 {
	if uint32(args[1]) > maxRandom { // work that no fuel is charged for
		return errnoInvalid
	}
	buf, ok := mem.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return errnoFault
	}
	if _, err := s.random.Read(buf); err != nil {
		return errnoFault
	}
	return errnoSuccess
}

// poll lets time pass: a guest that sleeps goes on at once, with its monotonic clock moved.
func poll(s *sandbox, mem api.Memory, args []uint64) uint64 {
	in, out, n := uint32(args[0]), uint32(args[1]), uint32(args[2])
	if n == 0 || n > maxPollSubs {
		return errnoInvalid
	}
	const subscription, event = 48, 32
	subs, ok := mem.Read(in, n*subscription)
	if !ok {
		return errnoFault
	}
	subs = slices.Clone(subs)
	events := make([]byte, n*event)
	for i := range n {
		sub, ev := subs[i*subscription:], events[i*event:]
		copy(ev[:8], sub[:8]) // userdata
		ev[10] = sub[8]       // type
		if sub[8] != 0 {
			binary.LittleEndian.PutUint16(ev[8:], errnoBadFile)
			continue
		}
		timeout := binary.LittleEndian.Uint64(sub[24:])
		if absolute := sub[40]&1 != 0; absolute && binary.LittleEndian.Uint32(sub[16:]) != 0 {
			s.elapsed = max(s.elapsed, timeout)
		} else if !absolute {
			s.elapsed += min(timeout, 1<<62-min(s.elapsed, 1<<62))
		}
	}
	if !mem.Write(out, events) || !mem.WriteUint32Le(uint32(args[3]), n) {
		return errnoFault
	}
	return errnoSuccess
}

// write takes what a guest prints: the end of it is kept for messages.
func write(s *sandbox, mem api.Memory, args []uint64) uint64 {
	if fd := uint32(args[0]); fd != 1 && fd != 2 {
		return errnoBadFile
	}
	at, n := uint32(args[1]), uint32(args[2])
	if n > 1024 {
		return errnoInvalid
	}
	total := uint32(0)
	for i := range n {
		base, ok1 := mem.ReadUint32Le(at + i*8)
		size, ok2 := mem.ReadUint32Le(at + i*8 + 4)
		buf, ok3 := mem.Read(base, size)
		if !ok1 || !ok2 || !ok3 {
			return errnoFault
		}
		s.written.write(buf)
		total += size
	}
	if !mem.WriteUint32Le(uint32(args[3]), total) {
		return errnoFault
	}
	return errnoSuccess
}

// standardFile answers for descriptors: the three standard ones are there, no other is.
func standardFile(_ *sandbox, _ api.Memory, args []uint64) uint64 {
	if uint32(args[0]) <= 2 {
		return errnoSuccess
	}
	return errnoBadFile
}

// noDirectory answers that no directory is open.
func noDirectory(*sandbox, api.Memory, []uint64) uint64 { return errnoBadFile }

func fdstat(_ *sandbox, mem api.Memory, args []uint64) uint64 {
	if uint32(args[0]) > 2 {
		return errnoBadFile
	}
	var stat [24]byte
	stat[0] = 2 // character device
	if !mem.Write(uint32(args[1]), stat[:]) {
		return errnoFault
	}
	return errnoSuccess
}

// abort is AssemblyScript's: message and file are UTF-16 strings with their length in bytes before them.
func abort(_ *sandbox, mem api.Memory, args []uint64) uint64 {
	text := utf16Text(mem, uint32(args[0]))
	if file := utf16Text(mem, uint32(args[1])); file != "" {
		text += fmt.Sprintf(" at %s:%d:%d", file, uint32(args[2]), uint32(args[3]))
	}
	panic(&guestFailure{"abort: " + text})
}

func utf16Text(mem api.Memory, at uint32) string {
	if at < 4 {
		return ""
	}
	size, _ := mem.ReadUint32Le(at - 4)
	buf, ok := mem.Read(at, min(size, logLine)&^1)
	if !ok {
		return ""
	}
	units := make([]uint16, len(buf)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(buf[2*i:])
	}
	return escape(string(utf16.Decode(units)), logLine)
}

// logLineOf keeps one line of a guest's log.
func logLineOf(s *sandbox, mem api.Memory, args []uint64) uint64 {
	if len(s.logs) >= logLines {
		s.lost++
		return 0
	}
	text, ok := guestText(mem, args[1], args[2])
	if !ok {
		panic(&guestFailure{"log was given text outside of memory"})
	}
	s.logs = append(s.logs, logEntry{min(max(int32(uint32(args[0])), abi.LogDebug), abi.LogError), text})
	return 0
}

// fail ends the call with the guest's own message.
func fail(_ *sandbox, mem api.Memory, args []uint64) uint64 {
	text, ok := guestText(mem, args[0], args[1])
	if !ok {
		text = "fail was given text outside of memory"
	}
	panic(&guestFailure{text})
}

func guestText(mem api.Memory, at, size uint64) (string, bool) {
	buf, ok := mem.Read(uint32(at), uint32(size))
	if !ok {
		return "", false
	}
	return escape(string(buf[:min(len(buf), logLine)]), logLine), true
}

// exitOf returns the code with which a guest exited.
func exitOf(err error) (uint32, bool) {
	e, ok := errors.AsType[*sys.ExitError](err)
	if !ok {
		return 0, false
	}
	return e.ExitCode(), true
}
