// Package challenge makes cases that a signer cannot choose, and checks again on the CPU what a GPU computed for them.
//
// The master seed of a challenge follows from the digest of the code under test, so that nobody picks the cases their
// kernel is good at; a nonce of the verifier's makes it impossible to change the code until the cases suit. Make gives
// the cases of a challenge, Fill records outputs, Recheck makes the cases once more, computes the reference on the CPU
// and judges what was recorded. With the text of the kernel at hand it runs that in the emulator, too.
//
// The package reads no receipt and no repository: what it is given is data, and the text of a kernel comes from a
// function of the caller's. The JSON form is that of package receipt.
package challenge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/receipt"
	"gpuemu/internal/tensor"
)

// This file implements the cases of a challenge: seeds, texts, digests of inputs.

const (
	// MaxCases is how many cases a challenge may have. A verifier computes them all: a thousand take a minute.
	MaxCases = 1000
	// MaxData is how many bytes of outputs a challenge keeps. A receipt is committed to a repository.
	MaxData = 64 << 10
	// maxNonce is how long a nonce may be: a random one of 32 bytes has 64 digits.
	maxNonce = 256
)

// defaultValues is the distribution that gpuemu cases draws from.
const defaultValues = "mixed"

// Seed is the master seed of a challenge. The text that is hashed has a line of its own for each part, none of which
// has line breaks (Make and Recheck see to that), so that no two challenges share a text.
func Seed(code, nonce, op, dtype string) uint64 {
	text := "gpu-proof challenge v1\n" + code + "\n" + nonce + "\n" + op + "\n" + dtype + "\n"
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8])
}

// Request says which challenge is wanted.
type Request struct {
	Code       string // digest of the code, 64 hex digits
	Nonce      string // of the verifier's; "": none
	Op         string // name or alias
	DType      string
	Values     string
	Attributes map[string]string
	Count      int
}

// Make returns a challenge without outputs: its cases, their inputs digested.
func Make(ctx context.Context, req Request) (*receipt.Challenge, error) {
	p, err := newPlan(req)
	if err != nil {
		return nil, err
	}
	out := &receipt.Challenge{Op: p.op.Name, Attributes: map[string]string{}, DType: p.dtype.String(), Values: p.values,
		Seed: strconv.FormatUint(p.seed, 10), Count: req.Count, Nonce: req.Nonce, Cases: []receipt.ChallengeCase{}}
	for name, text := range req.Attributes {
		out.Attributes[name] = text
	}
	for i := range req.Count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, inputs, err := p.make(i)
		if err != nil {
			return nil, err
		}
		out.Cases = append(out.Cases, receipt.ChallengeCase{Index: i, Case: c.String(), Inputs: InputsDigest(c, inputs),
			Outputs: map[string]receipt.ChallengeOutput{}})
	}
	return out, nil
}

// Inputs makes the inputs of case i of c, in the order of the operator, for whoever is to run it.
func Inputs(c *receipt.Challenge, code string, i int) ([]tensor.Named, error) {
	p, err := newPlan(request(c, code))
	if err != nil {
		return nil, err
	}
	made, inputs, err := p.make(i)
	if err != nil {
		return nil, err
	}
	return named(made, inputs), nil
}

func request(c *receipt.Challenge, code string) Request {
	return Request{Code: code, Nonce: c.Nonce, Op: c.Op, DType: c.DType, Values: c.Values, Attributes: c.Attributes,
		Count: c.Count}
}

// named are inputs in the order of the case, which is that of the schema.
func named(c opspec.Case, inputs map[string]*tensor.Tensor) []tensor.Named {
	out := make([]tensor.Named, 0, len(c.Inputs))
	for _, in := range c.Inputs {
		out = append(out, tensor.Named{Name: in.Name, Tensor: inputs[in.Name]})
	}
	return out
}

// InputsDigest is the hex SHA-256 of the inputs of a case in its order: for each the line "NAME DTYPE[SHAPE]" and its
// elements, little endian, row by row.
func InputsDigest(c opspec.Case, inputs map[string]*tensor.Tensor) string {
	h := sha256.New()
	for _, in := range c.Inputs {
		t := inputs[in.Name]
		io.WriteString(h, in.Name+" "+t.DType.String()+t.Shape.String()+"\n")
		h.Write(t.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// plan is a request that was understood.
type plan struct {
	op     *oracle.Op
	dtype  dtype.DType
	values string
	seed   uint64
	stream *gen.Stream
}

func newPlan(req Request) (*plan, error) {
	op, ok := oracle.Lookup(req.Op)
	if !ok {
		return nil, diag.Errorf(BadChallenge, diag.Suggest(req.Op, oracle.Names(), "gpuemu ops lists the names"),
			"the catalogue has no operator %q", req.Op)
	}
	d, err := dtype.Parse(req.DType)
	if err != nil {
		return nil, diag.Errorf(BadChallenge, diag.HintOf(err), "challenge of %s: %w", op.Name, err)
	}
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	attrs, err := op.Schema.ResolveAttrs(req.Attributes)
	if err != nil {
		return nil, diag.Errorf(BadChallenge, diag.HintOf(err), "challenge of %s: %w", op.Name, err)
	}
	p := &plan{op: op, dtype: d, values: req.Values, seed: Seed(req.Code, req.Nonce, op.Name, d.String())}
	if p.values == "" {
		p.values = defaultValues
	}
	st := gen.Strategy{Values: p.values, DTypes: []dtype.DType{d}, Layouts: []tensor.Layout{tensor.Contiguous},
		Attrs: opspec.Attrs{}}
	for name := range req.Attributes {
		st.Attrs[name] = attrs[name]
	}
	if p.stream, err = gen.Cases(op.Schema, st, p.seed); err != nil {
		return nil, diag.Errorf(BadChallenge, diag.HintOf(err), "challenge of %s: %w", op.Name, err)
	}
	return p, nil
}

func checkRequest(req Request) error {
	if b, err := hex.DecodeString(req.Code); err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != req.Code {
		return diag.Errorf(BadChallenge, "gpu-proof snapshot prints it", "the digest of the code is %q, want 64 hex digits",
			req.Code)
	}
	for _, r := range req.Nonce {
		if r <= ' ' || r > '~' {
			return diag.Errorf(BadChallenge, "", "the nonce has the character %q, want printable ASCII without blanks", r)
		}
	}
	if len(req.Nonce) > maxNonce {
		return diag.Errorf(BadChallenge, "", "the nonce has %d characters, want at most %d", len(req.Nonce), maxNonce)
	}
	if req.Count < 1 || req.Count > MaxCases {
		return diag.Errorf(BadChallenge, "", "a challenge of %d cases, want 1 to %d", req.Count, MaxCases)
	}
	return nil
}

// make makes case i and its inputs.
func (p *plan) make(i int) (opspec.Case, map[string]*tensor.Tensor, error) {
	c, err := p.stream.Case(i)
	if err != nil {
		return c, nil, fmt.Errorf("case %d of %s: %w", i, p.op.Name, err)
	}
	inputs, err := gen.Inputs(p.op.Schema, c)
	if err != nil {
		return c, nil, fmt.Errorf("case %d of %s: %w", i, p.op.Name, err)
	}
	return c, inputs, nil
}

// outputs are names, types and shapes of what a case computes, in the order of the schema.
func (p *plan) outputs(c opspec.Case) ([]declared, error) {
	program, err := p.op.Program()
	if err != nil {
		return nil, err
	}
	_, shapes, err := program.Resolve(c.DimMap(), c.AttrMap())
	if err != nil {
		return nil, err
	}
	var out []declared
	for i := range p.op.Schema.Outputs {
		o := &p.op.Schema.Outputs[i]
		d, err := o.ElemType(c.DType, attrsOf(p.op, c))
		if err != nil {
			return nil, err
		}
		out = append(out, declared{o.Name, d, o.Alternatives(), shapes[o.Name]})
	}
	return out, nil
}

// declared is an output as the schema has it.
type declared struct {
	name  string
	dtype dtype.DType
	also  []dtype.DType // permitted in place of dtype
	shape tensor.Shape
}

// bytes is the room that the output may take: that of the widest type it may have.
func (d declared) bytes() int {
	size := d.dtype.Size()
	for _, other := range d.also {
		size = max(size, other.Size())
	}
	return d.shape.Elems() * size
}

// recordedType returns the permitted type of that name.
func (d declared) recordedType(name string) (dtype.DType, bool) {
	for _, t := range append([]dtype.DType{d.dtype}, d.also...) {
		if t.String() == name {
			return t, true
		}
	}
	return d.dtype, false
}

// budget decides which cases keep their outputs: in order, each whose outputs fit into what is left. A signer has no
// say in it.
type budget struct{ left int }

func (b *budget) keeps(outputs []declared) bool {
	size := 0
	for _, o := range outputs {
		size += o.bytes()
	}
	if size > b.left {
		return false
	}
	b.left -= size
	return true
}
