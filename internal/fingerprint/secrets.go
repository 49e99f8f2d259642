package fingerprint

import (
	"os"
	"regexp"
	"strings"
)

// This file implements taking secrets out of texts that go into a receipt: a receipt is a file that people publish.

// hiddenText stands where a secret was.
const hiddenText = "***"

// StripURL returns a URL of a Git remote without user, password, query and fragment; the user "git" of SSH stays,
// which is nobody's. A place on this machine keeps no more than its path, with the home folder as "~". A text that is
// no URL at all may become "".
func StripURL(url string) string {
	for range 10 { // one round leaves a sound URL as it is; odd ones need more, or never come to rest
		next := stripOnce(url)
		if next == url {
			return url
		}
		url = next
	}
	return ""
}

// stripOnce takes off the outermost credentials.
func stripOnce(url string) string {
	url = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return -1
		}
		return r
	}, strings.TrimSpace(url))
	if transport, rest, ok := strings.Cut(url, "::"); ok && !strings.Contains(transport, "/") {
		return rest // remote helper: "ext::ssh …" may hold anything, the address after it is what counts
	}
	url, _, _ = strings.Cut(url, "#")
	url, _, _ = strings.Cut(url, "?")
	if scheme, rest, ok := cutScheme(url); ok {
		host, path, slash := strings.Cut(rest, "/")
		if _, port, _ := strings.Cut(host, ":"); !strings.Contains(host, "@") && strings.Trim(port, "0123456789") != "" {
			// No port: a password with a slash in it, whose "@" comes later.
			host, path, slash = strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "/")
		}
		if slash {
			path = "/" + path
		}
		if scheme == "file://" {
			path = stripHome(path)
		}
		return scheme + stripUser(host) + stripCredentials(path)
	}
	host, path, ok := strings.Cut(url, ":")
	drive := len(host) == 1 && strings.IndexAny(path, `\/`) == 0
	if !ok || drive || strings.Contains(host, "/") {
		return stripHome(stripCredentials(url))
	}
	if at := strings.LastIndexByte(path, '@'); at >= 0 { // user:password@host:path, which scp would not take
		return path[at+1:]
	}
	return stripUser(host) + ":" + path
}

// cutScheme cuts "https://" off, in whatever case and with one, two or three slashes.
func cutScheme(url string) (scheme, rest string, ok bool) {
	i := strings.IndexByte(url, ':')
	if i <= 1 || strings.Trim(strings.ToLower(url[:i]), "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" ||
		!strings.HasPrefix(url[i+1:], "/") {
		return "", "", false
	}
	scheme = strings.ToLower(url[:i])
	if scheme == "file" {
		return "file://", strings.TrimPrefix(url[i+1:], "//"), true
	}
	return scheme + "://", strings.TrimLeft(url[i+1:], "/"), true
}

// stripUser takes the user and password off a host, the last "@" being the one that counts.
func stripUser(host string) string {
	at := strings.LastIndexByte(host, '@')
	if at < 0 {
		return host
	}
	if host[:at] == "git" {
		return host
	}
	return host[at+1:]
}

// credentials are user:password@ (or token@) after two slashes, wherever they stand in a text.
var credentials = regexp.MustCompile(`(//)[^/\s@"']*(?:@[^/\s@"']*)*@`)

// stripCredentials takes credentials out of every URL of a text.
func stripCredentials(text string) string { return credentials.ReplaceAllString(text, "$1") }

// tokens are keys of well-known shapes. The list is of prefixes that their issuers document for secret scanners.
var tokens = regexp.MustCompile(strings.Join([]string{
	`\bgh[pousr]_[A-Za-z0-9_]{16,}`, `\bgithub_pat_[A-Za-z0-9_]{16,}`, // GitHub
	`\bgl(?:pat|cbt|ptt|rt|soat|dt|ft)-[A-Za-z0-9_.-]{16,}`, // GitLab
	`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,                         // AWS
	`\bhf_[A-Za-z0-9]{16,}`,                                 // Hugging Face
	`\bsk-[A-Za-z0-9_-]{20,}`,                               // OpenAI and others
	`\bxox[abposr]-[A-Za-z0-9-]{10,}`,                       // Slack
	`\bpypi-[A-Za-z0-9_-]{32,}`, `\bnpm_[A-Za-z0-9]{30,}`,   // package indexes
	`\bnvapi-[A-Za-z0-9_-]{20,}`,                      // NVIDIA
	`\bAIza[A-Za-z0-9_-]{30,}`,                        // Google
	`\bdop_v1_[a-f0-9]{32,}`,                          // DigitalOcean
	`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}`,      // JSON Web Tokens
	`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*)`,       // key files
	`(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`, // HTTP headers
}, "|"))

// secretName finds names of options and variables that hold a secret.
var secretName = regexp.MustCompile(`(?i)(?:^|[-_.])(?:token|password|passwd|passphrase|secret|api-?_?key|` +
	`access-?_?key|private-?_?key|credentials?|auth|authorization|cookie|pat|pw|pwd)$`)

// StripSecrets returns the arguments of a command without what looks like a secret: values of options such as
// --token, user and password of URLs, keys of well-known shapes; home folders become "~". It is a net, not a proof: a
// secret in a form of its own goes through.
func StripSecrets(args []string) []string {
	out := make([]string, len(args))
	next := false
	for i, arg := range args {
		switch name, value, assigned := strings.Cut(arg, "="); {
		case next && !strings.HasPrefix(arg, "-"):
			out[i] = hiddenText
			next = false
			continue
		case assigned && secretName.MatchString(name) && value != "":
			out[i] = name + "=" + hiddenText
		default:
			out[i] = stripText(arg)
		}
		next = strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && secretName.MatchString(arg)
	}
	return out
}

// stripText takes secrets out of one text.
func stripText(s string) string {
	s = tokens.ReplaceAllString(s, hiddenText)
	s = assignment.ReplaceAllString(s, "$1"+hiddenText)
	return stripHome(stripCredentials(s))
}

// assignment finds NAME=value and NAME: value inside a longer text (--opt=env=TOKEN=x, a header).
var assignment = regexp.MustCompile(`(?i)(\b[a-z0-9_.-]*(?:token|password|passwd|passphrase|secret|api[-_]?key)` +
	`["']?\s*[=:]\s*)[^\s,;&"']+`)

// homes are folders of users, whoever he is: a name of a person in a path is his own business.
var homes = regexp.MustCompile(`(?:/home/|/Users/|[A-Za-z]:\\Users\\)[^/\\\s:"']+`)

// stripHome writes home folders as "~".
func stripHome(s string) string {
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		if s == home {
			return "~"
		}
		s = strings.ReplaceAll(s, home+string(os.PathSeparator), "~"+string(os.PathSeparator))
	}
	return homes.ReplaceAllString(s, "~")
}
