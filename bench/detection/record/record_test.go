package record

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	want := []Record{
		{Run: Ours, ID: "softmax_row.mask_le.2", Seed: "18446744073709551615", Cases: 3, Failed: 1, First: 3,
			FailDType: "float16", Case: "softmax dims=B:1<2", Reason: "value", Findings: []string{"oob_read"}, Seconds: 0.25},
		{Run: FalseAlarms, ID: "softmax_row", Setting: "mixed", DType: "float32", Cases: 200, Undecided: 1, Seconds: 2},
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Command: "detection ours", Budget: 100, HeldOut: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if err := w.Write(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "ours.jsonl.gz")
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Records, want) {
		t.Errorf("records read back = %+v, want %+v", got.Records, want)
	}
	if h := (Header{Format: Format, Command: "detection ours", Budget: 100, HeldOut: true}); got.Header != h {
		t.Errorf("header read back = %+v, want %+v", got.Header, h)
	}
}

func TestReadSeesFaults(t *testing.T) {
	const head = `{"format":1}` + "\n"
	for text, want := range map[string]string{
		"":             "no header",
		`{"format":2}`: "format is 2, want 1",
		head + `{"run":"ours","id":"x","cases":1,"frist":1}`:              `2: json: unknown field "frist"`,
		head + `{"run":"hours","id":"x","cases":1}`:                       `2: run "hours" is none of`,
		head + `{"run":"ours","cases":1}`:                                 "2: a record without id",
		head + `{"run":"ours","id":"x","cases":1,"first":2}`:              "first failing case 2 (by values 0) of 1 cases",
		head + `{"run":"ours","id":"x","cases":1,"failed":1,"not_run":1}`: "1 failed, 1 not run and 0 undecided of 1 cases",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q) = %v, want an error with %q", text, err, want)
		}
	}
}
