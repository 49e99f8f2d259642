package forge

import "gpuemu/internal/diag"

const (
	// BadName means that a name cannot be that of an account, or is a word that stands for nobody.
	BadName diag.Code = "forge-bad-name"
	// BadForge means that a kind of forge is not known, or the address of a forge is not a plain https address.
	BadForge diag.Code = "forge-bad-forge"
	// NoUser means that the forge, or the folder, knows nobody of that name.
	NoUser diag.Code = "forge-no-user"
	// NoKeys means that the account is there and has no key that can be used.
	NoKeys diag.Code = "forge-no-keys"
	// Unreachable means that a forge could not be asked, or did not give a usable answer: whose key it is, is not known.
	Unreachable diag.Code = "forge-unreachable"
)
