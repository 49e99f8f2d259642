package daemon

import (
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// A request changes what code is made, and cannot make a compiler write, load or read anything else.
func TestCompileFlags(t *testing.T) {
	for _, line := range []string{"", "-DLEAST=0.5f", "-D LEAST=0.5f -U X", "-I/opt/include -I include",
		"-O3 --use_fast_math",
		"-std=c++17 -Wall -Wno-unused-variable -w", "-maxrregcount=32 --maxrregcount 64 -ftz=true", "-g -G -lineinfo",
		"--expt-relaxed-constexpr --expt-extended-lambda", "-ffast-math -fno-exceptions -ffp-contract=off"} {
		if err := checkCompile("/p/kernel.cu", strings.Fields(line)); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, line := range []string{"-o /p/x", "-o/p/x", "-MD -MF /p/x", "-MMD", "--output-file /p/x", "-save-temps",
		"--keep", "-fplugin=/p/x.so", "-Xclang -load", "@/p/x", "-include /p/x", "-serialize-diagnostics /p/x",
		"--config /p/x", "-ccbin /p/x", "-Wp,-MD,/p/x", "-Wl,x", "-fprofile-instr-generate=/p/x", "-ftime-trace=/p/x",
		"-fcrash-diagnostics-dir=/p", "-B/p", "-imacros /p/x", "-x c", "-D", "-D @/p/x", "-D -o", "-I", "-I -o",
		"/p/other.cu", "-mllvm x", "-dumpdir /p", "-frecord-command-line", "-odir /p", "--options-file /p/x", "-optf /p/x",
		"-fpass-plugin=/p/x", "-Xptxas -v", "-v", "-###", "-specs=/p/x"} {
		if err := checkCompile("", strings.Fields(line)); diag.CodeOf(err) != BadRequest {
			t.Errorf("%q: %v, want a refusal", line, err)
		}
	}
	for _, file := range []string{"/proc/self/mem", "/p/secret.txt", "/dev/zero", "/p/kernel.cu/", "/p/.bashrc"} {
		if err := checkCompile(file, nil); diag.CodeOf(err) != BadRequest {
			t.Errorf("%q: %v, want a refusal", file, err)
		}
	}
	if !slices.Contains(sourceSuffixes, ".cu") {
		t.Error("a .cu file is no source")
	}
}
