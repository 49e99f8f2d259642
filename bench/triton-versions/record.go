package main

import "fmt"

type row struct {
	version                                             string
	kernels, builds, failed, launches, silent, findings int
	refused, wrong                                      int
}

func (r row) line() string { return fmt.Sprintf("%+v", r) }

func count(version string, results []outcome) row {
	r := row{version: version}
	kernels := map[string]bool{}
	for i := range results {
		o := &results[i]
		if o.Error != "" {
			r.failed++
			continue
		}
		kernels[o.Suite+"/"+o.Kernel] = true
		r.builds++
		r.launches += len(o.Launches)
		r.silent += o.Silent
		r.findings += len(o.Findings)
		r.refused += len(o.Refused)
		r.wrong += len(o.Wrong)
	}
	r.kernels = len(kernels)
	return r
}

func writeRecord(dir, path string) error { return fmt.Errorf("not yet") }
