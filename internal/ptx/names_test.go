package ptx

import "testing"

func TestSourceName(t *testing.T) {
	for symbol, want := range map[string]string{
		"softmax": "softmax", "_Z7softmaxPfS_i": "softmax", "_ZN4mine5inner4axpyEPf": "axpy", "_ZL5localPf": "local",
		"_Z3addIfEvPT_": "add", "_Z": "_Z", "_Z99x": "_Z99x", "_Z0": "_Z0", "_ZN": "_ZN", "_Z99999999999999999999999x": "",
	} {
		if want == "" {
			want = symbol
		}
		if got := SourceName(symbol); got != want {
			t.Errorf("SourceName(%q) = %q, want %q", symbol, got, want)
		}
	}
}
