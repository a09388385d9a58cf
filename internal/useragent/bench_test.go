package useragent

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// BenchmarkJudge compares a verdict with the obvious loop over all expressions, in
// alternating slices.
func BenchmarkJudge(b *testing.B) {
	x, n := newIndex(b), newNaive(b)
	agents := slices.Sorted(maps.Keys(people(b)))
	for name, judge := range map[string]func(i int){
		"pass": func(i int) {
			x.matcher.match(agents[i%len(agents)], func(int32) { b.Fatal("a person was taken for a robot") })
		},
		"judge": func(i int) { x.Judge(agents[i%len(agents)]) },
	} {
		b.Run(name, func(b *testing.B) {
			var ratios []float64
			const ours = 2000
			for b.Loop() {
				begin := time.Now()
				for i := range ours {
					judge(i)
				}
				quick := time.Since(begin) / ours
				begin = time.Now()
				for _, agent := range agents {
					n.all(agent)
				}
				ratios = append(ratios, float64(quick)/(float64(time.Since(begin))/float64(len(agents))))
				b.ReportMetric(float64(quick), "ns/verdict")
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
