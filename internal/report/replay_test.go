package report

import (
	"testing"

	"gpuemu/internal/verdict"
)

func TestReplayOfClients(t *testing.T) {
	const generated = "mine dtype=float32 dims=n:4 in=x:float32[4]:contiguous:normal seed=7 gen=1"
	const given = "mine dtype=float32 dims=n4:4 in=x:float32[4]:contiguous:stored seed=7 gen=1"
	for _, tt := range []struct {
		name string
		r    verdict.Result
		want string
	}{
		{"no case", verdict.Result{}, ""},
		{"engine", verdict.Result{Op: "mine", Case: generated, Candidate: "k.py:f"}, "gpuemu reproduce '" + generated + "'"},
		{"client", verdict.Result{Op: "mine", Case: generated, Candidate: "client", Reference: "builtin:relu"},
			"gpuemu reproduce '" + generated + "'"},
		{"inputs of a client", verdict.Result{Op: "mine", Case: given, Candidate: "client", Reference: "builtin:relu",
			Inputs: "ab"}, "gpuemu reproduce '" + given + "'"},
		{"reference of a client", verdict.Result{Op: "mine", Case: generated, Candidate: "client", Reference: "client"},
			`in Python: gpuemu.Client().replay("` + generated + `", run_op, reference=reference)`},
		{"schema of a client", verdict.Result{Op: "mine", Case: generated, Candidate: "client", Reference: "builtin:relu",
			Schema: "client"}, `in Python: gpuemu.Client().replay("` + generated + `", run_op, op_schema=op_schema)`},
		{"op of a client", verdict.Result{Op: "mine", Case: generated, Candidate: "client", Reference: "client",
			Schema: "client", Inputs: "ab"}, `in Python: gpuemu.Client().replay("` + generated +
			`", run_op, op_schema=op_schema, reference=reference)`},
		{"inputs and reference of a client", verdict.Result{Op: "mine", Case: given, Candidate: "client", Reference: "client",
			Inputs: "ab"}, `in Python: gpuemu.Client().replay("` + given + `", run_op, reference=reference)`},
		{"these, not stored", verdict.Result{Op: "mine", Case: given, Candidate: "client", Reference: "client"},
			"run the fuzz of the client again with its seed: the inputs of mine are not stored"},
	} {
		if got := Replay(&tt.r); got != tt.want {
			t.Errorf("%s: Replay = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestStoreNote(t *testing.T) {
	const given = "mine dtype=float32 dims=n4:4 in=x:float32[4]:contiguous:stored seed=7 gen=1"
	const generated = "mine dtype=float32 dims=n:4 in=x:float32[4]:contiguous:normal seed=7 gen=1"
	for _, tt := range []struct {
		name string
		r    verdict.Result
		want string
	}{
		{"no case", verdict.Result{Op: "mine"}, ""},
		{"generated", verdict.Result{Op: "mine", Case: generated, Inputs: "ab"}, ""},
		{"stored", verdict.Result{Op: "mine", Seed: 7, Case: given, Inputs: "ab"},
			"this store alone has the inputs: gpuemu reproduce 7 --op mine --export FILE.safetensors writes them to a file"},
		{"not stored", verdict.Result{Op: "mine", Case: given},
			"the text of this case does not give its inputs, and they are not stored"},
	} {
		if got := StoreNote(&tt.r); got != tt.want {
			t.Errorf("%s: StoreNote = %q, want %q", tt.name, got, tt.want)
		}
	}
}
