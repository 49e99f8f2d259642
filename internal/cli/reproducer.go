package cli

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/opspec"
	"gpuemu/internal/verdict"
)

// This file implements the stand-alone reproducer: a Python program with the inputs of one case in it.

// maxReproducer bounds the tensors in a reproducer: a program of more than this is no help to anybody.
const maxReproducer = 32 << 20

// reproducerText is the program. It needs numpy alone; bfloat16 and fp8 inputs need ml_dtypes.
func reproducerText(r *daemon.ReproduceReply, image []byte) (string, error) {
	if len(image) > maxReproducer {
		return "", diag.Errorf(Usage, "use --export FILE.safetensors, or minimize the case first",
			"the inputs have %d bytes, a reproducer takes at most %d", len(image), maxReproducer)
	}
	shown := r.Result
	if shown == nil {
		shown = r.Stored
	}
	var b strings.Builder
	b.WriteString("#!/usr/bin/env python3\n\"\"\"One case, exported by gpuemu.\n\n")
	fmt.Fprintf(&b, "%s\n", comment(r.Case))
	kernel := ""
	if shown != nil {
		fmt.Fprintf(&b, "verdict: %s\n%s\ncandidate: %s\nreference: %s\n", shown.Verdict, comment(shown.Message),
			comment(shown.Candidate), comment(shown.Reference))
		kernel = shown.Candidate
	}
	b.WriteString(reproducerUse)
	b.WriteString(reproducerHead)
	fmt.Fprintf(&b, "KERNEL = %s\n", pythonText(kernel))
	writeCase(&b, r.Case)
	writeWanted(&b, shown)
	b.WriteString("IMAGE = (\n")
	encoded := base64.StdEncoding.EncodeToString(image)
	for len(encoded) > 0 {
		n := min(96, len(encoded))
		b.WriteString("    " + strconv.Quote(encoded[:n]) + "\n")
		encoded = encoded[n:]
	}
	b.WriteString(")\n")
	b.WriteString(reproducerTail)
	return b.String(), nil
}

// writeCase writes the attributes and the layouts of a case.
func writeCase(b *strings.Builder, text string) {
	c, err := opspec.ParseCase(text)
	if err != nil { // the text came from gpuemu; without it the inputs are still of use
		c = opspec.Case{}
	}
	b.WriteString("ATTRIBUTES = {")
	for i, a := range c.Attrs {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%s: %s", pythonText(a.Name), pythonValue(a.Value))
	}
	b.WriteString("}\nLAYOUTS = {")
	for i, in := range c.Inputs {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%s: %s", pythonText(in.Name), pythonText(in.Layout.String()))
	}
	b.WriteString("}\n")
}

// writeWanted writes the names of the outputs and what is wanted at the wrong elements that are known.
func writeWanted(b *strings.Builder, r *verdict.Result) {
	var names, wanted strings.Builder
	if r != nil {
		for i := range r.Outputs {
			name := pythonText(r.Outputs[i].Name)
			fmt.Fprintf(&names, "%s, ", name)
			for k := range r.Outputs[i].Worst {
				e := &r.Outputs[i].Worst[k]
				fmt.Fprintf(&wanted, "    (%s, %s, %s, %s),\n", name, strings.ReplaceAll(fmt.Sprint(e.Index), " ", ", "),
					pythonText(e.Want), pythonValue(e.Bound))
			}
		}
	}
	fmt.Fprintf(b, "OUTPUTS = [%s]\nWANTED = [  # output, index, value, bound\n%s]\n",
		strings.TrimSuffix(names.String(), ", "), wanted.String())
}

// pythonText is a string in Python: JSON with nothing but ASCII in it.
func pythonText(text string) string { return strconv.QuoteToASCII(strings.ToValidUTF8(text, "?")) }

// pythonValue is the value of an attribute in Python.
func pythonValue(value any) string {
	switch v := value.(type) {
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprintf("float(%q)", fmt.Sprint(v))
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return pythonText(v)
	}
	return fmt.Sprint(value)
}

// comment makes text safe inside a Python docstring: no quotes that end it, no escapes, nothing that a reader of the
// file does not see.
func comment(text string) string {
	text = strings.ReplaceAll(escape.Block(text), `\`, "/")
	return strings.ReplaceAll(text, `"""`, "'''")
}

const reproducerUse = `
python3 THIS FILE calls the candidate, if it is a function in a file that lies here, and looks at the elements that
were wrong: exit code 1 if one of them still is, 2 if there is nothing to call. python3 THIS FILE OTHER.py:FUNCTION
calls that one. Or put your kernel into run(), or import this file and call inputs().
"""
`

const reproducerHead = `
import base64
import importlib.util
import inspect
import json
import math
import os
import struct
import sys

import numpy as np

`

const reproducerTail = `

def dtype(name):
    short = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16",
             "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool"}
    if name in short:
        return np.dtype(short[name])
    import ml_dtypes

    long = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    return np.dtype(getattr(ml_dtypes, long[name]))


def laid_out(x, layout):
    """x in a layout of that kind; gpuemu draws axes and gaps anew for each case, these are the simplest."""
    if layout == "transposed" and x.ndim >= 2:
        return np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2)
    if layout == "channels_last" and x.ndim >= 3:
        return np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1)
    if layout in ("strided", "sliced") and x.ndim >= 1:
        base = np.empty(x.shape[:-1] + (2 * x.shape[-1] + 2,), x.dtype)
        base.view(np.uint8)[...] = 0xFF  # NaN in every float type
        n = x.shape[-1]
        view = base[..., 1 : 2 * n + 1 : 2] if layout == "strided" else base[..., 1 : n + 1]
        view[...] = x
        return view
    return x  # contiguous; of a broadcast input the values


def inputs():
    """The inputs by name, each in a layout of the kind that the case has."""
    image = base64.b64decode("".join(IMAGE))
    (n,) = struct.unpack("<Q", image[:8])
    header = json.loads(image[8 : 8 + n])
    body = image[8 + n :]
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            x = np.frombuffer(body[lo:hi], dtype=dtype(t["dtype"])).reshape(t["shape"]).copy()
            out[name] = laid_out(x, LAYOUTS.get(name, "contiguous"))
    return out


def run(inputs, kernel=KERNEL):
    """Calls the kernel as gpuemu does: with the inputs by name, and those attributes that it takes."""
    file, _, name = kernel.rpartition(":")
    if not file.endswith(".py") or not os.path.exists(file):
        print("%r is no function in a file here: name FILE.py:FUNCTION, or put the kernel into run()" % kernel)
        sys.exit(2)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("kernel", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    f = getattr(module, name)
    takes = inspect.signature(f).parameters
    every = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    return f(inputs, **{k: v for k, v in ATTRIBUTES.items() if every or k in takes})


def right(got, want, bound):
    if math.isnan(want) or math.isinf(want):
        return got == want or (math.isnan(got) and math.isnan(want))
    return abs(got - want) <= bound


def main():
    arrays = inputs()
    for name, x in arrays.items():
        print(name, x.dtype, x.shape, LAYOUTS.get(name, ""))
    got = run(arrays, *sys.argv[1:2])
    if not WANTED:
        print("it returned; no wrong element of this case is known, see the verdict at the top")
        return 0
    if isinstance(got, dict) and len(OUTPUTS) == 1:  # the name of a single output does not matter
        got = list(got.values())
    if not isinstance(got, dict):
        got = dict(zip(OUTPUTS, got if isinstance(got, (tuple, list)) else [got]))
    wrong = 0
    for name, index, want, bound in WANTED:
        x = float(np.asarray(got[name])[tuple(index)])
        ok = right(x, float(want), bound)
        wrong += not ok
        print("right" if ok else "WRONG", name, index, "got", x, "want", want, "bound", bound)
    print("%d of %d elements that were wrong still are" % (wrong, len(WANTED)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
`
