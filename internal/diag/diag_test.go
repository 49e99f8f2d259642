package diag

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

const (
	testCode  Code = "diag-test"
	innerCode Code = "diag-inner"
)

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  *Error
		want string
	}{
		{"all", &Error{Pos: Pos{"matmul.ptx", 41, 17}, Code: "ptx-undeclared-reg",
			Msg: "register %f9 is not declared", Hint: "add a .reg directive"},
			"matmul.ptx:41:17: register %f9 is not declared [ptx-undeclared-reg]"},
		{"no column", &Error{Pos: Pos{"a.toml", 3, 0}, Code: testCode, Msg: "m"}, "a.toml:3: m [diag-test]"},
		{"file only", &Error{Pos: Pos{File: "a.toml"}, Code: testCode, Msg: "m"}, "a.toml: m [diag-test]"},
		{"line only", &Error{Pos: Pos{Line: 2, Col: 5}, Code: testCode, Msg: "m"}, "2:5: m [diag-test]"},
		{"column without line", &Error{Pos: Pos{File: "f", Col: 5}, Msg: "m"}, "f: m"},
		{"no position", &Error{Code: testCode, Msg: "m"}, "m [diag-test]"},
		{"no code", &Error{Msg: "m"}, "m"},
		{"At", Errorf(testCode, "", "m").At(Pos{"f", 1, 2}), "f:1:2: m [diag-test]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("Error() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPosIsZero(t *testing.T) {
	if !(Pos{}).IsZero() {
		t.Error("Pos{}.IsZero() = false, want true")
	}
	for _, p := range []Pos{{File: "f"}, {Line: 1}, {Col: 1}} {
		if p.IsZero() {
			t.Errorf("%+v.IsZero() = true, want false", p)
		}
	}
}

func TestErrorfWraps(t *testing.T) {
	other := errors.New("other")
	for _, tt := range []struct {
		name  string
		err   *Error
		msg   string
		is    []error
		isNot []error
	}{
		{"no cause", Errorf(testCode, "h", "%d of %d", 1, 2), "1 of 2", nil, []error{fs.ErrNotExist}},
		{"%v hides the cause", Errorf(testCode, "h", "open: %v", fs.ErrNotExist), "open: file does not exist",
			nil, []error{fs.ErrNotExist}},
		{"one cause", Errorf(testCode, "h", "open: %w", fs.ErrNotExist), "open: file does not exist",
			[]error{fs.ErrNotExist}, []error{other}},
		{"two causes", Errorf(testCode, "h", "%w, %w", fs.ErrNotExist, other), "file does not exist, other",
			[]error{fs.ErrNotExist, other}, []error{fs.ErrExist}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.err.Msg != tt.msg || tt.err.Hint != "h" || tt.err.Code != testCode {
				t.Errorf("Errorf = %+v, want message %q, hint h, code %s", tt.err, tt.msg, testCode)
			}
			for _, is := range tt.is {
				if !errors.Is(tt.err, is) {
					t.Errorf("errors.Is(%v, %v) = false, want true", tt.err, is)
				}
			}
			for _, is := range tt.isNot {
				if errors.Is(tt.err, is) {
					t.Errorf("errors.Is(%v, %v) = true, want false", tt.err, is)
				}
			}
		})
	}
}

// hinted is an error of a package that does not import diag.
type hinted struct{}

func (hinted) Error() string { return "hinted" }
func (hinted) Hint() string  { return "its hint" }

func TestHintAndCode(t *testing.T) {
	inner := Errorf(innerCode, "inner hint", "inner")
	for _, tt := range []struct {
		name string
		err  error
		hint string
		code Code
	}{
		{"nil", nil, "", ""},
		{"nil *Error", (*Error)(nil), "", ""},
		{"plain", errors.New("x"), "", ""},
		{"direct", inner, "inner hint", innerCode},
		{"wrapped", fmt.Errorf("outer: %w", inner), "inner hint", innerCode},
		{"outer wins", Errorf(testCode, "outer hint", "outer: %w", inner), "outer hint", testCode},
		{"outer without", &Error{Msg: "outer", Err: inner}, "inner hint", innerCode},
		{"joined", errors.Join(errors.New("x"), fmt.Errorf("y: %w", inner)), "inner hint", innerCode},
		{"joined without", errors.Join(errors.New("x"), errors.New("y")), "", ""},
		{"Hint method", fmt.Errorf("outer: %w", hinted{}), "its hint", ""},
		{"code outside, hint inside", Errorf(testCode, "", "outer: %w", hinted{}), "its hint", testCode},
		{"second of two causes", Errorf("", "", "%w, %w", errors.New("x"), inner), "inner hint", innerCode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := HintOf(tt.err); got != tt.hint {
				t.Errorf("HintOf(%v) = %q, want %q", tt.name, got, tt.hint)
			}
			if got := CodeOf(tt.err); got != tt.code {
				t.Errorf("CodeOf(%v) = %q, want %q", tt.name, got, tt.code)
			}
		})
	}
}
