// This file implements the stable error codes of the package.

package sshsig

import "gpuemu/internal/diag"

const (
	// NoKey means that there is no key to sign with: no file of that name, no agent, or an agent without a usable key.
	NoKey diag.Code = "sshsig-no-key"
	// SeveralKeys means that an agent has several keys, and nothing says which of them is meant.
	SeveralKeys diag.Code = "sshsig-several-keys"
	// KeyPermissions means that others than its owner can read a private key file.
	KeyPermissions diag.Code = "sshsig-key-permissions"
	// BadKeyFile means that a key file cannot be read, or is no key in a known format.
	BadKeyFile diag.Code = "sshsig-bad-key-file"
	// Passphrase means that a private key needs a passphrase, and the one given is wrong or none could be asked for.
	Passphrase diag.Code = "sshsig-passphrase"
	// Agent means that ssh-agent could not be reached, did not answer in time, or refused to sign.
	Agent diag.Code = "sshsig-agent"
	// WeakKey means that a key is of a kind that no longer protects: DSA, RSA under 2048 bits.
	WeakKey diag.Code = "sshsig-weak-key"
	// UnsupportedKey means that a key is of a kind that is not supported here: certificates, unknown types.
	UnsupportedKey diag.Code = "sshsig-unsupported-key"
	// UnsupportedRaw means that a key cannot make or check the raw signatures of the original's receipts.
	UnsupportedRaw diag.Code = "sshsig-unsupported-raw"
	// BadKey means that a line is not a public key.
	BadKey diag.Code = "sshsig-bad-key"
	// BadSignature means that the text of a signature is not one in the format SSHSIG, or not in its one encoding.
	BadSignature diag.Code = "sshsig-bad-signature"
	// Mismatch means that a signature was not made by this key over these bytes.
	Mismatch diag.Code = "sshsig-mismatch"
	// Namespace means that a signature was made for another purpose than the one it is used for.
	Namespace diag.Code = "sshsig-namespace"
	// NoTouch means that a security key signed without anybody touching it.
	NoTouch diag.Code = "sshsig-no-touch"
	// Algorithm means that a signature uses an algorithm that is too weak, or another one than its key or its receipt
	// says.
	Algorithm diag.Code = "sshsig-algorithm"
	// AllowedSyntax means that a line of a file of allowed signers is malformed and therefore allows nobody.
	AllowedSyntax diag.Code = "sshsig-allowed-syntax"
	// AllowedLimit means that a file of allowed signers is larger than is accepted.
	AllowedLimit diag.Code = "sshsig-allowed-limit"
	// NotAllowed means that no line of the allowed signers permits the key for this name, purpose and time.
	NotAllowed diag.Code = "sshsig-not-allowed"
)
