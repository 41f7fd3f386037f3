package wasm

import (
	"context"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// load compiles a test guest and makes an instance.
func load(t testing.TB, module []byte, guard Guard) (*code, *instance) {
	t.Helper()
	info, err := Inspect(module)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile(context.Background(), info, module, guard, 64, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	i, _, err := c.instantiate(context.Background(), budget{fuel: 1 << 30, time: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c, i
}

func testBudget() budget { return budgetOf(effective(abi.Limits{}, abi.Limits{})) }

func TestCall(t *testing.T) {
	for _, guard := range []Guard{GuardFuel, GuardInterpreter, guardCloseOnDone, guardNone} {
		t.Run(string(guard), func(t *testing.T) {
			_, i := load(t, guest{Answer: `{"operations":[]}`}.Bytes(), guard)
			for range 3 {
				out, spent, err := i.call(context.Background(), exportTranslate, []byte("{}"), testBudget())
				if err != nil || string(out) != `{"operations":[]}` {
					t.Fatalf("%q, %v", out, err)
				}
				if guard == GuardFuel && spent.fuel != 4 {
					t.Errorf("%d units were used; 4 functions were entered", spent.fuel)
				}
			}
		})
	}
}
