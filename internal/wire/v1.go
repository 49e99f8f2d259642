package wire

// This file implements the messages of protocol v1, as the published Python client speaks it: requests, replies and the
// structures in them. docs/formats/wire-v1.md describes them. Fields that are pointers are null when absent.

// V1Protocol is the version in V1Pong. The published client refuses any other.
const V1Protocol = 1

// V1Request is a decoded request: one of the types below, by value, to switch on.
type V1Request interface{ v1Request() }

// Requests without fields, and requests whose fields say it all.
type (
	V1Ping          struct{}
	V1Shutdown      struct{}
	V1ListArtifacts struct{}
	V1GetCiSummary  struct{}

	// V1ValidateOp asks for the judgement of an output that the client computed.
	V1ValidateOp struct {
		OpName string                `json:"op_name"`
		Inputs map[string]TensorData `json:"inputs"`
		Output TensorData            `json:"output"`
		Kwargs map[string]string     `json:"kwargs"`
		// Config is an extension: the gpuemu.toml to use. The published client does not send it.
		Config *string `json:"config"`
	}
	V1GetResult struct {
		Seed uint64 `json:"seed"`
	}
	V1ListResults struct {
		Limit uint64 `json:"limit"`
	}
	V1StoreBaseline struct {
		Tag string `json:"tag"`
	}
	V1CompareBaseline struct {
		Tag string `json:"tag"`
	}
	V1FuzzOp struct {
		OpName     string       `json:"op_name"`
		FuzzConfig V1FuzzConfig `json:"fuzz_config"`
		Iterations uint64       `json:"iterations"`
		FailFast   bool         `json:"fail_fast"`
		Config     *string      `json:"config"` // an extension
	}
	V1Reproduce struct {
		Seed uint64 `json:"seed"`
	}
	V1Minimize struct {
		Seed     uint64     `json:"seed"`
		Strategy V1Strategy `json:"strategy"`
		MaxIters uint64     `json:"max_iters"`
	}
	V1ListFailures struct {
		Limit uint64 `json:"limit"`
	}
	V1LintKernel struct {
		KernelName *string `json:"kernel_name"`
		PtxContent string  `json:"ptx_content"`
	}
	// V1StoreArtifact carries the name twice; the one in Metrics counts.
	V1StoreArtifact struct {
		KernelName string            `json:"kernel_name"`
		Metrics    V1ArtifactMetrics `json:"metrics"`
	}
	V1StoreArtifactBaseline struct {
		Tag string `json:"tag"`
	}
	V1DiffArtifactBaseline struct {
		Tag string `json:"tag"`
	}
	V1GetArtifact struct {
		KernelName string `json:"kernel_name"`
	}
	V1RunCi struct {
		Quick        bool    `json:"quick"`
		Baseline     *string `json:"baseline"`
		ParallelJobs uint32  `json:"parallel_jobs"`
		Config       *string `json:"config"` // an extension
	}
	// V1GetTestCase asks for case 0 of the configuration's seed.
	V1GetTestCase struct {
		OpName     string       `json:"op_name"`
		FuzzConfig V1FuzzConfig `json:"fuzz_config"`
		Config     *string      `json:"config"` // an extension
	}
	// V1GetTestBatch asks for the cases 0 to Count-1.
	V1GetTestBatch struct {
		OpName     string       `json:"op_name"`
		FuzzConfig V1FuzzConfig `json:"fuzz_config"`
		Count      uint64       `json:"count"`
		Config     *string      `json:"config"` // an extension
	}
	// V1SubmitOutput is V1ValidateOp for a case that came from here.
	V1SubmitOutput struct {
		OpName string                `json:"op_name"`
		Inputs map[string]TensorData `json:"inputs"`
		Output TensorData            `json:"output"`
		Seed   uint64                `json:"seed"`
		Kwargs map[string]string     `json:"kwargs"`
		Config *string               `json:"config"` // an extension
	}
)

func (V1Ping) v1Request()                  {}
func (V1Shutdown) v1Request()              {}
func (V1ListArtifacts) v1Request()         {}
func (V1GetCiSummary) v1Request()          {}
func (V1ValidateOp) v1Request()            {}
func (V1GetResult) v1Request()             {}
func (V1ListResults) v1Request()           {}
func (V1StoreBaseline) v1Request()         {}
func (V1CompareBaseline) v1Request()       {}
func (V1FuzzOp) v1Request()                {}
func (V1Reproduce) v1Request()             {}
func (V1Minimize) v1Request()              {}
func (V1ListFailures) v1Request()          {}
func (V1LintKernel) v1Request()            {}
func (V1StoreArtifact) v1Request()         {}
func (V1StoreArtifactBaseline) v1Request() {}
func (V1DiffArtifactBaseline) v1Request()  {}
func (V1GetArtifact) v1Request()           {}
func (V1RunCi) v1Request()                 {}
func (V1GetTestCase) v1Request()           {}
func (V1GetTestBatch) v1Request()          {}
func (V1SubmitOutput) v1Request()          {}

// V1Reply is a reply: one of the types below. EncodeV1 writes it.
type V1Reply interface{ v1Reply() }

// Replies.
type (
	V1Ok   struct{}
	V1Pong struct {
		Version         string `json:"version"`
		ProtocolVersion int    `json:"protocol_version"` // V1Protocol
		UptimeSecs      uint64 `json:"uptime_secs"`
	}
	V1Error struct {
		Code    V1Code `json:"code"`
		Message string `json:"message"`
	}
	V1ValidationResultReply struct {
		Result V1ValidationResult `json:"result"`
	}
	V1Results struct {
		Results []V1ValidationResult `json:"results"`
	}
	V1BaselineComparisonReply struct {
		BaselineTag    string                 `json:"baseline_tag"`
		Comparisons    []V1BaselineComparison `json:"comparisons"`
		HasRegressions bool                   `json:"has_regressions"`
	}
	V1FuzzResults struct {
		Seed     uint64               `json:"seed"` // the master seed
		Total    uint64               `json:"total"`
		Passed   uint64               `json:"passed"`
		Failed   uint64               `json:"failed"`
		Failures []V1ValidationResult `json:"failures"`
	}
	V1ReproduceResult struct {
		Result V1ValidationResult    `json:"result"`
		Inputs map[string]TensorData `json:"inputs"`
	}
	V1MinimizeResult struct {
		OriginalSeed   uint64             `json:"original_seed"`
		MinimizedSeed  uint64             `json:"minimized_seed"`
		MinimizedShape Dims               `json:"minimized_shape"`
		Result         V1ValidationResult `json:"result"`
	}
	V1LintResults struct {
		Results []V1LintResult `json:"results"`
	}
	V1ArtifactDiffs struct {
		BaselineTag    string           `json:"baseline_tag"`
		Diffs          []V1ArtifactDiff `json:"diffs"`
		HasRegressions bool             `json:"has_regressions"`
	}
	// V1ArtifactMetricsResult has the fields of the metrics beside "type".
	V1ArtifactMetricsResult struct{ V1ArtifactMetrics }
	V1ArtifactList          struct {
		Artifacts []V1ArtifactMetrics `json:"artifacts"`
	}
	// V1CiRunComplete has the fields of the summary beside "type".
	V1CiRunComplete struct{ V1CiRunSummary }
	V1TestCase      struct{ V1TestCaseData }
	V1TestBatch     struct {
		Cases []V1TestCaseData `json:"cases"`
	}
	V1SubmitResult struct {
		Result V1ValidationResult `json:"result"`
	}
)

func (V1Ok) v1Reply()                      {}
func (V1Pong) v1Reply()                    {}
func (V1Error) v1Reply()                   {}
func (V1ValidationResultReply) v1Reply()   {}
func (V1Results) v1Reply()                 {}
func (V1BaselineComparisonReply) v1Reply() {}
func (V1FuzzResults) v1Reply()             {}
func (V1ReproduceResult) v1Reply()         {}
func (V1MinimizeResult) v1Reply()          {}
func (V1LintResults) v1Reply()             {}
func (V1ArtifactDiffs) v1Reply()           {}
func (V1ArtifactMetricsResult) v1Reply()   {}
func (V1ArtifactList) v1Reply()            {}
func (V1CiRunComplete) v1Reply()           {}
func (V1TestCase) v1Reply()                {}
func (V1TestBatch) v1Reply()               {}
func (V1SubmitResult) v1Reply()            {}

// V1Code is the code of a V1Error.
type V1Code string

// The codes of protocol v1. The published daemon never sends the last four.
const (
	V1OpNotFound            V1Code = "OpNotFound"
	V1ReferenceScriptFailed V1Code = "ReferenceScriptFailed"
	V1InvalidRequest        V1Code = "InvalidRequest"
	V1InternalError         V1Code = "InternalError"
	V1NotFound              V1Code = "NotFound"
	V1ArtifactNotFound      V1Code = "ArtifactNotFound"
	V1BaselineNotFound      V1Code = "BaselineNotFound"
	V1PtxParseError         V1Code = "PtxParseError"
	V1ConfigError           V1Code = "ConfigError"
	V1KernelNotFound        V1Code = "KernelNotFound"
	V1CuobjdumpNotAvailable V1Code = "CuobjdumpNotAvailable"
	V1VersionMismatch       V1Code = "VersionMismatch"
)
