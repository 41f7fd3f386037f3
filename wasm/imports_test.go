package wasm

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// TestImportsOutsideTheList: whatever a module imports beyond the closed list is refused by its bytes, with the code and in the
// words for its kind; and were it not, there would be nothing to import: the runtime itself does not know it either.
func TestImportsOutsideTheList(t *testing.T) {
	function := func(module, name string, signature ...[]byte) func(*Module) {
		if len(signature) == 0 {
			signature = [][]byte{{I32, I32}, {I32}}
		}
		return func(m *Module) { m.Import(module, name, signature[0], signature[1]) }
	}
	other := func(module, name string, kind byte, of ...byte) func(*Module) {
		return func(m *Module) { m.ImportOther(module, name, kind, of) }
	}
	type attempt struct {
		imports func(*Module)
		code    *snapshot.Code
		says    string
	}
	attempts := map[string]attempt{
		"a socket of an extension": {function("wasi_snapshot_preview1", "sock_open"), fault.Import, "wasi_snapshot_preview1.sock_open"},
		"an older WASI":            {function("wasi_unstable", "random_get"), fault.Import, "wasi_unstable.random_get"},
		"a newer WASI":             {function("wasi:filesystem/types@0.2.0", "open-at"), fault.Import, "open-at"},
		"threads":                  {function("wasi", "thread-spawn", []byte{I32}, []byte{I32}), fault.Import, "thread-spawn"},
		"an environment's call":    {function("env", "system"), fault.Import, "env.system"},
		"Emscripten's file":        {function("env", "__syscall_openat"), fault.Import, "__syscall_openat"},
		"JavaScript's reflection":  {function("gojs", "syscall/js.valueCall"), fault.Import, "valueCall"},
		"a call by name":           {function("chancery", "call"), fault.Import, "chancery.call"},
		"Envoy's own host":         {function("env", "proxy_http_call"), fault.Import, "proxy_http_call"},
		"Extism's HTTP":            {function("extism:host/env", "http_request"), fault.Import, "http_request"},
		"Kubewarden's host":        {function("wapc", "__host_call"), fault.Import, "__host_call"},
		"a Kubernetes API":         {function("k8s", "get"), fault.Import, "k8s.get"},
		"no name":                  {function("", ""), fault.Import, "imports"},
		"a name in capitals":       {function("chancery", "LOG", []byte{I32, I32, I32}, nil), fault.Import, "chancery.LOG"},
		"a name with a zero byte":  {function("chancery", "log\x00", []byte{I32, I32, I32}, nil), fault.Import, "no such function"},
		"a name that looks alike":  {function("chancery", "l\u043eg", []byte{I32, I32, I32}, nil), fault.Import, "no such function"},
		"module and name as one":   {function("", "chancery.log", []byte{I32, I32, I32}, nil), fault.Import, "no such function"},
		"log with a result":        {function("chancery", "log", []byte{I32, I32, I32}, []byte{I32}), fault.Import, "it is i32,i32,i32->"},
		"the clock as 32 bits":     {function(wasi, "clock_time_get", []byte{I32, I32, I32}, []byte{I32}), fault.Import, "it is i32,i64,i32->i32"},
		"memory of the host":       {other("env", "memory", Memory, 0, 1), fault.Import, "env.memory"},
		"a table of the host":      {other("env", "__indirect_function_table", Table, 0x70, 0, 1), fault.Import, "__indirect_function_table"},
		"a global of the host":     {other("env", "__stack_pointer", Global, I32, 1), fault.Import, "__stack_pointer"},
		"a function as a global":   {other("chancery", "log", Global, I32, 0), fault.Import, "as global"},
		"a function as memory":     {other("chancery", "fail", Memory, 0, 1), fault.Import, "as memory"},
		"the metering's own":       {function(fuel.ImportModule, fuel.ImportName, nil, []byte{I64}), fault.Reserved, fuel.ImportModule},
		"another of the metering":  {function(fuel.ImportModule, "refill", nil, nil), fault.Reserved, fuel.ImportModule},
		"one that is allowed before one that is not": {func(m *Module) {
			m.Import("chancery", "log", []byte{I32, I32, I32}, nil)
			m.Import("chancery", "exec", []byte{I32, I32}, nil)
		}, fault.Import, "chancery.exec"},
	}
	for _, name := range []string{
		"clock_res_get", "fd_advise", "fd_allocate", "fd_datasync", "fd_filestat_get", "fd_filestat_set_size", "fd_filestat_set_times", "fd_fdstat_set_rights",
		"fd_pread", "fd_pwrite", "fd_read", "fd_readdir", "fd_renumber", "fd_seek", "fd_sync", "fd_tell", "path_create_directory", "path_filestat_get",
		"path_filestat_set_times", "path_link", "path_open", "path_readlink", "path_remove_directory", "path_rename", "path_symlink", "path_unlink_file",
		"proc_raise", "sock_accept", "sock_recv", "sock_send", "sock_shutdown",
	} {
		attempts["WASI's "+name] = attempt{function(wasi, name), fault.Import, wasi + "." + name}
	}
	for _, name := range slices.Sorted(maps.Keys(attempts)) {
		a := attempts[name]
		t.Run(name, func(t *testing.T) {
			whole := guest{Answer: setHeader("x"), Prepare: a.imports}.Bytes()
			module := whole
			if strings.HasSuffix(a.says, "memory") { // beside its own there would be two, which is refused before
				m := &Module{}
				a.imports(m)
				module = withSection(whole, m.Bytes())
			}
			_, err := Inspect(module)
			if !fault.Is(err, a.code) || !strings.Contains(err.Error(), a.says) {
				t.Errorf("it is refused with %v, not with %s for %q", err, a.code.ID, a.says)
			}
			if a.code == fault.Reserved {
				return // the metering itself is there, and gives nothing to a module without a meter
			}
			info := &Info{Interface: &fuel.Interface{}}
			c, err := compile(context.Background(), info, module, guardNone, 512, "")
			if err != nil {
				return
			}
			defer c.close()
			if m, err := c.runtime.InstantiateModule(context.Background(), c.compiled, wazero.NewModuleConfig()); err == nil {
				m.Close(context.Background())
				t.Error("without the check it would have run")
			}
		})
	}
}

// TestHostFunctionsAreTheListed: the runtime exports what the list has and the metering's one, each called directly, none by reflection
// over Go's types; a module may import all of them; and the list is the one that authors read.
func TestHostFunctionsAreTheListed(t *testing.T) {
	document, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	all := guest{Answer: setHeader("x"), Prepare: func(m *Module) {
		for _, n := range slices.SortedFunc(maps.Keys(hostFunctions), func(a, b hostName) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
			h := hostFunctions[n]
			m.Import(n.module, n.name, h.params, h.results)
		}
	}}.Bytes()
	info, err := Inspect(all)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile(context.Background(), info, all, GuardFuel, 512, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, _, err := c.instantiate(context.Background(), budget{fuel: 1 << 20, time: time.Minute}); err != nil {
		t.Error(err)
	}
	found := 0
	for _, module := range []string{wasi, "env", abi.HostModule} {
		for name, d := range c.runtime.Module(module).ExportedFunctionDefinitions() {
			found++
			if _, listed := hostFunctions[hostName{module, name}]; !listed {
				t.Errorf("%s.%s is there, and not in the list", module, name)
			}
			if _, direct := d.GoFunction().(hostFunction); !direct {
				t.Errorf("%s.%s is called as a %T", module, name, d.GoFunction())
			}
			if !strings.Contains(string(document), name) {
				t.Errorf("ABI.md does not name %s.%s", module, name)
			}
		}
	}
	if found != len(hostFunctions) || found != 18 {
		t.Errorf("the runtime has %d functions, the list %d", found, len(hostFunctions))
	}
	own := c.runtime.Module(fuel.ImportModule).ExportedFunctionDefinitions()
	if len(own) != 1 || own[fuel.ImportName] == nil {
		t.Errorf("the metering exports %v", own)
	}
	if _, direct := own[fuel.ImportName].GoFunction().(api.GoModuleFunction); !direct {
		t.Errorf("the metering's function is a %T", own[fuel.ImportName].GoFunction())
	}
}
