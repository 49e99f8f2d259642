package wire

import (
	"slices"
	"strings"
)

// This file implements what of its caller's environment a request carries. An engine that has been running for hours
// must not execute today's request with the variables of then; docs/environment.md lists them for users.

//go:generate go test . -count=1 -run EnvironmentPython -update

// Environment are variables of a caller by name. What the request executes sees these and no others, whatever the
// engine was started with. They are held in memory while they are needed, and never stored or logged.
type Environment map[string]string

// PassVariable names further variables, separated by commas.
const PassVariable = "GPUEMU_PASS_ENV"

// Carried are the variables that requests carry; a name that ends in * stands for all that begin so.
func Carried() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SOURCE_DATE_EPOCH",
		"GPUEMU_*", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_*", "MALLOC_*", "GLIBC_TUNABLES", "ASAN_*",
		"LSAN_*", "UBSAN_*", "TSAN_*", "PYTHON*", "VIRTUAL_ENV", "CONDA_*", "NUMPY_*", "NPY_*", "CC", "CXX",
		"CPP", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
		"LIBRARY_PATH", "NVCC_*", "CUDA*", "NVIDIA_*", "CUBLAS*", "CUDNN_*", "CUTLASS_*", "NCCL_*", "HIP_*",
		"ROCM_*", "ROCR_*", "HSA_*", "TRITON_*", "TORCH*", "PYTORCH_*", "JAX_*", "XLA_*", "TF_*", "KERAS_*",
		"CUPY_*", "NUMBA_*", "TVM_*", "OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "BLIS_*", "VECLIB_*",
		"NUMEXPR_*",
	}
}

// Secret are parts of names that no request carries by itself: such a variable is named in PassVariable, or left out.
func Secret() []string {
	return []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "PRIVATE_KEY",
		"ACCESS_KEY"}
}

// EnvironmentOf returns what a request carries of an environment, given as NAME=value. It is never nil.
func EnvironmentOf(environ []string) Environment {
	all := Environment{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			all[name] = value
		}
	}
	asked := strings.Split(all[PassVariable], ",")
	for i := range asked {
		asked[i] = strings.TrimSpace(asked[i])
	}
	carried, secret := Carried(), Secret()
	out := Environment{}
	for name, value := range all {
		if slices.Contains(asked, name) || carries(carried, name) && !isSecret(secret, name) {
			out[name] = value
		}
	}
	return out
}

func carries(carried []string, name string) bool {
	return slices.ContainsFunc(carried, func(c string) bool {
		prefix, all := strings.CutSuffix(c, "*")
		return c == name || all && strings.HasPrefix(name, prefix)
	})
}

func isSecret(secret []string, name string) bool {
	return slices.ContainsFunc(secret, func(s string) bool { return strings.Contains(strings.ToUpper(name), s) })
}

// List returns the variables as NAME=value, by name.
func (e Environment) List() []string {
	list := make([]string, 0, len(e))
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
