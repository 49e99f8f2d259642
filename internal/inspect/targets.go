package inspect

import (
	"slices"

	"gpuemu/internal/artifact"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/pattern"
	"gpuemu/internal/ptx"
)

// This file implements what gpuemu.toml says of kernels.

// Configured returns the kernels of a configuration: those of the names, or all. strict makes limits count where a
// figure is an estimate or not known.
func Configured(cfg *config.Config, names []string, strict bool) ([]Target, error) {
	if cfg == nil || len(cfg.Kernels) == 0 {
		return nil, diag.Errorf(NothingToInspect, "name a file, or add [[kernels]] to gpuemu.toml",
			"there is no compiled kernel to look at")
	}
	kernels := compiled(cfg)
	var known []string
	for i := range kernels {
		known = append(known, kernels[i].Name)
	}
	for i := range cfg.Kernels {
		known = append(known, cfg.Kernels[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, diag.Errorf(UnknownKernel, diag.Suggest(name, known, "gpuemu artifacts lists the kernels"),
				"%s has no kernel %.200q", cfg.Path, name)
		}
	}
	var targets []Target
	for i := range kernels {
		k := &kernels[i]
		if len(names) > 0 && !slices.Contains(names, k.Name) && !slices.Contains(names, k.entry) {
			continue
		}
		policy, err := policyOf(&k.Kernel, strict)
		if err != nil {
			return nil, err
		}
		targets = append(targets, Target{Name: k.Name, Files: k.Files(), Dir: cfg.Dir, Entry: k.Entry, Policy: policy,
			Arch: k.Arch, Flags: k.Flags, Disassemble: k.SASS == ""})
	}
	return targets, nil
}

// compiledKernel is a kernel that was compiled, and the name of the entry of gpuemu.toml that it is of.
type compiledKernel struct {
	config.Kernel
	entry string
}

// compiled are the kernels of a configuration.
func compiled(cfg *config.Config) []compiledKernel {
	var out []compiledKernel
	for i := range cfg.Kernels {
		for _, k := range cfg.Compiled(&cfg.Kernels[i]) {
			out = append(out, compiledKernel{k, cfg.Kernels[i].Name})
		}
	}
	return out
}

// Named makes a target of files or a text that stand for the kernel of that name. Where the configuration has it, under
// its own name or that of its entry, its policy counts. Else, and without a name, each kernel that the configuration
// has by its name in the file has that one's policy, and every other the documented limits.
func Named(cfg *config.Config, name string, t Target, strict bool) (Target, error) {
	t.Policy = artifact.DefaultPolicy()
	t.Policy.Strict = strict
	if cfg == nil || len(cfg.Kernels) == 0 {
		return t, nil
	}
	kernels := compiled(cfg)
	i := -1
	if name != "" {
		i = slices.IndexFunc(kernels, func(k compiledKernel) bool { return k.Name == name })
		entry := func(k compiledKernel) bool { return k.Entry == name }
		if i < 0 {
			i = slices.IndexFunc(kernels, entry)
			if i >= 0 && slices.ContainsFunc(kernels[i+1:], entry) {
				i = -1 // the kernel is found by its name in the file, and refused as ambiguous
			}
		}
	}
	if i < 0 {
		var err error
		t.Known, err = Configured(cfg, nil, strict)
		return t, err
	}
	k := &kernels[i].Kernel
	policy, err := policyOf(k, strict)
	if err != nil {
		return t, err
	}
	t.Name, t.Entry, t.Policy = k.Name, k.Entry, policy
	return t, nil
}

// Misspelt says that a name which gpuemu.toml does not have is nearly one that it has: what is called so would pass
// under limits that nobody meant for it. The name of a kernel in the document is right, whatever gpuemu.toml has.
func (d *Document) Misspelt(cfg *config.Config, name string) error {
	if cfg == nil || name == "" {
		return nil
	}
	var known []string
	for _, k := range compiled(cfg) {
		known = append(known, k.Name)
		if k.Entry != "" {
			known = append(known, k.Entry)
		}
	}
	if slices.Contains(known, name) {
		return nil
	}
	for i := range d.Kernels {
		k := &d.Kernels[i]
		if k.Kernel == name || ptx.SourceName(k.Kernel) == name || slices.Contains(known, k.Name) {
			return nil
		}
	}
	hint := diag.Suggest(name, known, "")
	if hint == "" {
		return nil
	}
	return diag.Errorf(UnknownKernel, hint, "%s has no kernel %.200q", cfg.Path, name)
}

// policyOf is the policy that the configuration gives a kernel.
func policyOf(k *config.Kernel, strict bool) (artifact.Policy, error) {
	c := &k.Checks
	p := artifact.Policy{MaxRegisters: &c.MaxRegisters, MaxSpills: &c.MaxSpills, MaxLocalMemory: &c.MaxLocalMemory,
		MaxShared: c.MaxShared, MaxInstructions: c.MaxInstructions, MaxStack: c.MaxStack, Strict: strict}
	for _, list := range []struct {
		texts []string
		into  *[]pattern.Pattern
	}{{c.RequiredPatterns, &p.Required}, {c.ForbiddenPatterns, &p.Forbidden}} {
		for _, text := range list.texts {
			pat, err := pattern.Parse(text)
			if err != nil {
				return p, err
			}
			*list.into = append(*list.into, pat)
		}
	}
	return p, nil
}
