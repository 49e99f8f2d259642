package fingerprint

import (
	"encoding/json"
	"fmt"
	"strings"
)

// This file implements the lists of AMD's tools. Both print JSON whose keys changed case and spelling between
// versions, so keys are compared without case, spaces and underscores, and what is missing stays empty.

// parseAMD reads amd-smi static --json: a list of devices, or an object that has one as gpu_data.
func parseAMD(out []byte) ([]GPU, bool) {
	var doc any
	if json.Unmarshal(out, &doc) != nil {
		return nil, false
	}
	if obj, ok := doc.(map[string]any); ok {
		doc = field(obj, "gpudata")
	}
	list, ok := doc.([]any)
	if !ok || len(list) > maxGPUs {
		return nil, false
	}
	var gpus []GPU
	for _, d := range list {
		dev, ok := d.(map[string]any)
		if !ok {
			return nil, false
		}
		asic, driver := object(dev, "asic"), object(dev, "driver")
		size := object(object(dev, "vram"), "size")
		gpus = append(gpus, GPU{Index: text(dev, "gpu"), UUID: text(asic, "asicserial"), Name: text(asic, "marketname"),
			Driver: text(driver, "version", "driverversion"), ComputeCapability: text(asic, "targetgraphicsversion"),
			Memory: strings.TrimSpace(text(size, "value") + " " + text(size, "unit"))})
	}
	sortGPUs(gpus)
	return gpus, true
}

// parseROCm reads rocm-smi --json: an object with card0, card1, …, and system.
func parseROCm(out []byte) ([]GPU, bool) {
	var doc map[string]map[string]any
	if json.Unmarshal(out, &doc) != nil || len(doc) > maxGPUs {
		return nil, false
	}
	driver := text(doc["system"], "driverversion")
	var gpus []GPU
	for key, dev := range doc {
		index, ok := strings.CutPrefix(key, "card")
		if !ok {
			continue
		}
		memory := text(dev, "vramtotalmemory(b)")
		if memory != "" {
			memory += " B"
		}
		gpus = append(gpus, GPU{Index: cleanField(index), UUID: text(dev, "uniqueid"), Driver: driver, Memory: memory,
			Name: text(dev, "cardseries", "cardmodel"), ComputeCapability: text(dev, "gfxversion")})
	}
	sortGPUs(gpus)
	return gpus, len(gpus) > 0
}

// field returns the value of a key, compared without case, spaces and underscores; the first in the order of spelling
// where there are several.
func field(obj map[string]any, name string) any {
	best := ""
	var value any
	for key, v := range obj {
		if strings.NewReplacer(" ", "", "_", "").Replace(strings.ToLower(key)) == name && (best == "" || key < best) {
			best, value = key, v
		}
	}
	return value
}

func object(obj map[string]any, name string) map[string]any {
	o, _ := field(obj, name).(map[string]any)
	return o
}

// text returns the first of the names that has a text or a number.
func text(obj map[string]any, names ...string) string {
	for _, name := range names {
		switch v := field(obj, name).(type) {
		case string:
			if v != "" && v != "N/A" {
				return cleanField(v)
			}
		case float64:
			return cleanField(fmt.Sprintf("%.0f", v))
		}
	}
	return ""
}
