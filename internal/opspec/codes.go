// This file implements the stable error codes of the package.

package opspec

import "gpuemu/internal/diag"

const (
	// SchemaSyntax means the schema is not well-formed JSON or a value has the wrong JSON type.
	SchemaSyntax diag.Code = "opspec-schema-syntax"
	// SchemaUnknownKey means the schema has a key that no version of the form knows.
	SchemaUnknownKey diag.Code = "opspec-schema-unknown-key"
	// SchemaLimit means the schema is larger than one of the named limits of this package.
	SchemaLimit diag.Code = "opspec-schema-limit"
	// SchemaInvalid means a field of the schema has a value that makes no sense, e.g. a negative candidate.
	SchemaInvalid diag.Code = "opspec-schema-invalid"
	// SchemaUnsatisfiable means no choice of dimensions fulfils the schema's relations.
	SchemaUnsatisfiable diag.Code = "opspec-schema-unsatisfiable"
	// ExprSyntax means an integer expression or relation cannot be parsed.
	ExprSyntax diag.Code = "opspec-expr-syntax"
	// ExprUnknownName means an expression names neither a dimension nor an integer attribute.
	ExprUnknownName diag.Code = "opspec-expr-unknown-name"
	// ExprArithmetic means an expression overflowed 64 bits or divided by zero.
	ExprArithmetic diag.Code = "opspec-expr-arithmetic"
	// RelationFailed means given dimensions and attributes violate a relation of the schema.
	RelationFailed diag.Code = "opspec-relation-failed"
	// DimInvalid means a dimension is missing, unknown, negative, or 0 where the schema does not allow it.
	DimInvalid diag.Code = "opspec-dim-invalid"
	// BindFailed means the shapes of given inputs do not fit the schema.
	BindFailed diag.Code = "opspec-bind-failed"
	// AttrUnknown means an attribute was given that the schema does not have.
	AttrUnknown diag.Code = "opspec-attr-unknown"
	// AttrInvalid means an attribute's value has the wrong type or is not one of those allowed.
	AttrInvalid diag.Code = "opspec-attr-invalid"
	// CaseSyntax means the text is not a canonical case.
	CaseSyntax diag.Code = "opspec-case-syntax"
)
