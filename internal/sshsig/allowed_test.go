// This file implements the tests of files of allowed signers, alone and against ssh-keygen.

package sshsig

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
)

// TestAllowedLines: each form of a line that ssh-keygen(1) describes, and what is wrong with others. The place of the
// key is written as KEY, that of another one as OTHER.
func TestAllowedLines(t *testing.T) {
	key, other := signerOf(t, newKey(t, "ed25519")).PublicKey(), signerOf(t, newKey(t, "p256")).PublicKey()
	const allow, refuse = "", "is not allowed"
	for _, tt := range []struct{ name, line, want string }{
		{"plain", `me KEY`, allow},
		{"with a comment", `me KEY a comment, namespaces="other"`, allow},
		{"tabs and blanks", "\t me \t KEY\t", allow},
		{"DOS line end", "me KEY\r", allow},
		{"a list", `you,me KEY`, allow},
		{"an empty name in the list", `,me, KEY`, allow},
		{"stars", `y*,m* KEY`, allow},
		{"question marks", `?? KEY`, allow},
		{"too many question marks", `??? KEY`, refuse},
		{"negated", `*,!me KEY`, refuse},
		{"negated first", `!me,* KEY`, refuse},
		{"only negated", `!you KEY`, refuse},
		{"another case", `ME KEY`, refuse},
		{"quoted", `"me" KEY`, allow},
		{"quoted with a blank", `"m e",me KEY`, "an option"},
		{"namespace", `me namespaces="gpu-proof-test" KEY`, allow},
		{"namespaces", `me namespaces="git,gpu-*" KEY`, allow},
		{"another namespace", `me namespaces="git" KEY`, refuse},
		{"negated namespace", `me namespaces="*,!gpu-proof-test" KEY`, refuse},
		{"no namespace", `me namespaces="" KEY`, refuse},
		{"valid", `me valid-after="20260101",valid-before="20270101" KEY`, allow},
		{"valid to the second", `me valid-after="20261115000000Z",valid-before="202611150000Z" KEY`, "not later"},
		{"from that second on", `me valid-after="20261115000000Z" KEY`, allow},
		{"up to that second", `me valid-before="20261115000000Z" KEY`, allow},
		{"a second late", `me valid-before="20261114235959Z" KEY`, "it was valid until 2026-11-14T23:59:59Z"},
		{"a second early", `me valid-after="20261115000001Z" KEY`, "it is valid from 2026-11-15T00:00:01Z"},
		{"UTC", `me valid-before="20261114235959utc" KEY`, refuse},
		{"any case", `me NameSpaces="gpu-proof-test",VALID-after="20200101z" KEY`, allow},
		{"certificate authority", `me cert-authority KEY`, "certificate authority only"},
		{"two options", `me cert-authority,namespaces="x" OTHER`, "is not among the allowed signers"},
		{"another key", `me OTHER`, "is not among the allowed signers"},
		{"options without names", `namespaces="git,*" KEY`, "names are missing"},
		{"an option without names", `Cert-Authority KEY`, "names are missing"},
		{"a comma before options", `me ,cert-authority KEY`, "is not an option"},
		{"no key", `me`, "names, perhaps options, and a key"},
		{"no key behind options", `me namespaces="x"`, "no key behind the options"},
		{"unknown option", `me no-pty KEY`, `"no-pty" is not an option`},
		{"option without quotes", `me namespaces=git KEY`, "between quotes"},
		{"no closing quote", `me namespaces="git KEY`, "no end"},
		{"names without closing quote", `"me KEY`, "a quote has no end"},
		{"text behind an option", `me cert-authorityx KEY`, "a comma and an option"},
		{"comma at the end", `me cert-authority, KEY`, "a comma and an option"},
		{"twice", `me namespaces="a",namespaces="b" KEY`, "twice"},
		{"valid-after twice", `me valid-after="20200101",valid-after="20200101" KEY`, "twice"},
		{"valid-before twice", `me valid-before="20200101",valid-before="20200101" KEY`, "twice"},
		{"no date", `me valid-after="tomorrow" KEY`, `"tomorrow" is not a time`},
		{"no day of the calendar", `me valid-after="20260231" KEY`, "is not a time"},
		{"blanks in a date", `me valid-after="2026 1 1" KEY`, "is not a time"},
		{"before 1970", `me valid-after="19600101" KEY`, "is not a time"},
		{"seconds alone", `me valid-after="1700000000" KEY`, "is not a time"},
		{"only Z", `me valid-after="Z" KEY`, "is not a time"},
		{"weak key", `me ssh-dss AAAA`, "DSA"},
		{"control character", "me KEY \x1b[2J", "control character (0x1b)"},
		{"NUL", "me\x00 KEY", "control character (0x00)"},
		{"a long line", "me KEY " + strings.Repeat("x", maxAllowedLine), "more than the 16384"},
		{"a long pattern", "me,*" + strings.Repeat("*", maxPattern) + " KEY", refuse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := strings.NewReplacer("KEY", key.String(), "OTHER", other.String()).Replace(tt.line)
			at := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
			a, err := parseAllowedSigners("f", []byte("# first\n\n"+line+"\n"), time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			err = a.Permits("me", key, testNamespace, at)
			if len(a.Faults) > 0 {
				if err == nil || !strings.Contains(diag.HintOf(err), a.Faults[0].Error()) {
					t.Errorf("Permits = %v (hint %q), want the fault in the hint", err, diag.HintOf(err))
				}
				if err = a.Faults[0]; !strings.HasPrefix(err.Error(), "f:3: ") || diag.HintOf(err) == "" {
					t.Errorf("fault %v (hint %q), want its line and a next step", err, diag.HintOf(err))
				}
			}
			if (err == nil) != (tt.want == allow) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x00\x1b") {
				t.Errorf("%q has control characters in it", err)
			}
		})
	}
	if _, err := ParseAllowedSigners("f", make([]byte, maxAllowedFile+1)); diag.CodeOf(err) != AllowedLimit {
		t.Errorf("a file of more than 1 MiB: %v, want %s", err, AllowedLimit)
	}
}

// TestAllowedFirstLine: a line that does not allow the key hides no later one that does, and Find returns its names.
func TestAllowedFirstLine(t *testing.T) {
	key := signerOf(t, newKey(t, "ed25519")).PublicKey()
	text := strings.ReplaceAll("a namespaces=\"git\" KEY\nb bogus KEY\nc,d* KEY\ne KEY\n", "KEY", key.String())
	a, err := ParseAllowedSigners("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Find(key, testNamespace, time.Unix(1e9, 0)); got != "c,d*" || err != nil {
		t.Errorf("Find = %q, %v, want c,d*", got, err)
	}
	if err := a.Permits("e", key, testNamespace, time.Unix(1e9, 0)); err != nil {
		t.Errorf("Permits(e) = %v", err)
	}
	if err := a.Permits("b", key, testNamespace, time.Unix(1e9, 0)); err == nil ||
		strings.Count(err.Error(), "; f:") != 2 || !strings.Contains(err.Error(), `f:3: the name "b" does not match "c,d*"`) {
		t.Errorf("Permits(b) = %v, want the reason of each of three lines", err)
	}
	if len(a.Faults) != 1 {
		t.Errorf("faults %v, want one", a.Faults)
	}
}

// TestLocalTime: local times are standard time all year round, as ssh-keygen has them (seen with OpenSSH 9.2).
func TestLocalTime(t *testing.T) {
	for _, tt := range []struct{ zone, text, want string }{
		{"Europe/Berlin", "20200101", "2019-12-31T23:00:00Z"},
		{"Europe/Berlin", "20200701", "2020-06-30T23:00:00Z"},
		{"Europe/Berlin", "202007010000z", "2020-07-01T00:00:00Z"},
		{"Australia/Sydney", "20200101123456", "2020-01-01T02:34:56Z"},
		{"Asia/Kolkata", "20200701", "2020-06-30T18:30:00Z"},
	} {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parseTime(tt.text, zone); !ok || utc(got) != tt.want {
			t.Errorf("parseTime(%q) in %s = %s, %v, want %s", tt.text, tt.zone, utc(got), ok, tt.want)
		}
	}
}

// TestMatchHostile: patterns made to be slow are not.
func TestMatchHostile(t *testing.T) {
	if match(strings.Repeat("a", 1000), strings.Repeat("*a", 500)+"b") {
		t.Error("a pattern that ends with b matches a text of a only")
	}
	if !match(strings.Repeat("a", 1000), strings.Repeat("*a", 500)) {
		t.Error("a pattern of stars and a does not match a text of a only")
	}
}

// generateAllowed makes a random file of allowed signers, of lines that are mostly well-formed. The times in it are
// returned besides, as if they were in UTC.
func generateAllowed(r *rand.Rand, keys []PublicKey) (text string, times []time.Time) {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	clock := func() string {
		day := time.Date(2019+r.IntN(3), time.Month(1+r.IntN(12)), 1+r.IntN(28), 0, 0, 0, 0, time.UTC)
		at := day.Add(time.Duration(r.IntN(24*60*60)) * time.Second)
		times = append(times, at)
		return `"` + at.Format(pick("20060102", "200601021504", "20060102150405")) + pick("", "", "Z", "z", "UTC") + `"`
	}
	var b strings.Builder
	for range 1 + r.IntN(5) {
		var names, options []string
		for range 1 + r.IntN(3) {
			names = append(names,
				pick("me", "you", "m*", "*", "?e", "!me", "!you", "*@example", "me@example", "", "!m?", "**"))
		}
		for _, option := range []string{
			`namespaces="` + pick("gpu-proof-test", "gpu-*", "git", "*,!git", "!gpu-*,*", "git,gpu-proof-tes?", "") + `"`,
			pick("valid-after", "VALID-AFTER") + "=" + clock(), "valid-before=" + clock(),
			pick("cert-authority", "bogus", "no-pty", `namespaces="*"`, "valid-before=20200101", `x="a b"`, `namespaces="a`),
		} {
			if r.IntN(4) == 0 {
				options = append(options, option)
			}
		}
		list := strings.Join(names, ",")
		if list == "" {
			list = "you" // else ssh-keygen takes the options for names
		}
		if r.IntN(6) == 0 {
			list = `"` + list + pick("", " ", " x") + `"`
		}
		b.WriteString(pick("", "", " ", "\t") + list + pick(" ", "\t", "  "))
		if len(options) > 0 {
			b.WriteString(strings.Join(options, ",") + pick(" ", "\t "))
		}
		b.WriteString(keys[r.IntN(len(keys))].String())
		b.WriteString(pick("", " a comment", " # \"x") + pick("\n", "\n", "\r\n", "\n\n# x\n"))
	}
	return b.String(), times
}

// zones are time zones by name, for Go, which has a table of its own, and by rule (POSIX, TZ), for a C library that may
// have none.
var zones = map[string]string{
	"UTC":              "UTC0",
	"Europe/Berlin":    "CET-1CEST,M3.5.0,M10.5.0/3",
	"America/New_York": "EST5EDT,M3.2.0,M11.1.0",
	"Asia/Kolkata":     "IST-5:30",
	"Australia/Sydney": "AEST-10AEDT,M10.1.0,M4.1.0/3",
}

// TestAllowedLikeSSHKeygen: on random files, names, times and time zones, Permits is what ssh-keygen -Y verify says,
// and the first line of the key without regard to namespaces is what -Y find-principals says. GPUEMU_SOAK is the number
// of files.
func TestAllowedLikeSSHKeygen(t *testing.T) {
	needSSH(t, "ssh-keygen")
	signer := signerOf(t, newKey(t, "ed25519"))
	armoured, err := signer.Sign(testNamespace, []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	key := signer.PublicKey()
	zoneNames := slices.Sorted(maps.Keys(zones))
	keys := []PublicKey{key, key, key, signerOf(t, newKey(t, "p256")).PublicKey()}
	dir := t.TempDir()
	sig := writeFile(t, filepath.Join(dir, "sig"), armoured)
	r := rand.New(rand.NewPCG(7, 1))
	rounds := 120
	if testing.Short() {
		rounds = 30
	}
	rounds = max(30, testkit.Soak(t, rounds)) // fewer prove nothing
	good := 0
	for round := range rounds {
		text, times := generateAllowed(r, keys)
		file := writeFile(t, filepath.Join(dir, "allowed"), []byte(text))
		name := []string{"me", "you", "me@example", "x", ""}[r.IntN(5)]
		zoneName := zoneNames[r.IntN(len(zoneNames))]
		zone, err := time.LoadLocation(zoneName)
		if err != nil {
			t.Fatal(err)
		}
		// Some hours before or after one of the times: zones and summer time then matter.
		at := times[r.IntN(len(times))].Add(time.Duration(r.IntN(60)-30) * 30 * time.Minute)
		a, err := parseAllowedSigners(file, []byte(text), zone)
		if err != nil {
			t.Fatal(err)
		}
		verifyTime := "-Overify-time=" + at.Format("20060102150405Z")
		run := func(args ...string) (string, bool) {
			cmd := exec.Command("ssh-keygen", append(args, "-f", file, "-s", sig, verifyTime)...)
			cmd.Env, cmd.Stdin = []string{"TZ=" + zones[zoneName]}, strings.NewReader("m")
			out, err := cmd.CombinedOutput()
			return string(out), err == nil
		}
		out, want := run("-Y", "verify", "-I", name, "-n", testNamespace)
		if got := a.Permits(name, signer.PublicKey(), testNamespace, at); (got == nil) != want {
			t.Errorf("round %d: Permits(%q) at %s in %s = %v; ssh-keygen says %s\n%s", round, name, at, zoneName, got, out, text)
		}
		out, want = run("-Y", "find-principals")
		got, findErr := findAnyNamespace(a, signer.PublicKey(), at)
		if (findErr == nil) != want || want && !strings.HasSuffix(out, printed(got)) {
			t.Errorf("round %d: Find at %s in %s = %q, %v; ssh-keygen says %s\n%s", round, at, zoneName, got, findErr, out, text)
		}
		if want {
			good++
		}
	}
	if good < rounds/10 || good > rounds*9/10 {
		t.Errorf("%d of %d files allow the key: the test is too easy", good, rounds)
	}
}

// findAnyNamespace is Find for whatever namespace: find-principals does not look at it.
func findAnyNamespace(a *AllowedSigners, key PublicKey, at time.Time) (string, error) {
	free := *a
	free.lines = nil
	for _, l := range a.lines {
		l.restricted = false
		free.lines = append(free.lines, l)
	}
	return free.Find(key, testNamespace, at)
}

// printed is a list of names as ssh-keygen prints it: one a line, up to the first empty one.
func printed(list string) string {
	var b strings.Builder
	for _, name := range strings.Split(list, ",") {
		if name == "" {
			break
		}
		b.WriteString(name + "\n")
	}
	return b.String()
}

func ExampleAllowedSigners_Permits() {
	const file = "alice@example.com valid-after=\"20260101Z\" " +
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILcF3va4huQjotV47IqhXau0wrCfQHqK5kQk9GbTpvSf\n"
	allowed, err := ParseAllowedSigners("allowed_signers", []byte(file))
	if err != nil {
		panic(err)
	}
	_, line, _ := strings.Cut(strings.TrimSpace(file), "\" ")
	key, err := ParsePublicKey(line)
	if err != nil {
		panic(err)
	}
	for _, year := range []int{2025, 2026} {
		at := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		fmt.Println(year, allowed.Permits("alice@example.com", key, "gpu-proof@gpuemu", at) == nil)
	}
	// Output:
	// 2025 false
	// 2026 true
}

// TestShareName: keys are told apart by the names on their lines, or by those that the caller knows.
func TestShareName(t *testing.T) {
	one, two := signerOf(t, newKey(t, "ed25519")).PublicKey(), signerOf(t, newKey(t, "ed25519")).PublicKey()
	for _, tt := range []struct {
		one, two string
		names    []string
		want     bool
	}{
		{"alice", "bob", nil, false},
		{"alice", "alice", nil, true},
		{"alice,a@x.org", "al,a@x.org", nil, true},
		{"*@x.org", "a@x.org", nil, true},
		{"a@x.org", "*@x.org", nil, true},
		{"alice,team", "bob,team", nil, true},
		{"alice,team", "bob,team", []string{"alice", "bob"}, false},
		{"alice,bob", "bob", []string{"alice", "bob"}, true},
	} {
		a, err := ParseAllowedSigners("f", []byte(tt.one+" "+one.String()+"\n"+tt.two+" "+two.String()+"\n"))
		if err != nil || len(a.Faults) > 0 {
			t.Fatal(err, a.Faults)
		}
		if got := a.ShareName(one, two, tt.names); got != tt.want {
			t.Errorf("ShareName of %q and %q among %q = %v, want %v", tt.one, tt.two, tt.names, got, tt.want)
		}
		if a.ShareName(two, one, tt.names) != tt.want {
			t.Errorf("ShareName of %q and %q the other way round is not %v", tt.one, tt.two, tt.want)
		}
	}
}
