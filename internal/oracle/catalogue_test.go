package oracle

import "testing"

func TestCatalogueIsValid(t *testing.T) {
	seen := map[string]bool{}
	ops := Ops()
	if len(ops) < 45 {
		t.Fatalf("catalogue has %d ops, want at least 45", len(ops))
	}
	for _, op := range ops {
		t.Run(op.Name, func(t *testing.T) {
			for _, n := range append([]string{op.Name}, op.Aliases...) {
				if seen[n] {
					t.Errorf("name %q is used twice", n)
				}
				seen[n] = true
			}
			if err := op.Schema.Validate(); err != nil {
				t.Errorf("schema: %v", err)
			}
			if op.Doc == "" || op.Contract == "" || op.Family == "" || op.ref == nil {
				t.Errorf("entry is incomplete: %+v", op)
			}
			for i := range op.Schema.Inputs {
				if _, err := op.Schema.Inputs[i].ElemType(op.Schema.AllowedDTypes()[0], op.Schema.DefaultAttrs()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
