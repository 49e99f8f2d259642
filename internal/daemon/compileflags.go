// This file implements which arguments of a compiler a request may have.

package daemon

import (
	"regexp"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// sourceSuffixes are the names of sources. Nothing else is given to a compiler: what it does not understand it quotes.
var sourceSuffixes = []string{".cu", ".cuh", ".cc", ".cpp", ".cxx"}

// harmlessFlags are the arguments that change the code and nothing else: none writes a file, loads a library, reads
// further arguments or names a file to include. A list of the others would end with the next compiler.
var harmlessFlags = regexp.MustCompile(`^(` + strings.Join([]string{
	`-[DU][A-Za-z_].*`, `-I[^-@].*`, `-O[0-3]`, `-g`, `-G`, `-w`, `-m64`, `--?std=[a-z+0-9]+`,
	`-W(no-)?[a-z][a-z0-9=+-]*`,
	`--?(use_fast_math|lineinfo|generate-line-info|restrict|extra-device-vectorization)`,
	`--?(ftz|prec-div|prec-sqrt|fmad)=(true|false)`, `--?maxrregcount=[0-9]+`,
	`--?(expt-)?(relaxed-constexpr|extended-lambda)`,
	`-f(no-)?(fast-math|unroll-loops|gpu-rdc|exceptions|rtti|strict-aliasing|inline-functions)`,
	`-f(no-)?(cuda|gpu)-(flush-denormals-to-zero|approx-transcendentals)`,
	`-ffp-contract=(off|on|fast|fast-honor-pragmas)`,
}, `|`) + `)$`)

// withValue are those whose value may be the next argument.
var withValue = []string{"-D", "-U", "-I", "-maxrregcount", "--maxrregcount"}

// checkCompile refuses files and arguments with which a compiler would do other things than compile.
func checkCompile(file string, flags []string) error {
	named := func(suffix string) bool { return strings.HasSuffix(file, suffix) }
	if file != "" && !slices.ContainsFunc(sourceSuffixes, named) {
		return diag.Errorf(BadRequest, "name a file that ends in "+strings.Join(sourceSuffixes, ", "), "file %q is no source",
			cut(file, 200))
	}
	for i := 0; i < len(flags); i++ {
		flag := flags[i]
		if slices.Contains(withValue, flag) && i+1 < len(flags) && !strings.HasPrefix(flags[i+1], "@") {
			separate := "="
			if len(flag) == 2 {
				separate = ""
			}
			i++
			flag += separate + flags[i]
		}
		if !harmlessFlags.MatchString(flag) {
			return diag.Errorf(BadRequest, "definitions, include directories, and options of optimization and of the language "+
				"are taken; compile with others yourself, and give the PTX", "flag %q is not passed on", cut(flag, 200))
		}
	}
	return nil
}
