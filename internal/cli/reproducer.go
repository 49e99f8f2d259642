package cli

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
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
	b.WriteString("#!/usr/bin/env python3\n\"\"\"Inputs of one case, exported by gpuemu.\n\n")
	fmt.Fprintf(&b, "%s\n", comment(r.Case))
	if shown != nil {
		fmt.Fprintf(&b, "verdict: %s\n%s\ncandidate: %s\nreference: %s\n", shown.Verdict, comment(shown.Message),
			comment(shown.Candidate), comment(shown.Reference))
	}
	b.WriteString("\nimport this file and call inputs(), or put your kernel into run() and run it.\n\"\"\"\n")
	b.WriteString(reproducerHead)
	b.WriteString("IMAGE = (\n")
	encoded := base64.StdEncoding.EncodeToString(image)
	for len(encoded) > 0 {
		n := min(96, len(encoded))
		b.WriteString("    " + strconv.Quote(encoded[:n]) + "\n")
		encoded = encoded[n:]
	}
	b.WriteString(")\n\n")
	b.WriteString(reproducerTail)
	return b.String(), nil
}

// comment makes text safe inside a Python docstring: no quotes that end it, no escapes, no control characters.
func comment(text string) string {
	text = strings.ReplaceAll(text, `\`, "/")
	text = strings.ReplaceAll(text, `"""`, "'''")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return '?'
		}
		return r
	}, text)
}

const reproducerHead = `
import base64
import json
import struct

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


def inputs():
    """The inputs by name, as contiguous arrays."""
    image = base64.b64decode("".join(IMAGE))
    (n,) = struct.unpack("<Q", image[:8])
    header = json.loads(image[8 : 8 + n])
    body = image[8 + n :]
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            out[name] = np.frombuffer(body[lo:hi], dtype=dtype(t["dtype"])).reshape(t["shape"]).copy()
    return out


def run(inputs):
    raise NotImplementedError("put the kernel here")


if __name__ == "__main__":
    for name, x in inputs().items():
        print(name, x.dtype, x.shape)
        print(x)
`
