package api_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// dice makes objects out of bytes: each choice takes one, and at their end the first is always chosen.
type dice struct {
	bytes []byte
	kind  string
}

func (d *dice) roll(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

// one chooses one of several.
func one[T any](d *dice, of ...T) T { return of[d.roll(len(of))] }

// convertible lists the kinds, and the versions of each.
var convertible = map[string][]string{
	"AuthService": {"v1", "v2", "v3alpha1"}, "ConsulResolver": {"v1", "v2", "v3alpha1"}, "DevPortal": {"v1", "v2", "v3alpha1"},
	"Host": {"v2", "v3alpha1"}, "KubernetesEndpointResolver": {"v1", "v2", "v3alpha1"},
	"KubernetesServiceResolver": {"v1", "v2", "v3alpha1"}, "Listener": {"v3alpha1"}, "LogService": {"v1", "v2", "v3alpha1"},
	"Mapping": {"v1", "v2", "v3alpha1"}, "Module": {"v1", "v2", "v3alpha1"}, "RateLimitService": {"v1", "v2", "v3alpha1"},
	"TCPMapping": {"v1", "v2", "v3alpha1"}, "TLSContext": {"v1", "v2", "v3alpha1"}, "TracingService": {"v1", "v2", "v3alpha1"},
}

// spelledInV2 gives the names of v3alpha1's fields in v2, by kind, wherever in the spec they stand.
var spelledInV2 = map[string]map[string]string{
	"AuthService":      {"stats_name": "v3StatsName", "circuit_breakers": "v3CircuitBreakers"},
	"Host":             {"mappingSelector": "selector", "crl_secret": "v3CRLSecret"},
	"LogService":       {"stats_name": "v3StatsName", "protocol_version": "v3ProtocolVersion"},
	"Mapping":          {"stats_name": "v3StatsName", "health_checks": "v3health_checks", "hostname": "host"},
	"RateLimitService": {"stats_name": "v3StatsName", "grpc": "v3GRPC"},
	"TCPMapping":       {"stats_name": "v3StatsName"},
	"TLSContext":       {"crl_secret": "v3CRLSecret"},
	"TracingService":   {"stats_name": "v3StatsName", "custom_tags": "v3CustomTags", "propagation_modes": "v3PropagationModes"},
}

// strays are names that one version or the other does not have, or that nobody has.
var strays = []string{"ambassadorId", "v3StatsName", "stats_name", "v2ExplicitTLS", "v2BoolHeaders", "host", "hostname", "selector",
	"mappingSelector", "v3CRLSecret", "crl_secret", "tag_headers", "v3CustomTags", "custom_tags", "v3health_checks", "unknown", "", "a.b/c"}

var texts = []string{"", "a", "*", "https://a", "HTTP://a:80", "hTTps://", "default", "--apiVersion-v3alpha1-only--default",
	"--apiVersion-v3alpha1-only--edge", "_skip_mapping_with_empty_host_", "a,b", ".*", "string", "null", "bool:true", "bool:false",
	"source_cluster", "remote_address", "generic_key", "v2Unrecognized", "http://", "é\u2028\"\\", "*.example.com"}

var keys = []string{"a", "x-b", "", "generic_key", "remote_address", "header", "v3Key", "v2Unrecognized", "é"}

// specimen makes an object of the kind in the version: mostly as its schema says, here and there as nobody would.
func (d *dice) specimen(kind, version string) jsontext.Value {
	d.kind = kind
	metadata := map[string]any{"name": "a", "namespace": "b", "labels": map[string]any{"l": "m"}, "uid": "u"}
	if d.roll(3) == 0 {
		metadata["annotations"] = map[string]any{"c": one(d, texts...)}
	}
	o := map[string]any{"apiVersion": "getambassador.io/" + version, "kind": kind, "metadata": metadata}
	switch d.roll(16) {
	case 1:
	case 2:
		o["spec"] = d.odd(2)
	default:
		o["spec"] = d.spec(kind, version != "v3alpha1")
	}
	if d.roll(4) == 0 {
		o["status"] = map[string]any{"state": "Running"}
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}

func (d *dice) spec(kind string, old bool) map[string]any {
	spec := map[string]any{}
	t := reflect.TypeOf(v3alpha1.New(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: kind})).Elem()
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if d.roll(3) != 0 && t.NumField() > 3 {
			continue
		}
		if other, has := spelledInV2[kind][name]; has && old && d.roll(8) != 0 {
			spec[other] = d.value(f.Type, name, old, 4)
		} else {
			spec[name] = d.value(f.Type, name, old, 4)
		}
	}
	for d.roll(4) == 1 {
		spec[one(d, strays...)] = d.odd(3)
	}
	return spec
}

// value makes a value of the type; in the older versions, of the forms that these have beside.
func (d *dice) value(t reflect.Type, name string, old bool, depth int) any {
	if d.roll(12) == 1 || depth == 0 {
		return d.odd(depth)
	}
	text := func() any { return one(d, texts...) }
	if old {
		switch name {
		case "tls":
			if t.Kind() == reflect.String {
				return one[any](d, true, false, "", nil, "context", text())
			}
		case "ambassador_id", "remove_request_headers", "remove_response_headers", "methods", "exposed_headers", "origins":
			return one[any](d, text(), []any{text(), text()}, []any{})
		case "headers", "query_parameters":
			return d.members(func() any { return one[any](d, true, text(), false, nil) })
		case "add_request_headers", "add_response_headers":
			return d.members(func() any {
				return one[any](d, text(), map[string]any{"value": text(), "append": one(d, true, false)}, nil, map[string]any{})
			})
		case "labels":
			return d.members(func() any { return []any{d.members(d.oldLabels), d.members(d.oldLabels)} })
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.value(t.Elem(), name, old, depth)
	case reflect.Bool:
		return one(d, true, false)
	case reflect.String:
		return text()
	case reflect.Int32, reflect.Int64, reflect.Uint32:
		return one(d, 0, 80, 301, -1, 1<<40)
	case reflect.Slice:
		if t == reflect.TypeFor[jsontext.Value]() {
			return d.odd(depth)
		}
		list := []any{}
		for range d.roll(3) {
			list = append(list, d.value(t.Elem(), "", old, depth-1))
		}
		return list
	case reflect.Map:
		return d.members(func() any { return d.value(t.Elem(), "", old, depth-1) })
	case reflect.Struct:
		o := map[string]any{}
		for f := range t.Fields() {
			inner, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if d.roll(2) == 0 {
				if other, has := spelledInV2[d.kind][inner]; has && old && d.roll(4) != 0 {
					inner = other
				}
				o[inner] = d.value(f.Type, inner, old, depth-1)
			}
		}
		return o
	}
	return d.odd(depth)
}

func (d *dice) oldLabels() any {
	label := func() any {
		return one[any](d, one(d, texts...), map[string]any{"generic_key": one(d, texts...), "v3Key": one(d, texts...)},
			d.members(func() any {
				return map[string]any{"header": one(d, texts...), "omit_if_not_present": one[any](d, true, false, nil)}
			}))
	}
	return []any{label(), label()}
}

func (d *dice) members(value func() any) map[string]any {
	o := map[string]any{}
	for range d.roll(4) {
		o[one(d, keys...)] = value()
	}
	return o
}

// odd makes any value.
func (d *dice) odd(depth int) any {
	switch n := d.roll(8); {
	case n == 0:
		return nil
	case n == 1:
		return one(d, true, false)
	case n == 2:
		return one(d, json.Number("1.50"), "1e400", json.Number("-0"), json.Number("12345678901234567890"))
	case n == 3 && depth > 0:
		return []any{d.odd(depth - 1), d.odd(depth - 1)}
	case n == 4 && depth > 0:
		return d.members(func() any { return d.odd(depth - 1) })
	case n == 5:
		return []any{}
	case n == 6:
		return map[string]any{}
	}
	return one(d, texts...)
}

// kindsInOrder are the kinds of convertible, sorted.
func kindsInOrder() []string {
	var all []string
	for kind := range convertible {
		all = append(all, kind)
	}
	slices.Sort(all)
	return all
}
