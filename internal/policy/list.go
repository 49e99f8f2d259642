package policy

// This file implements the list of keys for those who write policies.

// KeyDoc is a key of a policy file with its meaning.
type KeyDoc struct{ Name, Doc string }

// Keys returns the keys of a policy file, in the order of the documentation.
func Keys() []KeyDoc {
	out := make([]KeyDoc, len(keyTable))
	for i, k := range keyTable {
		out[i] = KeyDoc{k.name, k.doc}
	}
	return out
}
