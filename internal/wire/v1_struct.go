package wire

// This file implements the structures within the messages of protocol v1.

// V1Layout is a memory layout.
type V1Layout string

// V1Strategy is how Minimize looks for a smaller case.
type V1Strategy string

// V1FailureKind says what is wrong with an output.
type V1FailureKind string

// V1Source says what artifact metrics were read from.
type V1Source string

// V1LintKind says which limit of the lint policy a kernel broke.
type V1LintKind string

// The words of protocol v1.
const (
	V1Contiguous V1Layout = "Contiguous"
	V1Strided    V1Layout = "Strided"
	V1Transposed V1Layout = "Transposed"

	V1BinarySearchDims   V1Strategy = "BinarySearchDims"
	V1BinarySearchValues V1Strategy = "BinarySearchValues"

	V1ToleranceExceeded  V1FailureKind = "ToleranceExceeded"
	V1NaNDetected        V1FailureKind = "NaNDetected"
	V1InfDetected        V1FailureKind = "InfDetected"
	V1ShapeMismatch      V1FailureKind = "ShapeMismatch"
	V1DTypeMismatch      V1FailureKind = "DTypeMismatch"
	V1InvariantViolation V1FailureKind = "InvariantViolation"
	V1ReferenceError     V1FailureKind = "ReferenceError"

	V1FromPtx  V1Source = "Ptx"
	V1FromSass V1Source = "Sass"
	V1FromBoth V1Source = "Both"

	V1ExcessiveRegisters     V1LintKind = "ExcessiveRegisters"
	V1ExcessiveSpills        V1LintKind = "ExcessiveSpills"
	V1ExcessiveLocalMemory   V1LintKind = "ExcessiveLocalMemory"
	V1MissingRequiredPattern V1LintKind = "MissingRequiredPattern"
	V1ForbiddenPatternFound  V1LintKind = "ForbiddenPatternFound"

	// Words of ours, for limits that the published program does not have and for files that could not be read.
	V1ExcessiveSharedMemory V1LintKind = "ExcessiveSharedMemory"
	V1ExcessiveInstructions V1LintKind = "ExcessiveInstructions"
	V1ExcessiveStack        V1LintKind = "ExcessiveStack"
	V1NotLookedAt           V1LintKind = "NotLookedAt"
)

// words lists what may stand in a request; other words are refused as the published daemon refuses them.
func (V1Layout) words() []string {
	return []string{string(V1Contiguous), string(V1Strided), string(V1Transposed)}
}

func (V1Strategy) words() []string {
	return []string{string(V1BinarySearchDims), string(V1BinarySearchValues)}
}

func (V1Source) words() []string {
	return []string{string(V1FromPtx), string(V1FromSass), string(V1FromBoth)}
}

// V1FuzzConfig is what cases are made of.
type V1FuzzConfig struct {
	Seed         uint64         `json:"seed"`
	ShapeOptions V1ShapeOptions `json:"shape_options"`
	DTypes       []string       `json:"dtypes"`
	Layouts      []V1Layout     `json:"layouts"`
	OpSchema     *V1OpSchema    `json:"op_schema"`
}

// V1ShapeOptions are the sizes that shapes are drawn from.
type V1ShapeOptions struct {
	BatchSizes Dims   `json:"batch_sizes"`
	SeqLengths Dims   `json:"seq_lengths"`
	HiddenDims Dims   `json:"hidden_dims"`
	EdgeCases  []Dims `json:"edge_cases"`
}

// V1OpSchema names the dimensions of an op's tensors.
type V1OpSchema struct {
	Name   string           `json:"name"`
	Dims   []V1DimSpec      `json:"dims"`
	Inputs []V1TensorSchema `json:"inputs"`
	Output *V1TensorSchema  `json:"output"`
}

// V1DimSpec is a dimension and the sizes it may have.
type V1DimSpec struct {
	Name       string `json:"name"`
	Candidates Dims   `json:"candidates"`
}

// V1TensorSchema is a tensor and its dimensions by name.
type V1TensorSchema struct {
	Name string   `json:"name"`
	Dims []string `json:"dims"`
}

// V1ReproductionInfo is what a failing case can be made of again.
type V1ReproductionInfo struct {
	Seed          uint64        `json:"seed"`
	FuzzConfig    *V1FuzzConfig `json:"fuzz_config"`
	Shape         Dims          `json:"shape"`
	Strides       []int64       `json:"strides"`
	DType         string        `json:"dtype"`
	Layout        V1Layout      `json:"layout"`
	InputSnapshot *[]byte       `json:"input_snapshot"`
}

// V1ValidationFailure is one thing that is wrong with an output.
type V1ValidationFailure struct {
	Kind     V1FailureKind `json:"kind"`
	Message  string        `json:"message"`
	Index    *uint64       `json:"index"`
	Expected *F64          `json:"expected"`
	Actual   *F64          `json:"actual"`
}

// V1ErrorStats is the distribution of the errors of one output.
type V1ErrorStats struct {
	Count        uint64 `json:"count"`
	NumExceeding uint64 `json:"num_exceeding"`
	MaxAbs       F64    `json:"max_abs"`
	MeanAbs      F64    `json:"mean_abs"`
	P50Abs       F64    `json:"p50_abs"`
	P90Abs       F64    `json:"p90_abs"`
	P99Abs       F64    `json:"p99_abs"`
	MaxRel       F64    `json:"max_rel"`
	MeanRel      F64    `json:"mean_rel"`
	MaxULP       uint64 `json:"max_ulp"`
	MeanULP      F64    `json:"mean_ulp"`
}

// V1ValidationResult is what came out of one case. Passed is true for the verdict pass alone.
type V1ValidationResult struct {
	Passed     bool                  `json:"passed"`
	Seed       uint64                `json:"seed"`
	OpName     string                `json:"op_name"`
	MaxDiff    F64                   `json:"max_diff"`
	MaxRelDiff F64                   `json:"max_rel_diff"`
	Failures   []V1ValidationFailure `json:"failures"`
	Timestamp  uint64                `json:"timestamp"` // seconds since 1970
	DurationMS uint64                `json:"duration_ms"`
	ReproInfo  *V1ReproductionInfo   `json:"repro_info"`
	ErrorStats *V1ErrorStats         `json:"error_stats"`
}

// V1BaselineComparison compares a result with that of a baseline.
type V1BaselineComparison struct {
	OpName          string `json:"op_name"`
	Seed            uint64 `json:"seed"`
	CurrentMaxDiff  F64    `json:"current_max_diff"`
	BaselineMaxDiff *F64   `json:"baseline_max_diff"`
	CurrentPassed   bool   `json:"current_passed"`
	BaselinePassed  *bool  `json:"baseline_passed"`
	RelativeChange  *F64   `json:"relative_change"`
	IsRegression    bool   `json:"is_regression"`
}

// V1ArtifactMetrics is what is known of a compiled kernel.
type V1ArtifactMetrics struct {
	KernelName        string   `json:"kernel_name"`
	RegisterCount     uint32   `json:"register_count"`
	SpillCount        uint32   `json:"spill_count"`
	LocalMemoryBytes  uint32   `json:"local_memory_bytes"`
	SharedMemoryBytes uint32   `json:"shared_memory_bytes"`
	InstructionCount  uint32   `json:"instruction_count"`
	PatternsFound     []string `json:"patterns_found"`
	Source            V1Source `json:"source"`
	Timestamp         uint64   `json:"timestamp"` // seconds since 1970
	PtxContent        *string  `json:"ptx_content"`
}

// V1LintViolation is one limit that a kernel broke.
type V1LintViolation struct {
	Kind      V1LintKind `json:"kind"`
	Message   string     `json:"message"`
	Actual    *uint32    `json:"actual"`
	Threshold *uint32    `json:"threshold"`
}

// V1LintResult is what the lint policy says of a kernel.
type V1LintResult struct {
	KernelName string            `json:"kernel_name"`
	Passed     bool              `json:"passed"`
	Metrics    V1ArtifactMetrics `json:"metrics"`
	Violations []V1LintViolation `json:"violations"`
	Timestamp  uint64            `json:"timestamp"` // seconds since 1970
}

// V1ArtifactDiff compares a kernel with that of a baseline.
type V1ArtifactDiff struct {
	KernelName       string             `json:"kernel_name"`
	Baseline         *V1ArtifactMetrics `json:"baseline"`
	Current          V1ArtifactMetrics  `json:"current"`
	RegisterDelta    int32              `json:"register_delta"`
	SpillDelta       int32              `json:"spill_delta"`
	LocalMemoryDelta int32              `json:"local_memory_delta"`
	InstructionDelta int32              `json:"instruction_delta"`
	IsRegression     bool               `json:"is_regression"`
}

// V1ArtifactDiffSummary compares all kernels with a baseline.
type V1ArtifactDiffSummary struct {
	BaselineTag    string           `json:"baseline_tag"`
	HasRegressions bool             `json:"has_regressions"`
	Diffs          []V1ArtifactDiff `json:"diffs"`
}

// V1CiRunSummary is what came out of RunCi.
type V1CiRunSummary struct {
	TotalTests        uint64                 `json:"total_tests"`
	Passed            uint64                 `json:"passed"`
	Failed            uint64                 `json:"failed"`
	Skipped           uint64                 `json:"skipped"`
	DurationMS        uint64                 `json:"duration_ms"`
	Timestamp         uint64                 `json:"timestamp"` // seconds since 1970
	ValidationResults []V1ValidationResult   `json:"validation_results"`
	LintResults       []V1LintResult         `json:"lint_results"`
	ArtifactDiffs     *V1ArtifactDiffSummary `json:"artifact_diffs"`
}

// V1TestCaseData is a generated case with its inputs. Layout is in lower case here.
type V1TestCaseData struct {
	Seed   uint64                `json:"seed"`
	Inputs map[string]TensorData `json:"inputs"`
	Shape  Dims                  `json:"shape"`
	DType  string                `json:"dtype"`
	Layout string                `json:"layout"`
}
