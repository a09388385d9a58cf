package bot

import "math/bits"

// window counts what happened in a sliding stretch of time: exactly in the
// current stretch, and in proportion in the one before.
type window struct {
	slot      int32 // there are many windows, and none is shorter than ten seconds
	cur, prev uint32
}

func (w *window) roll(now, length int64) {
	slot := int32(now / length) //nolint:gosec // for 680 years
	switch slot - w.slot {
	case 0:
	case 1:
		w.slot, w.prev, w.cur = slot, w.cur, 0
	default:
		if slot > w.slot || w.slot-slot > 1 { // a clock that was set back starts anew
			*w = window{slot: slot}
		}
	}
}

func (w *window) add(now, length int64, n uint32) {
	w.roll(now, length)
	w.cur += n
}

func (w *window) count(now, length int64) int {
	w.roll(now, length)
	past := now - int64(w.slot)*length
	return int(w.cur) + int(int64(w.prev)*max(length-past, 0)/length)
}

// sketch counts distinct values, by linear counting: one bit for each.
type sketch struct {
	slot      int64
	cur, prev [4]uint64
}

func (s *sketch) roll(now, length int64) {
	slot := now / length
	switch {
	case slot == s.slot:
	case slot == s.slot+1:
		s.slot, s.prev, s.cur = slot, s.cur, [4]uint64{}
	default:
		*s = sketch{slot: slot}
	}
}

func (s *sketch) add(now, length int64, value uint64) {
	s.roll(now, length)
	value *= 0x9e3779b97f4a7c15 // spread
	s.cur[value>>62] |= 1 << (value >> 56 & 63)
}

// count estimates the distinct values of this stretch and the one before. A
// full sketch says "many".
func (s *sketch) count(now, length int64) int {
	s.roll(now, length)
	ones := 0
	for i := range s.cur {
		ones += bits.OnesCount64(s.cur[i] | s.prev[i])
	}
	return distinct[ones]
}

// distinct is -m·ln(zeros/m) for m = 256 bits.
var distinct = func() (table [257]int) {
	for ones := range table {
		zeros := max(256-ones, 1)
		// ln by its series in the ratio of neighbours: a table of 257 needs no more.
		sum := 0.0
		for z := 256; z > zeros; z-- {
			sum += 256 / float64(z)
		}
		table[ones] = int(sum + 0.5)
	}
	return table
}()
