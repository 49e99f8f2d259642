package receipt

// This file implements the form of challenges: what they mean is the business of package challenge.

// Challenge is one operator in one number format: which cases follow from the code, and what came out of them.
type Challenge struct {
	Op string `json:"op"`
	// Attributes are those that are not drawn, in the form of --attr.
	Attributes map[string]string `json:"attributes"`
	DType      string            `json:"dtype"`
	Values     string            `json:"values"` // distribution; "": mixed
	Seed       string            `json:"seed"`   // decimal: JSON numbers lose bits
	Count      int               `json:"count"`
	Nonce      string            `json:"nonce"`
	Kernel     *ChallengeKernel  `json:"kernel,omitempty"`
	Cases      []ChallengeCase   `json:"cases"`
}

// ChallengeCase is one case of a challenge.
type ChallengeCase struct {
	Index   int                        `json:"index"`
	Case    string                     `json:"case"`    // canonical text
	Inputs  string                     `json:"inputs"`  // digest
	Outputs map[string]ChallengeOutput `json:"outputs"` // by name
}

// ChallengeOutput is what was computed: a digest, and the elements where they fit.
type ChallengeOutput struct {
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"` // of the elements, little endian, row by row
	Data   []byte `json:"data,omitempty"`
}

// ChallengeKernel names the compiled kernel behind the outputs: a PTX file of the tree and how it is launched, in the
// words of [ops.kernel] of gpuemu.toml.
type ChallengeKernel struct {
	PTX    string   `json:"ptx"` // relative to the top of the repository
	Entry  string   `json:"entry,omitempty"`
	Grid   []string `json:"grid"`
	Block  []string `json:"block"`
	Shared string   `json:"shared,omitempty"`
	Args   []string `json:"args"`
}
