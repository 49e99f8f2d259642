package store

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	OpenFailed     diag.Code = "store-open"            // the directory or the database cannot be opened or created
	Damaged        diag.Code = "store-damaged"         // the database is damaged or not one of gpuemu
	Lost           diag.Code = "store-lost"            // commits before a crash are gone: the write-ahead log is damaged
	Newer          diag.Code = "store-newer"           // the database was written by a newer gpuemu
	Outdated       diag.Code = "store-outdated"        // the database is of an older gpuemu and opened read-only
	Unconverted    diag.Code = "store-unconverted"     // the database of an older gpuemu cannot be read or converted
	Full           diag.Code = "store-full"            // there is no room left for the database or the tensors
	ReadOnly       diag.Code = "store-read-only"       // the store cannot be written to
	Locked         diag.Code = "store-locked"          // another process kept the database locked for too long
	IOFailed       diag.Code = "store-io"              // the system failed to read or write a file of the store
	Closed         diag.Code = "store-closed"          // the store or the writer was closed before
	Internal       diag.Code = "store-internal"        // a statement was refused: a fault of gpuemu
	NotFound       diag.Code = "store-not-found"       // nothing of that name is in the store
	CampaignTaken  diag.Code = "store-campaign-taken"  // a campaign of that ID exists, or another process is running it
	BadRecord      diag.Code = "store-bad-record"      // a record cannot be stored: a value it must have is missing
	TensorsMissing diag.Code = "store-tensors-missing" // the tensors of a case are not in the store, or not any more
	TensorsDamaged diag.Code = "store-tensors-damaged" // a tensor file does not have the content its name promises
)
