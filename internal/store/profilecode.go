package store

// This file implements the encoding of profiles: a table of strings, then records of variable-length integers.

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/opspec"
	"gpuemu/internal/verdict"
)

// profile is a profile with the row of its result: its id in results, or its place in its pack.
type profile struct {
	row int64
	verdict.Profile
}

// Flags of a record.
const (
	flagVacuous = 1 << iota
	flagReadable
	flagLean
	flagHalves
	flagShrunk
)

// listMark is between the parts of a list that is one string of the table.
const listMark = "\x1f"

// encodeProfiles is the body of a row of profiles.
func encodeProfiles(list []profile) []byte {
	index := map[string]uint64{}
	var table []string
	name := func(b []byte, s string) []byte {
		i, ok := index[s]
		if !ok {
			i = uint64(len(table))
			index[s], table = i, append(table, s)
		}
		return binary.AppendUvarint(b, i)
	}
	var records []byte
	var row, finished int64
	for i := range list {
		records = appendProfile(records, &list[i], list[i].row-row, nanos(list[i].Time)-finished, name)
		row, finished = list[i].row, nanos(list[i].Time)
	}
	out := binary.AppendUvarint(nil, uint64(len(table)))
	for _, s := range table {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	return append(binary.AppendUvarint(out, uint64(len(list))), records...)
}

// appendProfile appends one record. row and finished are differences to the one before.
func appendProfile(b []byte, p *profile, row, finished int64, name func([]byte, string) []byte) []byte {
	b = binary.AppendVarint(binary.AppendVarint(b, row), finished)
	for _, s := range []string{p.Op, p.DType, p.Candidate, p.Reference} {
		b = name(b, s)
	}
	flags := byte(0)
	for i, set := range []bool{p.Vacuous, p.Readable, p.Lean != compare.Lean{}, p.Halves != compare.Lean{}, p.Shrunk} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, byte(p.Verdict), flags)
	b = binary.LittleEndian.AppendUint64(b, p.Key)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.MaxAbs))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.MaxRatio))
	for i, l := range []compare.Lean{p.Lean, p.Halves} {
		if flags&(flagLean<<i) != 0 {
			b = binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(b, int64(l.Units)), int64(l.Above)), int64(l.Below))
		}
	}
	if !p.Readable {
		return b
	}
	names := make([]string, len(p.Dims))
	for i, d := range p.Dims {
		names[i] = d.Name
	}
	for _, list := range [][]string{p.Layouts, p.Values, names} {
		b = name(b, strings.Join(list, listMark))
	}
	b = binary.AppendUvarint(b, uint64(len(p.Sizes)))
	for _, n := range p.Sizes {
		b = binary.AppendVarint(b, int64(n))
	}
	for _, d := range p.Dims {
		b = binary.AppendVarint(b, int64(d.Value))
	}
	return b
}

// profileReader reads a body back.
type profileReader struct {
	b     []byte
	bad   bool
	table []string
	lists map[uint64][]string // of the table, split
}

var errProfiles = errors.New("profiles of results cannot be decoded")

func (r *profileReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	return n + r.take(size)
}

func (r *profileReader) varint() int64 {
	n, size := binary.Varint(r.b)
	return n + int64(r.take(size))
}

// take goes on by so many bytes; it returns 0.
func (r *profileReader) take(size int) uint64 {
	if size <= 0 || size > len(r.b) {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return 0
}

func (r *profileReader) fixed() uint64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	n := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return n
}

func (r *profileReader) octet() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	x := r.b[0]
	r.b = r.b[1:]
	return x
}

func (r *profileReader) name() string {
	i := r.uvarint()
	if i >= uint64(len(r.table)) {
		r.bad = true
		return ""
	}
	return r.table[i]
}

func (r *profileReader) list() []string {
	i := r.uvarint()
	if i >= uint64(len(r.table)) {
		r.bad = true
		return nil
	}
	list, ok := r.lists[i]
	if !ok && r.table[i] != "" {
		list = strings.Split(r.table[i], listMark)
		r.lists[i] = list
	}
	return list
}

func (r *profileReader) lean(set bool) compare.Lean {
	if !set {
		return compare.Lean{}
	}
	return compare.Lean{Units: int(r.varint()), Above: int(r.varint()), Below: int(r.varint())}
}

// decodeProfiles calls yield for each profile of a body. What it is given is valid during the call only.
func decodeProfiles(body []byte, yield func(*profile) error) error {
	r := &profileReader{b: body, lists: map[uint64][]string{}}
	for range min(r.uvarint(), uint64(len(body))) {
		n := int(min(r.uvarint(), uint64(len(r.b))))
		r.table = append(r.table, string(r.b[:n]))
		r.b = r.b[n:]
	}
	count := r.uvarint()
	var p profile
	var finished int64
	for range min(count, uint64(len(body))) {
		p.row += r.varint()
		finished += r.varint()
		p.Time = fromNanos(finished).In(time.UTC)
		p.Op, p.DType, p.Candidate, p.Reference = r.name(), r.name(), r.name(), r.name()
		p.Verdict = verdict.Verdict(r.octet())
		flags := r.octet()
		p.Vacuous, p.Readable, p.Shrunk = flags&flagVacuous != 0, flags&flagReadable != 0, flags&flagShrunk != 0
		p.Key, p.MaxAbs = r.fixed(), math.Float64frombits(r.fixed())
		p.MaxRatio = math.Float64frombits(r.fixed())
		p.Lean, p.Halves = r.lean(flags&flagLean != 0), r.lean(flags&flagHalves != 0)
		r.exercised(&p)
		if r.bad {
			return errProfiles
		}
		if err := yield(&p); err != nil {
			return err
		}
	}
	if r.bad || len(r.b) > 0 {
		return errProfiles
	}
	return nil
}

// exercised reads what the case exercised.
func (r *profileReader) exercised(p *profile) {
	p.Layouts, p.Values, p.Sizes, p.Dims = nil, nil, p.Sizes[:0], p.Dims[:0]
	if !p.Readable {
		return
	}
	p.Layouts, p.Values = r.list(), r.list()
	names := r.list()
	for range min(r.uvarint(), uint64(len(r.b))) {
		p.Sizes = append(p.Sizes, int(r.varint()))
	}
	for _, n := range names {
		p.Dims = append(p.Dims, opspec.DimValue{Name: n, Value: int(r.varint())})
	}
}
