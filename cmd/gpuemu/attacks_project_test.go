//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// This file implements attacks with campaigns, projects and what a request says of its caller.

// project writes a gpuemu.toml with one operator among the attacker's files.
func (v *victim) project(name, candidate string) string {
	v.t.Helper()
	dir := filepath.Join(v.mine, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		v.t.Fatal(err)
	}
	path := filepath.Join(dir, "gpuemu.toml")
	v.write(path, fmt.Sprintf("[project]\nname = %q\n[validation]\ndtypes = [\"float32\"]\n[[ops]]\nname = \"relu\"\n"+
		"candidate = %q\n", name, candidate))
	return path
}

// campaign starts a campaign and returns its name.
func (v *victim) campaign(t *testing.T, kind, config string, iterations int) string {
	t.Helper()
	r := v.send(request("/v1/campaigns", object("config", config, "kind", kind, "quick", true, "seed", "1",
		"iterations", iterations)))
	var started struct{ Campaign string }
	if r.status != 202 && r.status != 200 || json.Unmarshal(r.body, &started) != nil || started.Campaign == "" {
		t.Fatalf("a campaign: %v", r)
	}
	return started.Campaign
}

// followed is what a campaign told until its end.
func (v *victim) followed(id string) string {
	return string(v.send(asks("GET", "/v1/campaigns/"+id+"/events")).body)
}

var projectAttacks = []attack{
	{name: "campaigns of strangers", sends: "names of campaigns that are paths, SQL, 60 KB, of nobody", holds: "refused",
		do: func(t *testing.T, v *victim) {
			for _, id := range []string{"nobody", "%27%20OR%201=1%20--", "*", "%25", "..", "20261115-abc123", repeat("a",
				60_000),
				"%00", "%0a", "%F0%9F%92%A9", "-1", "%3Cscript%3E"} {
				want(t, id, v.send(asks("GET", "/v1/campaigns/"+id+"x")), refused)
				want(t, id, v.send(asks("DELETE", "/v1/campaigns/"+id+"x")), refused)
				want(t, id, v.send(asks("GET", "/v1/campaigns/"+id+"x/events")), refused)
			}
			for _, q := range []string{"limit=-1", "limit=99999999999999999999", "state=%27", "kind=%00", "limit=1e9",
				"config=..",
				"config=relative", "limit=1&limit=2;limit=3"} {
				want(t, q, v.send(asks("GET", "/v1/campaigns?"+q)), unharmed)
			}
		}},
	{name: "campaign of another project", sends: "another project's campaign to resume, to report, as a baseline",
		holds: "it does not go on under other rules", do: otherProject},
	{name: "campaign options", sends: "shards, counts, times and kinds that no campaign has", holds: "refused",
		do: func(t *testing.T, v *victim) {
			config := v.project("options", "builtin:relu")
			for _, more := range []string{`"shard": "2/1"`, `"shard": "0/0"`, `"shard": "-1/-1"`,
				`"shard": "1/99999999999999999999"`,
				`"iterations": -1`, `"iterations": 9223372036854775807`, `"time_limit_seconds": -1`,
				`"time_limit_seconds": 1e308`,
				`"parallel": -1`, `"parallel": 9223372036854775807`, `"kind": "shell"`, `"ops": ["../../x"]`,
				`"dims": {"H": [9223372036854775807]}`,
				`"resume": "../../x"`, `"dir": "relative"`, `"config": "` + config + `\u0000"`, `"seed": 1.5`} {
				body := fmt.Sprintf(`{"config": %q, "kind": "fuzz", %s}`, config, more)
				r := v.send(request("/v1/campaigns", body))
				if err := refused(r); err != nil && !strings.Contains(more, "time_limit_seconds") && !strings.Contains(more,
					"dir") &&
					!strings.Contains(more, "parallel") { // which may as well be taken for none
					t.Errorf("%s: %v", more, err)
				}
				want(t, more, r, unharmed)
			}
		}},
	{name: "a million campaigns", sends: "100 campaigns at once of a million cases each",
		holds: "most are refused as busy",
		do:    floodCampaigns},
	{name: "cancel races", sends: "starts, cancels and followers of the same campaigns at once", holds: "each ends once",
		do: cancelRaces},
	{name: "tags of baselines", sends: "tags that are paths, empty, 1 MiB, controls",
		holds: "no file is named after them",
		do: func(t *testing.T, v *victim) {
			config := v.project("tags", "builtin:relu")
			if told := v.followed(v.campaign(t, "test", config, 1)); !strings.Contains(told, "event: done") {
				t.Fatalf("the campaign does not end: %s", told)
			}
			for _, tag := range []string{"", "../../../elsewhere/planted", v.elsewhere + "/planted", "..", "a/b", "a\\b",
				"a\x00b",
				"\x1b[2J", repeat("t", 1<<20), "x.json", "'; DROP TABLE baselines; --", "CON", "-rf", "\u202etxt"} {
				want(t, tag, v.send(request("/v1/baselines", object("config", config, "tag", tag))), unharmed)
				reply, err := v1Exchange(v.dial(), object("type", "StoreBaseline", "tag", tag))
				if err != nil || !strings.Contains(reply, `"type"`) {
					t.Errorf("StoreBaseline %s: %q, %v", shorten(tag), reply, err)
				}
				want(t, tag, v.send(request("/v1/diff", object("config", config, "dir", v.mine, "baseline", tag))), unharmed)
			}
		}},
	{name: "candidate in the request",
		sends: "requests that name a program as candidate, reference, script, interpreter",
		holds: "it is not executed", do: namedCandidate},
	{name: "candidate upwards", sends: "a project whose candidate lies outside of it, by dots and by a link",
		holds: "files outside stay as they are", do: func(t *testing.T, v *victim) {
			for i, candidate := range []string{"../../elsewhere/secret.txt", v.elsewhere + "/secret.txt:f",
				"../../elsewhere/secret.txt:f",
				"/dev/zero", "../fifo", "http://evil.example/x.py:f", "worker:/nowhere/x"} {
				_ = v.special(t) // makes the FIFO
				config := v.project(fmt.Sprintf("up%d", i), candidate)
				r := v.send(request("/v1/campaigns", object("config", config, "kind", "fuzz", "seed", "1", "iterations", 1,
					"python", "/nowhere/python3")))
				want(t, candidate, r, unharmed)
			}
		}},
	{name: "environment of the request", sends: "LD_PRELOAD, PYTHONPATH and their like for a candidate",
		holds: "no code is loaded by them", do: namedEnvironment},
	{name: "configuration that calls", sends: "a project with 10,000 operators, names of paths, patterns that explode",
		holds: "refused or read", do: oddProjects},
	{name: "calibrate and write", sends: "calibrations to be written into files that are not the project's",
		holds: "refused", do: func(t *testing.T, v *victim) {
			v.write(filepath.Join(v.elsewhere, "gpuemu.toml"), "[project]\nname = \"owner\"\n")
			v.before = v.world()
			for _, config := range []string{v.elsewhere + "/secret.txt", "", "/etc/passwd", v.mine} {
				body := object("config", config, "op", "relu", "iterations", 40, "write", true)
				want(t, config, v.send(request("/v1/calibrate", body)), unharmed)
			}
			want(t, "negative", v.send(request("/v1/calibrate", object("op", "relu", "iterations", -1))), unharmed)
		}},
	{name: "log that grows", sends: "5,000 requests that are refused",
		holds: "the log stays below a megabyte a thousand",
		do: func(t *testing.T, v *victim) {
			conn := v.dial()
			go func() {
				one := "POST /v1/" + repeat("a", 8000) + " HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}"
				for range 5000 {
					if _, err := conn.Write([]byte(one)); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, 1<<16)
			for total, n := 0, 0; total < 500_000; total += n {
				var err error
				if n, err = conn.Read(buf); err != nil {
					break
				}
			}
			if n := len(v.logged()); n > 5<<20 {
				t.Errorf("the log has %d bytes", n)
			}
		}},
}

func otherProject(t *testing.T, v *victim) {
	first, second := v.project("first", "builtin:relu"), v.project("second", "builtin:gelu")
	id := v.campaign(t, "test", first, 3)
	if told := v.followed(id); !strings.Contains(told, "event: done") {
		t.Fatalf("the campaign does not end: %s", told)
	}
	want(t, "resume", v.send(request("/v1/campaigns", object("config", second, "kind", "test", "resume", id))), refused)
	want(t, "resume without a project", v.send(request("/v1/campaigns", object("kind", "test", "resume", id))), refused)
	want(t, "resume as fuzz", v.send(request("/v1/campaigns", object("config", first, "kind", "fuzz", "resume", id))),
		refused)
	want(t, "baseline", v.send(request("/v1/baselines", object("config", second, "tag", "t", "campaign", id))), refused)
	want(t, "report", v.send(request("/v1/report", object("config", second, "format", "text", "campaign", id))),
		unharmed)
}

func floodCampaigns(t *testing.T, v *victim) {
	// A candidate that never answers costs no time of the machine, and ends with the daemon.
	mute := filepath.Join(v.mine, "mute.sh")
	if err := os.WriteFile(mute, []byte("#!/bin/sh\nexec cat <&3 > /dev/null\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := v.project("flood", "worker:"+mute)
	accepted := 0
	body := object("config", config, "kind", "fuzz", "seed", "1", "iterations", 1_000_000, "parallel", 1)
	for range 100 {
		r := v.send(request("/v1/campaigns", body))
		if r.status == 202 || r.status == 200 {
			accepted++
			continue
		}
		want(t, body, r, refused)
	}
	if accepted == 0 || accepted == 100 {
		t.Errorf("%d of 100 campaigns run at once", accepted)
	}
}

func cancelRaces(t *testing.T, v *victim) {
	config := v.project("races", "builtin:relu")
	var group sync.WaitGroup
	for range 10 {
		id := v.campaign(t, "fuzz", config, 100_000)
		for i := range 6 {
			conn := v.dial()
			group.Go(func() {
				text := asks("DELETE", "/v1/campaigns/"+id)
				switch i {
				case 4:
					text = asks("GET", "/v1/campaigns/"+id+"/events")
				case 5:
					text = request("/v1/campaigns", object("config", config, "kind", "fuzz", "resume", id))
				}
				want(t, text, exchange(conn, text), unharmed)
			})
		}
	}
	group.Wait()
	for range 20 { // what a resumption has started in the meantime
		r := v.send(asks("GET", "/v1/status"))
		var status struct{ Campaigns []struct{ ID string } }
		if err := json.Unmarshal(r.body, &status); err != nil {
			t.Fatalf("status: %v", r)
		}
		if len(status.Campaigns) == 0 {
			return
		}
		for _, c := range status.Campaigns {
			want(t, "cancel", v.send(asks("DELETE", "/v1/campaigns/"+c.ID)), unharmed)
		}
	}
	t.Error("campaigns that were cancelled run")
}

// marker is a program that leaves a file behind when it is executed.
func (v *victim) marker(t *testing.T, name string) (program, mark string) {
	t.Helper()
	program, mark = filepath.Join(v.mine, name), filepath.Join(v.mine, name+".executed")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n: > "+mark+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, mark
}

func namedCandidate(t *testing.T, v *victim) {
	program, mark := v.marker(t, "evil")
	config := v.project("named", "builtin:relu")
	for _, key := range []string{"candidate", "reference", "op_script", "script", "interpreter", "compiler", "command",
		"worker",
		"executable", "argv", "path", "shell", "module", "source"} {
		for _, value := range []any{program, []string{program}, "worker:" + program} {
			r := v.send(request("/v1/campaigns", object("config", config, "kind", "fuzz", "seed", "1", "iterations", 1, key,
				value)))
			var started struct{ Campaign string }
			if json.Unmarshal(r.body, &started) == nil && started.Campaign != "" {
				_ = v.followed(started.Campaign)
			}
			want(t, key, r, unharmed)
			body := object("op", "relu", "seed", "1", "count", 1, key, value)
			want(t, key, v.send(request("/v1/cases", body)), unharmed)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program that only a request names was executed")
	}
}

// namedEnvironment: the candidate is a program that writes its environment down. Variables that make the loader or an
// interpreter load code come from nothing but the environment of the caller.
func namedEnvironment(t *testing.T, v *victim) {
	seen := filepath.Join(v.mine, "environment")
	program := filepath.Join(v.mine, "candidate.sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nenv >> "+seen+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := v.project("variables", program)
	evil := map[string]string{}
	var list []string
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PERL5OPT",
		"NODE_OPTIONS",
		"PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "GPUEMU_HOME", "GPUEMU_SOCKET"} {
		evil[name] = "/evil-value"
		list = append(list, name+"=/evil-value")
	}
	// A map under "env" is the environment of the caller, who may execute anything: daemon_environment.txt.
	r := v.send(request("/v1/campaigns", object("config", config, "kind", "fuzz", "seed", "1", "iterations", 1, "env",
		list)))
	want(t, "env as a list", r, refused)
	for _, key := range []string{"environment", "environ", "vars", "variables"} {
		for _, value := range []any{evil, list} {
			r := v.send(request("/v1/campaigns", object("config", config, "kind", "fuzz", "seed", "1", "iterations", 1, key,
				value)))
			var started struct{ Campaign string }
			if json.Unmarshal(r.body, &started) == nil && started.Campaign != "" {
				_ = v.followed(started.Campaign)
			}
			want(t, key, r, unharmed)
		}
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatalf("the candidate was never executed: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "/evil-value") {
			t.Errorf("the candidate has %q", line)
			break
		}
	}
}

func oddProjects(t *testing.T, v *victim) {
	pattern := `required_patterns = ["` + repeat("(a+)+", 5000) + `$"]`
	for i, text := range []string{repeat("[[ops]]\nname = \"relu\"\n", 400_000), "a = " + repeat("[", 1<<20), "[" +
		repeat("a.", 1<<20) + "b]",
		"[project]\nname = \"" + repeat("n", 8<<20) + "\"\n", "[project]\nname = \"\\u001b[2J\"\n", "\x00\xff\xfe",
		"[[kernels]]\nname = \"k\"\nptx = \"../../../../etc/passwd\"\n[kernels.artifact_checks]\n" + pattern,
		"[[kernels]]\nname = \"../../x\"\nptx = \"/dev/zero\"\n",
		"[[ops]]\nname = \"../../x\"\ncandidate = \"builtin:relu\"\n",
		"[[ops]]\nname = \"relu\"\ncandidate = \"builtin:relu\"\n[ops.kernel]\nptx = \"/dev/zero\"\ngrid = [\"" + repeat(
			"(", 1<<20) + "\"]\n",
		"[[ops]]\nname = \"relu\"\ncandidate = \"builtin:relu\"\ntimeout = 1e308\n",
		"[validation]\nseed = 99999999999999999999\n"} {
		path := filepath.Join(v.mine, fmt.Sprintf("odd%d.toml", i))
		v.write(path, text)
		for to, body := range map[string]string{"/v1/lint": object("config", path), "/v1/coverage": object("config", path),
			"/v1/cases":     object("config", path, "op", "relu", "seed", "1", "count", 1),
			"/v1/campaigns": object("config", path, "kind", "ci", "quick", true, "iterations", 1)} {
			r := v.send(request(to, body))
			if strings.Contains(string(r.body), "root:x") {
				t.Errorf("%s tells of a file: %v", to, r)
			}
			want(t, fmt.Sprintf("%s of odd%d.toml", to, i), r, unharmed)
		}
	}
}
