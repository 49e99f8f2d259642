package challenge

import (
	"crypto/sha256"
	"encoding/hex"

	"gpuemu/internal/diag"
	"gpuemu/internal/receipt"
	"gpuemu/internal/tensor"
)

// This file implements recording: outputs in, their digests and what fits of their elements out.

// Fill records the outputs of all cases of c, in their order. A single output matches under any name. Wrong values are
// recorded as they are: to judge them is not the signer's business. Wrong names, shapes and types are errors.
func Fill(c *receipt.Challenge, code string, outputs func(index int) ([]tensor.Named, error)) error {
	p, err := newPlan(request(c, code))
	if err != nil {
		return err
	}
	left := budget{MaxData}
	for i := range c.Cases {
		made, err := p.stream.Case(i)
		if err != nil {
			return err
		}
		want, err := p.outputs(made)
		if err != nil {
			return err
		}
		got, err := outputs(i)
		if err != nil {
			return err
		}
		if c.Cases[i].Outputs, err = recorded(i, got, want, left.keeps(want)); err != nil {
			return err
		}
	}
	return nil
}

// recorded is the record of one case.
func recorded(i int, got []tensor.Named, want []declared, keep bool) (map[string]receipt.ChallengeOutput, error) {
	if len(got) == 1 && len(want) == 1 {
		got = []tensor.Named{{Name: want[0].name, Tensor: got[0].Tensor}}
	}
	out := map[string]receipt.ChallengeOutput{}
	for _, w := range want {
		var t *tensor.Tensor
		for _, g := range got {
			if g.Name == w.name {
				t = g.Tensor
			}
		}
		if t == nil {
			return nil, diag.Errorf(BadOutputs, "", "case %d: there is no output %q", i, w.name)
		}
		if _, ok := w.recordedType(t.DType.String()); !ok || !t.Shape.Equal(w.shape) {
			return nil, diag.Errorf(BadOutputs, "", "case %d: output %q is %s%s, want %s%s", i, w.name, t.DType, t.Shape,
				w.dtype, w.shape)
		}
		b := t.Bytes()
		o := receipt.ChallengeOutput{DType: t.DType.String(), Shape: append([]int{}, w.shape...), SHA256: digest(b)}
		if keep {
			o.Data = b
		}
		out[w.name] = o
	}
	if len(got) != len(want) {
		return nil, diag.Errorf(BadOutputs, "", "case %d has %d outputs, want %d", i, len(got), len(want))
	}
	return out, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
