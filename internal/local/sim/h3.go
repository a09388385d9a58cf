package sim

import (
	"math"
	"strconv"
)

// cellResolution is the H3 resolution of a listing's geoCell: cells of about
// 130 m across, as in the platform's own events ("h3:8a283082aa67fff").
const cellResolution = 10

// geoCell returns the listing's cell as the platform writes it.
func geoCell(p Point) string {
	return "h3:" + strconv.FormatUint(h3Cell(p.Lat, p.Lng, cellResolution), 16)
}

// h3Cell returns the H3 index of the cell that holds a point.
//
// H3 lays a hexagonal grid on the twenty faces of an icosahedron and refines
// it sevenfold per resolution. The steps: pick the nearest face, project the
// point onto it from the sphere's centre, round to the finest hexagon, climb
// to resolution 0 noting the child digit on every level, then turn the digits
// from the face's orientation into that of the base cell (h3Bases).
func h3Cell(lat, lng float64, res int) uint64 {
	p := onSphere(lat, lng)
	face, cos := 0, -2.0
	for i := range h3Faces {
		if d := p.dot(h3Faces[i].normal); d > cos {
			face, cos = i, d
		}
	}
	f := &h3Faces[face]
	scale := math.Pow(7, float64(res)/2) / h3Unit / cos
	x, y := p.dot(f.x)*scale, p.dot(f.y)*scale
	if res%2 == 1 { // odd resolutions are turned against the even ones
		x, y = x*h3TurnCos+y*h3TurnSin, y*h3TurnCos-x*h3TurnSin
	}
	c := nearestHexagon(x, y)

	digits := make([]int, res+1)
	for r := res; r > 0; r-- {
		child := c
		var centre ijk
		c, centre = c.parent(r%2 == 1)
		d := ijk{child[0] - centre[0], child[1] - centre[1], child[2] - centre[2]}.normalised()
		digits[r] = d[0]*4 + d[1]*2 + d[2]
	}

	lead := 0
	for r := 1; r <= res && lead == 0; r++ {
		lead = digits[r]
	}
	base := h3Bases[face][c[0]*9+c[1]*3+c[2]]
	turns := base >> (7 + 3*lead) & 7
	h := uint64(1)<<59 | uint64(res)<<52 | uint64(base&127)<<45 | (1<<45 - 1) //nolint:gosec // 0 ≤ res ≤ 15
	for r := 1; r <= res; r++ {
		d := digits[r]
		for range turns {
			d = h3CounterClockwise[d]
		}
		shift := 45 - 3*r
		h = h&^(7<<shift) | uint64(d)<<shift //nolint:gosec // a digit is 0..6
	}
	return h
}

// h3Unit is the distance of neighbouring resolution-0 centres on a face.
const h3Unit = 0.38196601125010500003

// Odd and even resolutions differ by asin(√(3/28)).
var (
	h3TurnSin = math.Sqrt(3.0 / 28.0)
	h3TurnCos = math.Sqrt(25.0 / 28.0)
)

// h3CounterClockwise turns a child digit by 60°.
var h3CounterClockwise = [7]int{0, 5, 3, 1, 6, 4, 2}

// ijk are hexagon coordinates on three axes 120° apart.
type ijk [3]int

func (c ijk) normalised() ijk {
	m := min(c[0], c[1], c[2])
	return ijk{c[0] - m, c[1] - m, c[2] - m}
}

// parent returns the parent cell and the parent's centre child.
func (c ijk) parent(odd bool) (up, centre ijk) {
	a, b := float64(c[0]-c[2]), float64(c[1]-c[2])
	if odd {
		up = ijk{int(math.Round((3*a - b) / 7)), int(math.Round((a + 2*b) / 7)), 0}.normalised()
		return up, ijk{3*up[0] + up[1], 3*up[1] + up[2], up[0] + 3*up[2]}
	}
	up = ijk{int(math.Round((2*a + b) / 7)), int(math.Round((3*b - a) / 7)), 0}.normalised()
	return up, ijk{3*up[0] + up[2], up[0] + 3*up[1], up[1] + 3*up[2]}
}

// nearestHexagon rounds a point of the plane to the hexagon that holds it.
func nearestHexagon(x, y float64) ijk {
	j := y / (math.Sqrt(3) / 2)
	q, r := x+j/2, -j
	s := -q - r
	rq, rr, rs := math.Round(q), math.Round(r), math.Round(s)
	dq, dr, ds := math.Abs(rq-q), math.Abs(rr-r), math.Abs(rs-s)
	switch { // the coordinate that was rounded farthest follows from the others
	case dq > dr && dq > ds:
		rq = -rr - rs
	case dr > ds:
		rr = -rq - rs
	}
	return ijk{int(rq), -int(rr), 0}.normalised()
}

type vec3 [3]float64

func (a vec3) dot(b vec3) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func (a vec3) cross(b vec3) vec3 {
	return vec3{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func (a vec3) unit() vec3 {
	n := math.Sqrt(a.dot(a))
	return vec3{a[0] / n, a[1] / n, a[2] / n}
}

func onSphere(lat, lng float64) vec3 {
	sinLat, cosLat := math.Sincos(lat * math.Pi / 180)
	sinLng, cosLng := math.Sincos(lng * math.Pi / 180)
	return vec3{cosLat * cosLng, cosLat * sinLng, sinLat}
}

// h3Face is one face of the icosahedron: its normal and the two axes of its
// plane, the first towards the face's first vertex.
type h3Face struct{ normal, x, y vec3 }

// h3Vertices are the icosahedron's vertices in degrees: the centres of the
// twelve pentagons of resolution 0, in the order of their index.
var h3Vertices = [12][2]float64{
	{64.70000012793487, 10.536199075467682},
	{50.103201482241346, -143.47849001502516},
	{39.10000003397593, 122.30000040778702},
	{23.71792527122296, -67.13232636643566},
	{10.44734518751103, 58.157705839572586},
	{2.300882111626747, -5.245390296777324},
	{-2.300882111626747, 174.75460970322266},
	{-10.447345187511027, -121.8422941604274},
	{-23.717925271222967, 112.86767363356437},
	{-39.10000003397592, -57.69999959221297},
	{-50.10320148224133, 36.52150998497484},
	{-64.70000012793489, -169.46380092453242},
}

// h3Faces are all triples of neighbouring vertices, in lexical order. The
// numbering is ours: nothing of it shows in an index.
var h3Faces = func() (faces [20]h3Face) {
	var v [12]vec3
	for i, ll := range h3Vertices {
		v[i] = onSphere(ll[0], ll[1])
	}
	near := func(a, b int) bool { return v[a].dot(v[b]) > 0.4 } // neighbours: 1/√5, others: negative
	n := 0
	for a := range v {
		for b := a + 1; b < len(v); b++ {
			for c := b + 1; c < len(v); c++ {
				if !near(a, b) || !near(a, c) || !near(b, c) {
					continue
				}
				normal := vec3{v[a][0] + v[b][0] + v[c][0], v[a][1] + v[b][1] + v[c][1], v[a][2] + v[b][2] + v[c][2]}.unit()
				d := v[a].dot(normal)
				x := vec3{v[a][0] - d*normal[0], v[a][1] - d*normal[1], v[a][2] - d*normal[2]}.unit()
				faces[n] = h3Face{normal: normal, x: x, y: normal.cross(x)}
				n++
			}
		}
	}
	return faces
}()
