package fingerprint

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParseTree: whatever git (or what calls itself git) prints, entries come out sorted, unique and of known kinds.
func FuzzParseTree(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte("100644 blob " + id + "\tsrc/a\x00120000 blob " + id + "\tsrc/\n\x00160000 commit " + id + "\tsub\x00"))
	f.Add([]byte("100644 blob " + id + "\ta\x00100644 blob " + id + "\ta\x00"))
	f.Add([]byte(id + " blob 3\nabc\n" + id + " blob 0\n\n"))
	f.Add([]byte(id + " blob 99999999999\nabc\n"))
	f.Add([]byte("H 100644 " + id + " 0\ta\x00s 100755 " + id + " 0\tb\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		if entries, err := parseTree(out, 40); err == nil {
			checkEntries(t, entries)
			if len(entries) != bytes.Count(out, []byte{0}) {
				t.Errorf("%d entries of %q", len(entries), out)
			}
		}
		fuzzBatch(t, out, id)
		index, err := parseIndex(out, 40)
		if err != nil {
			return
		}
		for _, e := range index {
			checkEntries(t, []objectEntry{e.objectEntry})
		}
	})
}

// fuzzBatch: the stream of objects ends, and an object never has more bytes than it said.
func fuzzBatch(t *testing.T, out []byte, id string) {
	in := bufio.NewReader(bytes.NewReader(out))
	err := readBatch(in, []string{id, id}, func(_ int, size int64, body bodyReader) error {
		n, err := io.Copy(io.Discard, body)
		if n > size {
			t.Errorf("%d bytes of an object of %d", n, size)
		}
		return err
	})
	if err == nil && !bytes.HasPrefix(out, []byte(id+" blob ")) {
		t.Errorf("readBatch took %q", out)
	}
}

func checkEntries(t *testing.T, entries []objectEntry) {
	for i, e := range entries {
		if e.Path == "" || len(e.id) != 40 || e.Kind == "" || (e.Kind == Gitlink) != (e.Commit != "") {
			t.Errorf("entry %+v", e)
		}
		if i > 0 && entries[i-1].Path >= e.Path {
			t.Errorf("%q stands after %q", e.Path, entries[i-1].Path)
		}
	}
}

// FuzzParseScope: what is taken is a plain path, and stays the same when it is read again.
func FuzzParseScope(f *testing.F) {
	for _, p := range []string{"src", "./a//b/", "..", "a/../b", ":!x", "-x", "/dev", "a\nb", "ü", "a/.git", "C:x", "./-",
		".//:x"} {
		f.Add(p, "src")
	}
	f.Fuzz(func(t *testing.T, p, q string) {
		s, err := ParseScope([]string{p, q})
		if err != nil {
			return
		}
		again, err := ParseScope(s.Paths())
		if err != nil || !again.Equal(s) || !slices.IsSorted(s.Paths()) {
			t.Errorf("ParseScope(%q) = %q, then %q, %v", []string{p, q}, s.Paths(), again.Paths(), err)
		}
		for _, p := range s.Paths() {
			if !utf8.ValidString(p) || strings.ContainsAny(p, "\n\x00*?[\\") || strings.HasPrefix(p, "-") ||
				strings.HasPrefix(p, "/") || strings.HasPrefix(p, ":") || slices.Contains(strings.Split(p, "/"), "..") {
				t.Errorf("ParseScope took %q", p)
			}
		}
	})
}

// FuzzStrip: user and password of a URL are gone, and what is left stays as it is; a known token never stays.
func FuzzStrip(f *testing.F) {
	f.Add("https://", "user", "s3cretpassword", "host/o/r")
	f.Add("ssh://", "", "s3cretpassword", "host:22/o")
	f.Add("ext::https:/", "u@v", "s3cretpassword", "host")
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		once := StripURL(scheme + user + ":" + password + "@" + rest)
		if twice := StripURL(once); twice != once {
			t.Errorf("StripURL gives %q, then %q", once, twice)
		}
		if strings.ContainsFunc(once, func(c rune) bool { return c < ' ' }) {
			t.Errorf("StripURL leaves a control character: %q", once)
		}
		const token = "ghp_0123456789abcdef0123456789abcdef0123"
		if args := StripSecrets([]string{scheme, rest, "--x=" + token}); len(args) != 3 || strings.Contains(args[2], token) {
			t.Errorf("StripSecrets = %q", args)
		}
		plain := func(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == "" }
		if scheme == "https://" && plain(user) && plain(password) && len(password) > 8 && !strings.Contains(rest, password) &&
			strings.Contains(once, password) {
			t.Errorf("StripURL leaves the password: %q", once)
		}
	})
}

// FuzzParseGPUs: the lists of the vendors' tools give short printable fields, or nothing.
func FuzzParseGPUs(f *testing.F) {
	f.Add([]byte("0, GPU-5ab2, NVIDIA H200, 570.86.15, 143771 MiB, 9.0\n"))
	f.Add([]byte(`{"card0": {"Card series": "x"}, "system": {"Driver version": "6"}}`))
	f.Add([]byte(`[{"gpu": 0, "asic": {"market_name": "x"}, "vram": {"size": {"value": 1e99}}}]`))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, parse := range []func([]byte) ([]GPU, bool){parseNvidia, parseAMD, parseROCm} {
			gpus, _ := parse(out)
			if len(gpus) > maxGPUs {
				t.Errorf("%d GPUs", len(gpus))
			}
			for _, g := range gpus {
				for _, s := range []string{g.Index, g.UUID, g.Name, g.Driver, g.Memory, g.ComputeCapability} {
					if len(s) > 3*maxField || !utf8.ValidString(s) || strings.ContainsAny(s, "\n\x1b") {
						t.Errorf("field %q", s)
					}
				}
			}
		}
	})
}

// FuzzNames: different paths have different texts, in our canonical text and in the original's JSON, and no text has
// a line's end or anything else that is not printable ASCII.
func FuzzNames(f *testing.F) {
	f.Add("a b", "a%20b")
	f.Add("\xff", "\n")
	f.Add("\U0001f680", "ü\n\"")
	f.Fuzz(func(t *testing.T, p, q string) {
		for name, text := range map[string]func(string) string{
			"Escape":       Escape,
			"appendPython": func(s string) string { return string(appendPython(nil, s)) },
		} {
			if got, other := text(p), text(q); (got == other) != (p == q) ||
				strings.ContainsFunc(got, func(c rune) bool { return c < ' ' || c > '~' }) {
				t.Errorf("%s(%q) = %q, of %q = %q", name, p, got, q, other)
			}
		}
		if strings.Contains(Escape(p), " ") {
			t.Errorf("Escape(%q) has a space", p)
		}
	})
}
