// This file implements configurations that are kept between requests.

package config

import (
	"bytes"
	"os"
	"sync"
)

// maxCached is how many configurations are kept; one has a few dozen kilobytes.
const maxCached = 64

// Cache keeps configurations, so that a file that has not changed is not parsed again. The file is read each time, and
// its bytes decide: times and sizes may stay when it changes. It is safe for concurrent use; the configurations that it
// returns are shared, and nobody may change them. The zero value is empty.
type Cache struct {
	mu   sync.Mutex
	kept map[string]cached // guarded by mu; by path
}

type cached struct {
	data   []byte
	config *Config
}

// Load is the function Load.
func (c *Cache) Load(path string) (*Config, error) {
	data, err := read(path, os.Geteuid())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	old, ok := c.kept[path]
	c.mu.Unlock()
	if ok && bytes.Equal(old.data, data) {
		return old.config, nil
	}
	config, err := parsed(path, data)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxCached {
		c.kept = map[string]cached{}
	}
	c.kept[path] = cached{data, config}
	return config, nil
}
