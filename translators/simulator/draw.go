package simulator

import "github.com/chancery-gateway/chancery/translators/ir"

// Envoy draws one random number per request and compares its remainder with the fraction of each route in turn, and
// picks among weighted clusters by the remainder of the same number (Envoy source: RouteEntryImplBase, pickWeightedCluster).
// So shares depend on each other: after a route with 30 % the next one with 50 % takes 20 % of all requests. With
// denominators 100 and 1,000,000 everything is decided by the number modulo 1,000,000, which draw keeps as 100 classes
// (modulo 100) of 10,000 numbers each.

const (
	classes   = 100
	classSize = 10_000
	whole     = classes * classSize
)

// span is a half-open range of the numbers of one class.
type span struct{ from, to uint32 }

// drawn is a set of random numbers modulo 1,000,000: one span per class.
type drawn [classes]span

// everything returns the set of all numbers.
func everything() drawn {
	var d drawn
	for i := range d {
		d[i] = span{0, classSize}
	}
	return d
}

// size returns how many of 1,000,000 numbers are in the set.
func (d *drawn) size() uint32 {
	n := uint32(0)
	for _, s := range d {
		n += s.to - s.from
	}
	return n
}

// take moves the numbers that a route with the fraction takes out of the set; nil takes all of them.
func (d *drawn) take(f *ir.Fraction) drawn {
	var out drawn
	for class := range d {
		s := &d[class]
		end := s.to
		if f != nil {
			end = min(max(reach(*f, uint32(class)), s.from), s.to)
		}
		out[class] = span{s.from, end}
		s.from = end
	}
	return out
}

// reach returns how many numbers of the class, counted from its lowest, the fraction takes.
func reach(f ir.Fraction, class uint32) uint32 {
	if f.Denominator == classes {
		if class < f.Numerator {
			return classSize
		}
		return 0
	}
	if f.Denominator == 0 {
		return 0
	}
	n := min(uint64(f.Numerator)*whole/uint64(f.Denominator), whole)
	if n <= uint64(class) {
		return 0
	}
	return uint32((n - uint64(class) + classes - 1) / classes)
}

// percent is the share of the set in all requests.
func (d *drawn) percent() float64 { return float64(d.size()) * 100 / whole }

// split returns the share of all requests, in percent, that each of the weights gets of the set.
func (d *drawn) split(weights []uint32) []float64 {
	shares := make([]float64, len(weights))
	if len(weights) == 1 {
		shares[0] = d.percent()
		return shares
	}
	total := uint64(0)
	for _, w := range weights {
		total += uint64(w)
	}
	if total == 0 {
		return shares
	}
	// A number modulo total is known as far as it is decided modulo the common divisor, and even beyond that.
	g := gcd(total, whole)
	count := make([]uint64, g)
	if d.size() == whole {
		g, count = 1, []uint64{whole}
	} else {
		for class, s := range d {
			for q := s.from; q < s.to; q++ {
				count[(uint64(q)*classes+uint64(class))%g]++
			}
		}
	}
	at := uint64(0)
	for i, w := range weights {
		next := at + uint64(w)
		sum := 0.0
		for k, c := range count {
			sum += float64(c) * float64(below(next, uint64(k), g)-below(at, uint64(k), g))
		}
		shares[i] = sum / float64(total/g) * 100 / whole
		at = next
	}
	return shares
}

// below counts the numbers under x whose remainder by g is k.
func below(x, k, g uint64) uint64 {
	if x <= k {
		return 0
	}
	return (x-k-1)/g + 1
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
