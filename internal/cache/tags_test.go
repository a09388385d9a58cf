package cache

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Several processes fill, invalidate and hear of each other's invalidations in
// any order and with any delay. An entry that began before an invalidation of
// its tag that the judge has heard of is never valid; one that began after all
// of them, by a filler that had heard of them, always is.
func TestTagOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const processes = 3
		most := rapid.IntRange(4, 40).Draw(t, "most")
		var tables [processes]*tagTable
		for i := range tables {
			tables[i] = newTagTable(most)
			tables[i].apply(news{epoch: 7})
		}
		var log []item // the n-th has number n+1
		type entry struct {
			stamp stamp
			tag   string
			at    int // length of the log when the fill began
			by    int
		}
		var entries []entry
		tag := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("tag", rapid.IntRange(0, 60).Draw(t, "n")) })
		process := rapid.IntRange(0, processes-1)
		hear := func(p int) { // the log from where it stopped
			from := tables[p].stamp().seq
			latest := map[string]item{}
			for _, i := range log[from:] {
				latest[string(i.kind)+i.tag] = i // a tag invalidated again has moved
			}
			n := news{epoch: 7}
			for _, i := range log[from:] {
				if latest[string(i.kind)+i.tag] == i {
					n.items = append(n.items, i)
				}
			}
			tables[p].apply(n)
		}
		t.Repeat(map[string]func(*rapid.T){
			"fill": func(t *rapid.T) {
				p := process.Draw(t, "by")
				entries = append(entries, entry{stamp: tables[p].stamp(), tag: tag.Draw(t, "tag"), at: len(log), by: p})
			},
			"invalidate": func(t *rapid.T) {
				p := process.Draw(t, "by")
				k := rapid.SampledFrom([]kind{kindInvalidate, kindExpire}).Draw(t, "kind")
				name := tag.Draw(t, "tag")
				tables[p].markLocal(k, []string{name})
				log = append(log, item{kind: k, tag: name, seq: uint64(len(log)) + 1})
				if rapid.Bool().Draw(t, "logged") {
					hear(p)
				}
			},
			"hear": func(t *rapid.T) { hear(process.Draw(t, "by")) },
			"": func(t *rapid.T) {
				for _, e := range entries {
					for p, table := range tables {
						s := e.stamp
						if p != e.by {
							s.tick = table.stamp().tick // as when read from Redis
						}
						heard := int(table.stamp().seq)
						got, _ := table.check(s, []string{e.tag})
						want := valid
						for _, i := range log[min(e.at, heard):heard] {
							if i.tag == e.tag && i.kind == kindInvalidate {
								want = invalid
							} else if i.tag == e.tag {
								want = max(want, outdated)
							}
						}
						forgot := table.floor.after(s)
						if got < want && !(forgot && got == outdated) {
							t.Fatalf("process %d says %d of %+v, want at least %d", p, got, e, want)
						}
					}
				}
			},
		})
		for p := range tables {
			hear(p)
		}
		for p, table := range tables {
			s := table.stamp()
			for n := range 61 {
				if got, _ := table.check(s, []string{fmt.Sprint("tag", n)}); got != valid {
					t.Fatalf("process %d: fill that begins now is %d", p, got)
				}
			}
			if n := len(table.invalid) + len(table.expired); n > most {
				t.Fatalf("process %d remembers %d tags, limit %d", p, n, most)
			}
		}
	})
}

func TestLogChange(t *testing.T) {
	t.Parallel()
	table := newTagTable(100)
	table.apply(news{epoch: 1, items: []item{{kindInvalidate, "a", 5}}})
	old := table.stamp()
	table.markLocal(kindInvalidate, []string{"b"})
	table.apply(news{epoch: 2, items: []item{{kindInvalidate, "c", 1}}})
	for _, tc := range []struct {
		name string
		s    stamp
		tag  string
		want verdict
	}{
		{"another log", old, "a", outdated},
		{"another log, invalidated here", old, "b", invalid},
		{"same log, before", stamp{epoch: 2, seq: 0, tick: 1}, "c", invalid},
		{"same log, after", stamp{epoch: 2, seq: 1, tick: 1}, "c", valid},
		{"same log, number of the old one", stamp{epoch: 2, seq: 1, tick: 1}, "a", valid},
	} {
		if got, _ := table.check(tc.s, []string{tc.tag}); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
