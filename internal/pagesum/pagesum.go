// Package pagesum makes SQLite verify every page that it reads: a VFS that keeps a checksum in the last eight bytes
// of each page of the database, and checks each frame of the write-ahead log against the checksum that SQLite wrote
// with it.
//
// SQLite itself checks frames only when it recovers a log, and pages never: a flipped bit is read back as another
// value, or hides a row from an index. With this VFS a read of changed bytes fails with SQLITE_IOERR_DATA instead,
// whether it was for a row, an index, a count or a checkpoint. It knows nothing of tables. The main functions are
// Register and Empty; only databases that begin with the page of Empty can be opened.
//
// The VFS is the default one of the system with five methods of its own. Its file objects are those of the default VFS:
// each open file has a method table of its own, which ends with the address of the original one.
package pagesum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// Name is the name of the VFS in the address of a database.
	Name = "gpuemu-pagesum"

	// PageSize is the size of all pages: 4096 is SQLite's default.
	PageSize = 4096
	// sumSize is how many bytes at the end of a page SQLite leaves alone.
	sumSize = 8
	usable  = PageSize - sumSize

	// Sizes in a write-ahead log (https://sqlite.org/fileformat2.html, 4.1).
	logHeader   = 32
	frameHeader = 24
	frameSize   = frameHeader + PageSize

	// DataError is the extended result code of a read that found changed bytes.
	DataError = sqlite3.SQLITE_IOERR_DATA
)

// Register makes the VFS known to SQLite, once for the process.
var Register = sync.OnceValue(register)

func register() error {
	tls := libc.NewTLS()
	defer tls.Close()
	system := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if system == 0 {
		return errors.New("pagesum: SQLite has no default VFS")
	}
	name, err := libc.CString(Name) // never freed: the VFS stays
	if err != nil {
		return fmt.Errorf("pagesum: %w", err)
	}
	own := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(vfs{})))
	if own == 0 {
		return errors.New("pagesum: out of memory")
	}
	v := at[vfs](own)
	*v = vfs{Tsqlite3_vfs: *at[sqlite3.Tsqlite3_vfs](system), system: system}
	v.FpNext, v.FzName, v.FxOpen = 0, name, pointer(open)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, own, 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("pagesum: SQLite refuses the VFS: result code %d", rc)
	}
	return nil
}

// vfs is the VFS as SQLite sees it, and the one of the system.
type vfs struct {
	sqlite3.Tsqlite3_vfs
	system uintptr
}

// methods is the method table of one open file, and the one it had before.
type methods struct {
	sqlite3.Tsqlite3_io_methods
	system uintptr
}

// The types of C functions, as the translated SQLite calls them.
type (
	openFunc   = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	fileFunc   = func(tls *libc.TLS, file uintptr) int32                             // close and device characteristics
	accessFunc = func(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 // read and write
)

// at gives what lies at an address of C. Memory of C is not moved and not seen by the garbage collector.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// bytesAt gives n bytes at an address of C.
func bytesAt(address uintptr, n int32) []byte { return unsafe.Slice(at[byte](address), n) }

// pointer is a function of Go as a function pointer of C, and function the way back.
func pointer[F any](f F) uintptr        { return *(*uintptr)(unsafe.Pointer(&f)) }
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }
func tableOf(file uintptr) *methods     { return at[methods](at[sqlite3.Tsqlite3_file](file).FpMethods) }
func systemOf(file uintptr) *ioMethods  { return at[ioMethods](tableOf(file).system) }

type ioMethods = sqlite3.Tsqlite3_io_methods

// open opens a file with the VFS of the system. A database and its log get a method table with checks.
func open(tls *libc.TLS, v, name, file uintptr, flags int32, outFlags uintptr) int32 {
	system := at[vfs](v).system
	rc := function[openFunc](at[sqlite3.Tsqlite3_vfs](system).FxOpen)(tls, system, name, file, flags, outFlags)
	if rc != sqlite3.SQLITE_OK || flags&(sqlite3.SQLITE_OPEN_MAIN_DB|sqlite3.SQLITE_OPEN_WAL) == 0 {
		return rc
	}
	original := at[sqlite3.Tsqlite3_file](file).FpMethods
	own := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(methods{})))
	if own == 0 {
		function[fileFunc](at[ioMethods](original).FxClose)(tls, file)
		at[sqlite3.Tsqlite3_file](file).FpMethods = 0
		return sqlite3.SQLITE_NOMEM
	}
	m := at[methods](own)
	*m = methods{Tsqlite3_io_methods: *at[ioMethods](original), system: original}
	m.FxClose = pointer(closeFile)
	if flags&sqlite3.SQLITE_OPEN_WAL != 0 {
		m.FxRead = pointer(readLog)
	} else {
		m.FxRead, m.FxWrite = pointer(readPage), pointer(writePage)
		m.FxDeviceCharacteristics = pointer(characteristics)
		if m.FiVersion >= 3 {
			m.FxFetch = pointer(fetch)
		}
	}
	at[sqlite3.Tsqlite3_file](file).FpMethods = own
	return rc
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	own := at[sqlite3.Tsqlite3_file](file).FpMethods
	at[sqlite3.Tsqlite3_file](file).FpMethods = at[methods](own).system
	libc.Xfree(tls, own)
	return function[fileFunc](at[ioMethods](at[sqlite3.Tsqlite3_file](file).FpMethods).FxClose)(tls, file)
}

// fetch refuses to map a part of the file into memory: what is mapped is not read, and so not checked.
func fetch(_ *libc.TLS, _ uintptr, _ int64, _ int32, out uintptr) int32 {
	*at[uintptr](out) = 0
	return sqlite3.SQLITE_OK
}

// characteristics takes away what lets SQLite read parts of pages past its cache.
func characteristics(tls *libc.TLS, file uintptr) int32 {
	return function[fileFunc](systemOf(file).FxDeviceCharacteristics)(tls, file) &^ sqlite3.SQLITE_IOCAP_SUBPAGE_READ
}

// readPage reads from a database. Whole pages are checked. Of a part of the first page, which SQLite reads to find out
// how large pages are, what decides that must be as Empty wrote it.
func readPage(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	rc := function[accessFunc](systemOf(file).FxRead)(tls, file, buf, n, offset)
	if rc != sqlite3.SQLITE_OK {
		return rc
	}
	page := bytesAt(buf, n)
	switch {
	case n == PageSize && offset%PageSize == 0:
		if sum(page, offset) != [sumSize]byte(page[usable:]) {
			return DataError
		}
	case offset >= PageSize: // a part of a page, which has no checksum
		return DataError
	case offset == 0 && n >= geometryEnd && [geometryEnd - geometryStart]byte(page[geometryStart:]) != geometry:
		return DataError
	}
	return rc
}

// writePage writes to a database, pages with their checksums. A first page of another form is refused: in it a checksum
// would lie on data.
func writePage(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	page := bytesAt(buf, n)
	if n != PageSize || offset%PageSize != 0 ||
		offset == 0 && [geometryEnd - geometryStart]byte(page[geometryStart:]) != geometry {
		return DataError
	}
	s := sum(page, offset)
	copy(page[usable:], s[:])
	return function[accessFunc](systemOf(file).FxWrite)(tls, file, buf, n, offset)
}

// sum is the checksum of the page at an offset: two of 32 bits, for which processors have instructions. The offset is
// in it, so that a page in the place of another is found.
func sum(page []byte, offset int64) [sumSize]byte {
	place := binary.LittleEndian.AppendUint64(nil, uint64(offset))
	first := crc32.Update(crc32.Checksum(place, castagnoli), castagnoli, page[:usable])
	second := crc32.Update(crc32.ChecksumIEEE(place), crc32.IEEETable, page[:usable])
	var out [sumSize]byte
	binary.LittleEndian.PutUint32(out[:], first)
	binary.LittleEndian.PutUint32(out[4:], second)
	return out
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readLog reads from a write-ahead log. The page of a frame is checked; headers, and whole frames during recovery, are
// checked by SQLite. Frames are never overwritten by the transaction that wrote them, as long as its connection does
// not spill its cache (PRAGMA cache_spill = 0), so that their checksums are those of the file at all times.
func readLog(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	read := function[accessFunc](systemOf(file).FxRead)
	rc := read(tls, file, buf, n, offset)
	if rc != sqlite3.SQLITE_OK || n != PageSize || (offset-logHeader-frameHeader)%frameSize != 0 {
		return rc
	}
	// The header of the frame, and before it the checksum of the frame before or, of the first, of the log.
	const around = frameHeader + 8
	space := tls.Alloc(around)
	defer tls.Free(around)
	if rc := read(tls, file, space, frameHeader, offset-frameHeader); rc != sqlite3.SQLITE_OK {
		return rc
	}
	before := offset - frameHeader - frameSize + 16
	if offset == logHeader+frameHeader {
		before = 24
	}
	if rc := read(tls, file, space+frameHeader, 8, before); rc != sqlite3.SQLITE_OK {
		return rc
	}
	both := bytesAt(space, around)
	head, start := both[:frameHeader], both[frameHeader:]
	page := bytesAt(buf, n)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} { // of the machine that wrote it
		s0, s1 := binary.BigEndian.Uint32(start), binary.BigEndian.Uint32(start[4:])
		s0, s1 = frameSum(order, s0, s1, head[:8])
		s0, s1 = frameSum(order, s0, s1, page)
		if s0 == binary.BigEndian.Uint32(head[16:]) && s1 == binary.BigEndian.Uint32(head[20:]) {
			return rc
		}
	}
	return DataError
}

// frameSum continues the checksum of a log (https://sqlite.org/fileformat2.html, 4.2).
func frameSum(order binary.ByteOrder, s0, s1 uint32, b []byte) (uint32, uint32) {
	if order == binary.LittleEndian { // so that the compiler sees which
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.LittleEndian.Uint32(b) + s1
			s1 += binary.LittleEndian.Uint32(b[4:]) + s0
		}
		return s0, s1
	}
	for ; len(b) >= 8; b = b[8:] {
		s0 += binary.BigEndian.Uint32(b) + s1
		s1 += binary.BigEndian.Uint32(b[4:]) + s0
	}
	return s0, s1
}
