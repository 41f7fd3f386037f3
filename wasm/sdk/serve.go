package sdk

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// reply encodes a response; one with nothing in it is no bytes at all.
func reply(r *abi.Response) []byte {
	if len(r.Operations) == 0 && len(r.Diagnostics) == 0 && r.Error == nil {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return failure(err)
	}
	return text
}

func failure(err error) []byte {
	text, _ := json.Marshal(abi.Response{Error: &abi.Error{Message: err.Error()}})
	return text
}

func answerError(response []byte) error {
	var r abi.Response
	if len(response) == 0 {
		return nil
	}
	if err := json.Unmarshal(response, &r); err != nil {
		return err
	}
	if r.Error != nil {
		return errors.New(r.Error.Message)
	}
	return nil
}

// guarded turns a panic into a response that says so. The host discards the instance after any error.
func guarded(f func() []byte) (response []byte) {
	defer func() {
		if reason := recover(); reason != nil {
			response = failure(fmt.Errorf("panic: %v", reason))
		}
	}()
	return f()
}

func configure(text []byte) []byte {
	return guarded(func() []byte {
		var c abi.Configuration
		if len(text) > 0 {
			if err := json.Unmarshal(text, &c); err != nil {
				return failure(err)
			}
		}
		if registered.Translate == nil {
			return failure(errors.New("the module registers no translator; call sdk.Register from an init function"))
		}
		if registered.Configure != nil {
			if err := registered.Configure(c.Settings); err != nil {
				return failure(err)
			}
		}
		return nil
	})
}

func translate(do func(*Input, *Output) error, text []byte) []byte {
	return guarded(func() []byte {
		var r abi.Request
		if err := json.Unmarshal(text, &r); err != nil {
			return failure(err)
		}
		in, out := &Input{Phase: r.Phase, Unit: r.Unit, Items: make([]Item, len(r.Items))}, &Output{}
		for i, item := range r.Items {
			in.Items[i] = Item{item}
		}
		if do == nil {
			return nil
		}
		err := do(in, out)
		if err == nil {
			err = out.err
		}
		if err != nil {
			return failure(err)
		}
		return reply(&out.response)
	})
}

//lint:ignore U1000 called by the exports of wasip1
func selfTest() []byte {
	return guarded(func() []byte {
		if registered.SelfTest == nil {
			return nil
		}
		if err := registered.SelfTest(); err != nil {
			return failure(err)
		}
		return nil
	})
}
