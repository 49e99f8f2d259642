package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
)

const (
	// timeout is how long one list may take, from the name look-up to its last byte.
	timeout = 10 * time.Second
	// maxRedirects is for forges that send another spelling of the same name.
	maxRedirects = 3
	// perPage and maxPages are GitHub's largest page, and how many of them are read.
	perPage, maxPages = 100, 10
)

// Where a key was found, in PublicKey.Origin. GitHub keeps the two apart: a key that is registered for signing alone is
// not in USER.keys.
const (
	authenticationKey = "authentication key"
	signingKey        = "signing key"
	bothKeys          = "authentication and signing key"
)

// homes are the kinds of forges and their public addresses; "" where everybody has their own.
var homes = map[string]string{
	"github":    "https://github.com",
	"gitlab":    "https://gitlab.com",
	"gitea":     "https://gitea.com",
	"forgejo":   "https://codeberg.org",
	"sourcehut": "https://meta.sr.ht",
}

// online is a forge behind HTTPS.
type online struct {
	kind    string
	base    *url.URL
	client  *http.Client
	timeout time.Duration
}

// Online returns the keys that a forge publishes. The kind is github, gitlab, gitea, forgejo or sourcehut; an empty
// base is the kind's public home. Without a RoundTripper the requests go out as usual: certificates verified, proxies
// as HTTPS_PROXY and NO_PROXY say.
func Online(kind, base string, rt http.RoundTripper) (Source, error) {
	home, known := homes[kind]
	if !known {
		kinds := make([]string, 0, len(homes))
		for k := range homes {
			kinds = append(kinds, k)
		}
		slices.Sort(kinds)
		return nil, diag.Errorf(BadForge,
			diag.Suggest(kind, kinds, "the kinds are "+strings.Join(kinds, ", ")), "%q is not a kind of forge", clip(kind))
	}
	if base == "" {
		base = home
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, diag.Errorf(BadForge, "give an address like https://git.example.com",
			"%q is not the https address of a forge", clip(base))
	}
	u.Path = strings.TrimRight(u.Path, "/") + "/" // without it JoinPath makes a relative path, which messages would show
	if rt == nil {
		rt = http.DefaultTransport
	}
	client := &http.Client{Transport: rt, CheckRedirect: checkRedirect}
	return &online{kind: kind, base: u, client: client, timeout: timeout}, nil
}

// errRedirect is in the chain of an error about an answer that sends elsewhere.
var errRedirect = errors.New("it answers with a redirect")

// checkRedirect follows an answer only to the same place in another spelling of its name. Another path would be
// another account: an old name may lead to whoever has it now.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects || req.URL.Scheme != "https" || req.URL.Host != first.Host ||
		!strings.EqualFold(req.URL.Path, first.Path) || req.URL.RawQuery != first.RawQuery {
		return fmt.Errorf("%w to %q, which is not followed", errRedirect, clip(req.URL.String()))
	}
	return nil
}

func (o *online) Keys(ctx context.Context, user string) ([]sshsig.PublicKey, error) {
	if err := CheckName(user); err != nil {
		return nil, err
	}
	if o.kind == "github" && (len(user) > maxGitHubName || strings.Contains(user, ".")) {
		return nil, diag.Errorf(BadName, "", "%q is not a GitHub name: at most %d letters, digits, - and _", user,
			maxGitHubName)
	}
	page := "/" + user + ".keys"
	if o.kind == "sourcehut" {
		page = "/~" + user + ".keys"
	}
	b, err := o.get(ctx, o.base.JoinPath(page), user)
	if err != nil {
		return nil, err
	}
	keys, unusable := sshsig.ParsePublicKeys(o.base.Host+page, b)
	if o.kind != "github" {
		return keys, noneLeft(user, keys, unusable)
	}
	for i := range keys {
		keys[i].Origin = authenticationKey
	}
	signing, more, err := o.signingKeys(ctx, user)
	if errors.Is(err, ErrNoUser) {
		err = nil // the account is there: an older GitHub Enterprise has no such list
	}
	keys = union(keys, signing)
	if err != nil {
		return keys, err
	}
	return keys, noneLeft(user, keys, append(unusable, more...))
}

// union adds the signing keys to the others.
func union(keys, signing []sshsig.PublicKey) []sshsig.PublicKey {
	for _, s := range signing {
		i := slices.IndexFunc(keys, s.Equal)
		switch {
		case i < 0:
			s.Origin = signingKey
			keys = append(keys, s)
		case keys[i].Origin == authenticationKey:
			keys[i].Origin = bothKeys
		}
	}
	return keys
}

// signingKeys asks GitHub for the keys that are registered for signing (GitHub REST API, "Git SSH signing keys").
func (o *online) signingKeys(ctx context.Context, user string) (keys []sshsig.PublicKey, unusable []error, err error) {
	api := o.base.JoinPath("api/v3/users", user, "ssh_signing_keys")
	if o.base.Host == "github.com" {
		api = &url.URL{Scheme: "https", Host: "api.github.com", Path: "/users/" + user + "/ssh_signing_keys"}
	}
	for page := 1; page <= maxPages; page++ {
		api.RawQuery = fmt.Sprintf("per_page=%d&page=%d", perPage, page)
		b, err := o.get(ctx, api, user)
		if err != nil {
			return keys, unusable, err
		}
		var listed []struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal(b, &listed); err != nil {
			return keys, unusable, o.unreachable(api, "try again later", errors.New("it did not answer with a list of keys"))
		}
		for _, l := range listed {
			more, bad := sshsig.ParsePublicKeys(api.Host+api.Path, []byte(l.Key))
			keys, unusable = append(keys, more...), append(unusable, bad...)
		}
		if len(listed) < perPage {
			return keys, unusable, nil
		}
	}
	return keys, unusable, nil
}

// get fetches one page.
func (o *online) get(ctx context.Context, u *url.URL, user string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, o.unreachable(u, "", err)
	}
	req.Header.Set("User-Agent", "gpu-proof")
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, o.failed(u, user, err)
	}
	defer resp.Body.Close()
	if err := o.checkStatus(resp, u, user); err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/html" {
		return nil, o.unreachable(u, "check the address and the kind of the forge; it may want a login",
			errors.New("it answered with a web page instead of a list of keys"))
	}
	b, err := readLimited(resp.Body)
	if err != nil {
		return nil, o.failed(u, user, err)
	}
	return b, nil
}

// failed is the error of a request without an answer.
func (o *online) failed(u *url.URL, user string, err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // the address is in the message already
	}
	switch {
	case errors.Is(err, errRedirect):
		return o.unreachable(u, "check the account's name: it may have been renamed; or give the forge's own address", err)
	case errors.Is(err, context.DeadlineExceeded):
		return o.unreachable(u, "try again later, or give the keys in a folder or a file of allowed signers",
			fmt.Errorf("no answer within %v", o.timeout))
	}
	return o.unreachable(u, "check the network, or give the keys in a folder or a file of allowed signers", err)
}

// checkStatus tells "nobody of that name" from "cannot tell".
func (o *online) checkStatus(resp *http.Response, u *url.URL, user string) error {
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound:
		return diag.Errorf(NoUser, "check the name of the signer and the kind of the forge",
			"%s has no account %s: %w", u.Host, user, ErrNoUser)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden, status >= 500:
		hint := "try again later, or give the keys in a folder or a file of allowed signers"
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			hint = fmt.Sprintf("try again in %d s, or give the keys in a folder or a file of allowed signers", seconds)
		} else if reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil { // GitHub's API
			hint = fmt.Sprintf("try again after %s, or give the keys in a folder or a file of allowed signers",
				time.Unix(reset, 0).UTC().Format(time.RFC3339))
		}
		return o.unreachable(u, hint, fmt.Errorf("it answers %d %s", status, http.StatusText(status)))
	default:
		return o.unreachable(u, "check the address and the kind of the forge",
			fmt.Errorf("it answers %d %s", status, http.StatusText(status)))
	}
}

// unreachable is the error after which nothing is known. Its cause may quote what a stranger's server sent, so only
// its text is kept, without control characters.
func (o *online) unreachable(u *url.URL, hint string, cause error) error {
	text := strconv.QuoteToGraphic(cause.Error())
	return diag.Errorf(Unreachable, hint, "%s%s: %w: %s", u.Host, u.Path, ErrUnreachable,
		strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`))
}
