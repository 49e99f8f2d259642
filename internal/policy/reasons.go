package policy

// This file implements the reasons: why a receipt is refused, or what a reader should know about it.

// Reason says why, for good: it is documented here, listed in docs/formats/receipt-reasons.md and never reused for
// something else.
type Reason string

// The file itself.
const (
	// The file is not one JSON value.
	MalformedFile Reason = "malformed"
	// Text in the file is not UTF-8, has a byte order mark, or holds half of a surrogate pair.
	NotUTF8 Reason = "not_utf8"
	// An object has the same key twice: two readers could see two different receipts.
	DuplicateField Reason = "duplicate_field"
	// The file is larger, or deeper nested, than is read.
	TooLarge Reason = "too_large"
	// NaN or an infinity stands outside of metadata, or, as a warning, inside.
	NotFinite Reason = "not_finite"
	// An object has a field that its format does not know.
	UnknownField Reason = "unknown_field"
	// An object lacks a field that its format demands.
	MissingField Reason = "missing_field"
	// A field has a value of another type than its format demands.
	WrongFieldType Reason = "wrong_field_type"
	// A field has a value that its format does not allow.
	BadField Reason = "bad_field"
	// The file is no receipt, or one of a version that is not known.
	UnknownFormat Reason = "unknown_format"
	// The format is older than the policy admits (min_schema), or, as a warning, weaker than ours.
	WeakFormat Reason = "weak_format"
)

// Who signed.
const (
	// The receipt has no signature.
	Unsigned Reason = "unsigned"
	// Nobody was named who may sign: a verifier that asks the receipt whom to believe believes anybody.
	NoAllowList Reason = "no_allow_list"
	// A signature cannot be read, or does not fit the signed bytes.
	BadSignature Reason = "bad_signature"
	// A signature was made for another purpose than receipts.
	WrongNamespace Reason = "wrong_namespace"
	// The signer is not on the list of those who may sign, or not with that key, or not at that time.
	SignerNotAllowed Reason = "signer_not_allowed"
	// The signer's name cannot be the name of an account.
	SignerName Reason = "signer_name"
	// The forge has no such account, or no usable key of it.
	NoKeys Reason = "no_keys"
	// The receipt says it was signed by somebody else, or with another key, than it was.
	SignerMismatch Reason = "signer_mismatch"
	// The key of the signature is not one of those that the policy pins.
	KeyNotAllowed Reason = "key_not_allowed"
	// The algorithm or the backend that the receipt names is not that of the signature.
	AlgorithmMismatch Reason = "algorithm_mismatch"
	// A security key signed without being touched.
	NoTouch Reason = "no_touch"
	// The policy asks for a security key, and this is none.
	NoSecurityKey Reason = "no_security_key"
	// Fewer people signed than the policy asks for.
	Threshold Reason = "threshold"
	// The keys of a signer could not be asked for: nothing is known about the signature.
	KeysUnreachable Reason = "keys_unreachable"
)

// Which code.
const (
	// The repository could not be asked: nothing is known about the code.
	RepoUnreadable Reason = "repo_unreadable"
	// A path of the receipt's scope is not a plain path of the repository.
	ScopeMalformed Reason = "scope_malformed"
	// The receipt covers other paths than the policy asks for.
	ScopeMismatch Reason = "scope_mismatch"
	// The receipt leaves files of the scope out, and the policy does not.
	Excluded Reason = "excluded"
	// A path of the scope names nothing, or the fingerprint covers no file at all.
	EmptyScope Reason = "empty_scope"
	// The way the digest of the code was made is not known, or not that of the format.
	UnknownAlgorithm Reason = "unknown_algorithm"
	// The code at HEAD is not the code that was tested.
	CodeChanged Reason = "code_changed"
	// The receipt counts other files than there are.
	FileCount Reason = "file_count"
	// The code was not the same when the run began, when it ended, and when it was signed.
	ChangedDuringRun Reason = "changed_during_run"
	// Nobody looked at the code when the run began and ended.
	NotWatched Reason = "not_watched"
	// Something changed in the scope that the original's digest does not see: a quoted name, a mode, a link, a submodule.
	HiddenChange Reason = "hidden_change"
	// The scope has entries that the original's digest does not see, and the tested commit is not here to compare.
	Uncovered Reason = "uncovered"
	// The commit is not 40 or 64 hexadecimal digits.
	BadCommit Reason = "bad_commit"
	// The tested commit is not an ancestor of HEAD, and the policy asks for that.
	NotAncestor Reason = "not_ancestor"
	// Files outside of the scope changed since the run.
	OutsideChanged Reason = "outside_changed"
	// The tree had changes that were not committed.
	Dirty Reason = "dirty"
	// The receipt is of another repository.
	WrongRepository Reason = "wrong_repository"
	// A build output that the policy names is not in the receipt.
	OutputMissing Reason = "output_missing"
	// A build output is here, and is not the one that was tested.
	OutputChanged Reason = "output_changed"
	// A shard was carried over from an older receipt, and the policy does not allow that.
	Carried Reason = "carried"
	// The shards are not those of the policy, or do not hold the tests of the receipt.
	ShardMismatch Reason = "shard_mismatch"
)

// What ran.
const (
	// The mode is not known, or not the one that the policy asks for.
	WrongMode Reason = "wrong_mode"
	// The run did not finish: it was interrupted, or stopped at a failure.
	Unfinished Reason = "unfinished"
	// The test run ended with an exit status that is not 0, or the session says that it failed.
	ExitStatus Reason = "exit_status"
	// The receipt holds no test.
	NoTests Reason = "no_tests"
	// A test failed, or ended in an error.
	TestFailed Reason = "test_failed"
	// A check inside a test failed, and the test passed nonetheless.
	CheckFailed Reason = "check_failed"
	// A test was skipped.
	Skipped Reason = "skipped"
	// A test that is expected to be skipped was not.
	StaleSkip Reason = "stale_skip"
	// No test was run: all were skipped, or failed as expected.
	NothingRan Reason = "nothing_ran"
	// A test failed as expected, or passed against expectation.
	ExpectedFailure Reason = "expected_failure"
	// A test passed only when it was run again.
	Rerun Reason = "rerun"
	// A test that was collected was not run.
	NotRun Reason = "not_run"
	// The list of collected tests and the list of results do not name the same tests.
	IDsMismatch Reason = "ids_mismatch"
	// Tests were deselected, and no list says which are required.
	Deselected Reason = "deselected"
	// Tests outside of the proof failed in the same run.
	OutsideFailures Reason = "outside_failures"
	// A required test is not in the receipt.
	RequiredMissing Reason = "required_missing"
	// A required test was skipped, or failed as expected.
	RequiredSkipped Reason = "required_skipped"
	// The file of a test is not in the tree.
	TestFileMissing Reason = "test_file_missing"
	// The file of a test is outside of the scope: its assertions may change freely.
	TestOutsideScope Reason = "test_outside_scope"
)

// Where and when.
const (
	// The receipt names no GPU.
	NoGPU Reason = "no_gpu"
	// No GPU of the receipt is of a model that the policy asks for.
	WrongGPU Reason = "wrong_gpu"
	// A time is missing, in another spelling, or the run ended before it began.
	BadTime Reason = "bad_time"
	// A time lies in the future.
	InFuture Reason = "in_future"
	// The receipt is older than the policy allows.
	TooOld Reason = "too_old"
	// The receipt does not carry the nonce that was issued.
	WrongNonce Reason = "wrong_nonce"
	// The receipt carries no challenge, and the policy asks for one.
	NoChallenge Reason = "no_challenge"
	// A challenge has fewer cases than the policy asks for, or inputs of another distribution.
	WeakChallenge Reason = "weak_challenge"
	// The seed of a challenge does not follow from the code and the nonce.
	ChallengeSeed Reason = "challenge_seed"
)
