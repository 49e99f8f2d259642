package oracle_test

import (
	"testing"

	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
)

// Found by the soak and by PyTorch on a GPU: honest kernels give NaN there, so the contract does not decide.
func TestAttentionLeavesOpen(t *testing.T) {
	for _, c := range []struct {
		name, text string
		index      int
	}{
		{"a weight that is flushed once it is divided by the sum, times an infinity",
			"window_attention dtype=bfloat16 dims=B:8,HQ:15,HKV:1,M:8,N:16,D:16 attrs=causal:true,align:bottom_right," +
				"window:16,scale:0.0,math:gpu in=q:bfloat16[8,15,8,16]:contiguous:boundary in=k:bfloat16[8,1,16,16]:" +
				"contiguous:normal in=v:bfloat16[8,1,16,16]:contiguous:nan_injected seed=14148294521203139332 gen=1",
			((6*15+8)*8+7)*16 + 10},
		{"a tile whose own maximum is far below zero",
			"attention dtype=float64 dims=B:1,HQ:2,HKV:1,M:16,N:33,D:16 attrs=causal:false,align:bottom_right,window:0," +
				"scale:0.0,math:gpu in=q:float64[1,2,16,16]:contiguous:boundary in=k:float64[1,1,33,16]:contiguous:" +
				"boundary in=v:float64[1,1,33,16]:contiguous:boundary seed=16256078205589393043 gen=1",
			(1*16 + 13) * 16},
		{"a hidden score that overflows, so that -inf added to it is NaN",
			"decode_attention dtype=float32 dims=B:2,HQ:6,HKV:1,N:2,D:8 attrs=scale:0.0,math:gpu " +
				"in=q:float32[2,6,8]:transposed:adversarial in=k:float32[2,1,2,8]:contiguous:adversarial " +
				"in=v:float32[2,1,2,8]:strided:adversarial in=kv_len:int32[2]:contiguous:index seed=10407862903265569675 " +
				"gen=1", 2 * 8},
	} {
		cs, err := opspec.ParseCase(c.text)
		if err != nil {
			t.Fatal(err)
		}
		op, _ := oracle.Lookup(cs.Op)
		inputs, err := gen.Inputs(op.Schema, cs)
		if err != nil {
			t.Fatal(err)
		}
		want, err := oracle.Evaluate(op, inputs, cs.AttrMap(), cs.DType)
		if err != nil {
			t.Fatal(err)
		}
		out := want["output"]
		if out.Undetermined == nil || !out.Undetermined[c.index] {
			t.Errorf("%s: element %d is %v, want it undetermined", c.name, c.index, out.Value[c.index])
		}
	}
}
