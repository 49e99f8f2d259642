package policy

// This file implements the checks of signatures: who signed, and may they.

import (
	"context"
	"errors"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// checkSignatures finds out whose signatures are good and count. The receipt says who signed; it is never asked who
// may.
func (c *checker) checkSignatures(ctx context.Context) {
	r := c.Receipt
	if len(r.Signatures) == 0 {
		c.unless(c.Rules.AllowUnsigned, Unsigned, "sign it: gpu-proof sign",
			"the receipt is unsigned: it proves nothing about who ran the tests")
		if c.Rules.AllowUnsigned && c.p.Signer != nil {
			c.refuse(SignerMismatch, "", "the receipt was signed by %q: the signature was taken off", clip(c.p.Signer.Principal))
		}
		return
	}
	if len(c.Rules.Signers) == 0 && len(c.Rules.KeyFingerprints) == 0 && c.Rules.AllowedSigners == nil {
		c.refuse(NoAllowList, "name them: --signer NAME, --allowed-signers FILE, or signers in a policy",
			"nobody was named who may sign; the receipt's own word for it is not enough")
		return
	}
	refusals, unreachable := len(c.Refusals), len(c.Unreachable)
	if r.Legacy != nil {
		c.checkRaw(ctx, r.Signatures[0].Raw)
	} else {
		c.checkSSHSIGs(ctx)
	}
	// Whoever could not be asked may be the one who is missing; and where nobody counts the reasons are told already.
	maybe := len(c.people) + len(c.Unreachable) - unreachable
	if want := max(1, c.Rules.Threshold); maybe < want && (maybe > 0 || len(c.Refusals) == refusals) {
		c.refuse(Threshold, "have it signed by more of them: gpu-proof sign --add",
			"%d of the allowed signers signed, the policy asks for %d", len(c.people), want)
	}
	c.checkParts()
	for _, s := range c.Signers {
		c.note("signature of %s with %s", s.Principal, s.KeyFingerprint)
	}
}

// checkSSHSIGs checks the signatures of our format. One that does not fit the bytes is refused; one that fits and is by
// somebody else is a warning if the others are enough.
func (c *checker) checkSSHSIGs(ctx context.Context) {
	var strangers []Refusal
	seen := map[string]bool{}
	claimed := c.p.Signer
	for _, s := range c.Receipt.Signatures {
		sig, err := sshsig.Parse(s.SSHSIG)
		if err == nil {
			err = sig.Verify(receipt.Namespace, c.Receipt.Payload)
		}
		if err != nil {
			c.refuse(signatureReason(err), diag.HintOf(err), "%v", err)
			continue
		}
		key := sig.Key.Fingerprint()
		if seen[key] {
			c.refuse(BadSignature, "", "two signatures are by the same key %s", key)
			continue
		}
		seen[key] = true
		name := ""
		if claimed != nil && claimed.KeyFingerprint == key {
			name = claimed.Principal
		}
		principal, refusal := c.principal(ctx, name, sig.Key)
		if refusal != nil {
			strangers = append(strangers, *refusal)
			continue
		}
		if c.Rules.RequireTouch && !(sig.Hardware && sig.UserPresent) {
			c.refuse(NoSecurityKey, "sign with a security key (ssh-keygen -t ed25519-sk)",
				"%s is not the key of a security key", key)
			continue
		}
		c.Signers = append(c.Signers, Signer{principal, key, sig.Key.Type(), sig.Hardware, sig.UserPresent})
		c.countPerson(principal, sig.Key)
	}
	enough := len(c.people) >= max(1, c.Rules.Threshold)
	for _, s := range strangers {
		switch {
		case enough:
			c.Warnings = append(c.Warnings, s)
		case s.Code == KeysUnreachable:
			c.Unreachable = append(c.Unreachable, s)
		default:
			c.Refusals = append(c.Refusals, s)
		}
	}
	c.checkClaim(seen)
}

// person is somebody whose signature counts, by the name and the key that they signed with.
type person struct {
	name string
	key  sshsig.PublicKey
}

// countPerson adds whoever signed to the people, unless they are there already: a threshold is one of people, and one
// of them may have several keys. A file of allowed signers has lists of names, so that two names may be one person's.
func (c *checker) countPerson(name string, key sshsig.PublicKey) {
	a := c.Rules.AllowedSigners
	if !slices.ContainsFunc(c.people, func(p person) bool {
		return p.name == name || a != nil && a.ShareName(p.key, key, c.Rules.Signers)
	}) {
		c.people = append(c.people, person{name, key})
	}
}

// checkClaim: who signed stands under the signature, too, and is the same.
func (c *checker) checkClaim(seen map[string]bool) {
	claimed := c.p.Signer
	if claimed == nil {
		c.refuse(SignerMismatch, "", "the receipt is signed, and says that it is not")
		return
	}
	if !seen[claimed.KeyFingerprint] {
		if len(seen) > 0 {
			c.refuse(SignerMismatch, "", "the receipt says it was signed with %s, and no signature is by that key",
				claimed.KeyFingerprint)
		}
		return
	}
	named := len(c.Rules.Signers) > 0 || c.Rules.AllowedSigners != nil
	for _, s := range c.Signers {
		if named && s.KeyFingerprint == claimed.KeyFingerprint && s.Principal != claimed.Principal {
			c.refuse(SignerMismatch, "", "the receipt says it was signed by %q, the key is %q's", clip(claimed.Principal),
				s.Principal)
		}
	}
}

// checkParts: the parts of a merged receipt were signed by people who may, too. That they were is the word of whoever
// merged them.
func (c *checker) checkParts() {
	for i, part := range c.p.Parts {
		s := part.Signer
		switch {
		case s == nil:
			c.unless(c.Rules.AllowUnsigned, Unsigned, "", "part %d is unsigned", i+1)
		case len(c.Rules.KeyFingerprints) > 0 && !slices.Contains(c.Rules.KeyFingerprints, s.KeyFingerprint):
			c.refuse(KeyNotAllowed, "", "part %d: the key %s is not one of those that are pinned", i+1, s.KeyFingerprint)
		case len(c.Rules.Signers) > 0 && !slices.Contains(c.Rules.Signers, s.Principal):
			c.refuse(SignerNotAllowed, "", "part %d was signed by %q, who is not one of those who may", i+1, clip(s.Principal))
		case c.Rules.AllowedSigners != nil:
			c.checkAllowedPart(i, s)
		}
	}
}

func (c *checker) checkAllowedPart(i int, s *receipt.Signer) {
	for _, key := range c.Rules.AllowedSigners.Keys() {
		if key.Fingerprint() == s.KeyFingerprint {
			if _, refusal := c.allowedPrincipal(s.Principal, key); refusal != nil {
				c.refuse(refusal.Code, refusal.Hint, "part %d: %s", i+1, refusal.Message)
			}
			return
		}
	}
	c.refuse(SignerNotAllowed, "", "part %d: the key %s is not among the allowed signers", i+1, s.KeyFingerprint)
}

// signatureReason sorts an error of package sshsig.
func signatureReason(err error) Reason {
	switch diag.CodeOf(err) {
	case sshsig.Namespace:
		return WrongNamespace
	case sshsig.NoTouch:
		return NoTouch
	case sshsig.Algorithm:
		return AlgorithmMismatch
	}
	return BadSignature
}

// principal finds out as whom a key may sign. claimed is the name that the receipt gives itself, "" for a co-signer; it
// only says where to look first.
func (c *checker) principal(ctx context.Context, claimed string, key sshsig.PublicKey) (string, *Refusal) {
	rules := c.Rules
	if pins := rules.KeyFingerprints; len(pins) > 0 && !slices.Contains(pins, key.Fingerprint()) {
		return "", &Refusal{KeyNotAllowed, "the key " + key.Fingerprint() + " is not one of those that are pinned", ""}
	}
	if rules.AllowedSigners != nil {
		return c.allowedPrincipal(claimed, key)
	}
	if len(rules.Signers) == 0 { // the key is pinned, and nobody can say whose it is
		return key.Fingerprint(), nil
	}
	candidates := rules.Signers
	if claimed != "" {
		if !slices.Contains(rules.Signers, claimed) {
			return "", c.stranger(claimed)
		}
		candidates = []string{claimed}
	}
	var last *Refusal
	for _, name := range candidates {
		keys, refusal := c.keysOf(ctx, name)
		if slices.ContainsFunc(keys, key.Equal) {
			return name, nil
		}
		if refusal != nil && (last == nil || refusal.Code == KeysUnreachable) {
			last = refusal
		}
	}
	if last == nil {
		last = &Refusal{SignerNotAllowed,
			message("the key " + key.Fingerprint() + " belongs to none of those who may sign"), ""}
	}
	return "", last
}

func (c *checker) stranger(name string) *Refusal {
	return &Refusal{SignerNotAllowed, message("\"" + clip(name) + "\" is not one of those who may sign"),
		"if they may, name them in the policy or with --signer; if they are known by another name, sign with that one"}
}

// allowedPrincipal asks the file of allowed signers, at the time of the signature.
func (c *checker) allowedPrincipal(claimed string, key sshsig.PublicKey) (string, *Refusal) {
	a, names := c.Rules.AllowedSigners, c.Rules.Signers
	if claimed != "" {
		names = []string{claimed}
		if len(c.Rules.Signers) > 0 && !slices.Contains(c.Rules.Signers, claimed) {
			return "", c.stranger(claimed)
		}
	}
	var err error
	if len(names) == 0 {
		var found string
		if found, err = a.Find(key, receipt.Namespace, c.ended); err == nil {
			return found, nil
		}
	}
	for _, name := range names {
		if err = a.Permits(name, key, receipt.Namespace, c.ended); err == nil {
			return name, nil
		}
	}
	return "", &Refusal{SignerNotAllowed, message(err.Error()), diag.HintOf(err)}
}

// keyList is what a source of keys answered.
type keyList struct {
	keys    []sshsig.PublicKey
	refusal *Refusal
}

// keysOf asks for the keys of an account whose name is on the list, once: how many signatures there are is the signer's
// choice. Keys and a refusal may come together.
func (c *checker) keysOf(ctx context.Context, name string) ([]sshsig.PublicKey, *Refusal) {
	answer, known := c.asked[name]
	if !known {
		answer.keys, answer.refusal = c.askKeys(ctx, name)
		c.asked[name] = answer
	}
	return answer.keys, answer.refusal
}

func (c *checker) askKeys(ctx context.Context, name string) ([]sshsig.PublicKey, *Refusal) {
	if err := forge.CheckName(name); err != nil {
		return nil, &Refusal{SignerName, message(err.Error()), diag.HintOf(err)}
	}
	if c.Keys == nil {
		return nil, &Refusal{KeysUnreachable, "there is no place to get the keys of " + name + " from",
			"give --keys-dir, --forge or --allowed-signers"}
	}
	keys, err := c.Keys.Keys(ctx, name)
	switch {
	case err == nil:
		return keys, nil
	case errors.Is(err, forge.ErrUnreachable):
		return keys, &Refusal{KeysUnreachable, message(err.Error()), diag.HintOf(err)}
	}
	return keys, &Refusal{NoKeys, message(err.Error()), diag.HintOf(err)}
}

// checkRaw checks the one signature of the original's schemas. The signer's name is asked for keys only if it is on the
// list, or if the keys are pinned.
func (c *checker) checkRaw(ctx context.Context, raw *receipt.RawSignature) {
	if user := c.Receipt.Legacy.GitHubUsername; user != raw.Signer {
		c.refuse(SignerMismatch, "", "the signature names %q, the signed part %q", clip(raw.Signer), clip(user))
	}
	if raw.Backend != "ssh-local" {
		c.refuse(AlgorithmMismatch, "", "the backend %q is not known", clip(raw.Backend))
	}
	if c.Rules.RequireTouch {
		c.refuse(NoSecurityKey, "sign in our format with a security key", "schema %s has no signatures of security keys",
			c.Format)
	}
	if len(c.Rules.Signers) > 0 && !slices.Contains(c.Rules.Signers, raw.Signer) {
		c.Refusals = append(c.Refusals, *c.stranger(raw.Signer))
		return
	}
	var keys []sshsig.PublicKey
	var refusal *Refusal
	if a := c.Rules.AllowedSigners; a != nil {
		keys = a.Keys()
	} else {
		keys, refusal = c.keysOf(ctx, raw.Signer)
	}
	for _, key := range keys {
		err := sshsig.VerifyRaw(key, key.RawAlgorithm(), c.Receipt.Payload, raw.Value)
		if err != nil {
			continue
		}
		if _, no := c.principalOfRaw(raw.Signer, key); no != nil {
			c.Refusals = append(c.Refusals, *no)
			return
		}
		if err := sshsig.VerifyRaw(key, raw.Algorithm, c.Receipt.Payload, raw.Value); err != nil {
			c.refuse(signatureReason(err), diag.HintOf(err), "%v", err)
		}
		if raw.KeyFingerprint != key.Fingerprint() {
			c.refuse(SignerMismatch, "", "the receipt says it was signed with %q, the key is %s", clip(raw.KeyFingerprint),
				key.Fingerprint())
		}
		c.Signers = append(c.Signers, Signer{Principal: raw.Signer, KeyFingerprint: key.Fingerprint(), KeyType: key.Type()})
		c.countPerson(raw.Signer, key)
		return
	}
	switch {
	case refusal != nil && refusal.Code == KeysUnreachable:
		c.Unreachable = append(c.Unreachable, *refusal)
	case refusal != nil:
		c.Refusals = append(c.Refusals, *refusal)
	default:
		c.refuse(BadSignature, "the receipt was changed after signing, or the key is not registered",
			"the signature is by no key of %q", clip(raw.Signer))
	}
}

// principalOfRaw is principal for a key that is known to be the signer's, or stands in the file of allowed signers.
func (c *checker) principalOfRaw(name string, key sshsig.PublicKey) (string, *Refusal) {
	if pins := c.Rules.KeyFingerprints; len(pins) > 0 && !slices.Contains(pins, key.Fingerprint()) {
		return "", &Refusal{KeyNotAllowed, "the key " + key.Fingerprint() + " is not one of those that are pinned", ""}
	}
	if c.Rules.AllowedSigners != nil {
		return c.allowedPrincipal(name, key)
	}
	return name, nil // the account's own list has the key
}
