package pagesum

import (
	"encoding/binary"
	"slices"
)

// This file implements the first page of a new database (https://sqlite.org/fileformat2.html, 1.3).

const (
	geometryStart = 16
	geometryEnd   = 24
	reservedAt    = 20 // how many bytes at the end of a page SQLite leaves alone
)

// geometry are the bytes of the header that say how a page is divided: its size, the write-ahead log for writers and
// readers, the bytes for the checksum, and three constants.
var geometry = [geometryEnd - geometryStart]byte{PageSize >> 8, PageSize & 0xff, 2, 2, sumSize, 64, 32, 32}

// Empty returns the file of a database without tables. It uses the write-ahead log and incremental vacuum.
func Empty() []byte {
	page := make([]byte, PageSize)
	copy(page, "SQLite format 3\x00")
	copy(page[geometryStart:], geometry[:])
	put := func(offset int, value uint32) { binary.BigEndian.PutUint32(page[offset:], value) }
	put(24, 1) // file change counter
	put(28, 1) // pages
	put(44, 4) // schema format
	put(52, 1) // largest root page: not 0, so there are pointer maps
	put(56, 1) // UTF-8
	put(64, 1) // incremental vacuum
	put(92, 1) // the change counter for which the number of pages holds
	put(96, 3_045_000)
	page[100] = 0x0d // a leaf of the table of tables, with no cells
	binary.BigEndian.PutUint16(page[105:], usable)
	s := sum(page, 0)
	copy(page[usable:], s[:])
	return page
}

// Sealed reports whether a file with that beginning is a database of this form; one of another form is not.
func Sealed(header []byte) bool {
	return len(header) >= geometryEnd && string(header[:geometryStart]) == "SQLite format 3\x00" &&
		[geometryEnd - geometryStart]byte(header[geometryStart:]) == geometry
}

// Unsealed reports whether a file whose first page that is may be a database of SQLite without checksums: an empty
// file is one. A database of this form in whose header a bit was flipped is not: its first page still has its checksum.
func Unsealed(first []byte) bool {
	if len(first) == 0 {
		return true
	}
	if len(first) < PageSize || string(first[:geometryStart]) != "SQLite format 3\x00" || first[reservedAt] != 0 {
		return false
	}
	page := slices.Clone(first[:PageSize])
	copy(page[geometryStart:], geometry[:])
	return sum(page, 0) != [sumSize]byte(page[usable:])
}
