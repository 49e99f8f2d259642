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
		{"op of a client", verdict.Result{Op: "mine", Case: given, Candidate: "client", Reference: "client", Inputs: "ab"},
			`in Python, with this store: gpuemu.Client().reproduce("` + given + `").inputs, and call the kernel with them: ` +
				"only its client knows mine"},
		{"op of a client, not stored", verdict.Result{Op: "mine", Case: given, Candidate: "client", Reference: "client"},
			"run the fuzz of the client again with its seed: the inputs of mine are not stored"},
	} {
		if got := Replay(&tt.r); got != tt.want {
			t.Errorf("%s: Replay = %q, want %q", tt.name, got, tt.want)
		}
	}
}
