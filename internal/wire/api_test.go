package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

func TestSeedRoundTrip(t *testing.T) {
	for _, seed := range []Seed{0, 1, 1<<53 + 1, math.MaxInt64 + 2, math.MaxUint64} {
		for _, in := range []any{
			&RunRequest{Kind: "fuzz", Seed: &seed}, &RunStarted{Seed: seed}, &ReproduceRequest{Seed: &seed},
			&MinimizeRequest{Seed: seed}, &CalibrateRequest{Seed: &seed}, &CasesRequest{Seed: seed}, &CaseHeader{Seed: seed},
			&SubmitHeader{Seed: &seed}, &ReproduceReply{Result: json.RawMessage("{}"), Others: []CaseRef{{Seed: seed}}},
		} {
			text, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			out := reflect.New(reflect.TypeOf(in).Elem()).Interface()
			if err := json.Unmarshal(text, out); err != nil || !reflect.DeepEqual(in, out) {
				t.Errorf("%s comes back as %+v, %v, want %+v", text, out, err, in)
			}
		}
	}
}

func TestSeedJSON(t *testing.T) {
	if got, err := json.Marshal(Seed(math.MaxUint64)); string(got) != `"18446744073709551615"` {
		t.Errorf("Marshal = %s, %v", got, err)
	}
	for in, want := range map[string]Seed{
		`"18446744073709551615"`: math.MaxUint64, `9007199254740993`: 1<<53 + 1, `"\u0037"`: 7, `"007"`: 7,
	} {
		var got Seed
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("Unmarshal(%s) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{
		`""`, `"-1"`, `-1`, `1.0`, `1e3`, `"0x7"`, `"18446744073709551616"`, `true`, `null`, `" 1"`,
	} {
		var got Seed
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("Unmarshal(%s) = %d, want an error", in, got)
		}
	}
}

func TestRunRequestJSON(t *testing.T) {
	const want = `{"config":"/p/gpuemu.toml","kind":"ci","quick":true,"seed":"9007199254740993","resume":""}`
	in := RunRequest{Config: "/p/gpuemu.toml", Kind: "ci", Quick: true, Seed: ptr(Seed(1<<53 + 1)), Resume: ptr("")}
	if got, err := json.Marshal(in); string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
}

func TestEventJSON(t *testing.T) {
	const want = `{"type":"done","campaign":"c","done":3,"planned":4,"passed":1,"failed":1,"not_run":1,"undecided":0,` +
		`"summary":{"kind":"ci"},"error":{"code":"x-y","message":"m","pos":"f:1:2"}}`
	in := Event{Type: EventDone, Campaign: "c", Done: 3, Planned: 4, Passed: 1, Failed: 1, NotRun: 1,
		Summary: json.RawMessage(`{"kind":"ci"}`), Error: &Error{Code: "x-y", Message: "m", Pos: "f:1:2"}}
	got, err := json.Marshal(in)
	if string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
	if text := in.Error.Error(); text != "f:1:2: m" {
		t.Errorf("Error() = %q, want %q", text, "f:1:2: m")
	}
	if text := (&Error{Message: "m"}).Error(); text != "m" {
		t.Errorf("Error() = %q, want %q", text, "m")
	}
}

// A list of results is what json.Marshal makes of it.
func TestFailuresReplyText(t *testing.T) {
	one, two := json.RawMessage(`{"op":"a"}`), json.RawMessage("[1,2]")
	for _, list := range [][]json.RawMessage{{}, {one}, {one, two}} {
		for _, fixed := range [][]int{nil, {0}, {0, 1}} {
			reply := &FailuresReply{Results: list, Fixed: fixed}
			want, err := json.Marshal(reply)
			if got := reply.Text(); err != nil || string(got) != string(want) {
				t.Errorf("Text() = %s, want %s (%v)", got, want, err)
			}
		}
	}
}
