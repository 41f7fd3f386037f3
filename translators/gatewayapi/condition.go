package gatewayapi

import "github.com/chancery-gateway/chancery/translators/ir"

func yes(kind, reason, message string) ir.Condition {
	return ir.Condition{Type: kind, True: true, Reason: reason, Message: message}
}

func no(kind, reason, message string) ir.Condition {
	return ir.Condition{Type: kind, Reason: reason, Message: message}
}

// verdict is one condition that holds until something is held against it; the first objection stays.
type verdict struct{ reason, message string }

func (d *verdict) object(reason, message string) {
	if d.reason == "" {
		d.reason, d.message = reason, message
	}
}

func (d *verdict) stands() bool { return d.reason == "" }

// condition returns the condition, good being the reason of one that holds.
func (d *verdict) condition(kind, good, message string) ir.Condition {
	if d.reason != "" {
		return no(kind, d.reason, d.message)
	}
	return yes(kind, good, message)
}
