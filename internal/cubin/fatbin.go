package cubin

// This file implements fatbins: a header, and one entry per image, each with a header of its own.

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Sizes of headers. An entry's header may be longer: options of the compiler follow.
const (
	fatbinHeader = 16 // magic number, version (16 bits), size of this header (16 bits), bytes that follow (64 bits)
	entryHeader  = 64
)

// Kinds of entries.
const (
	entryPTX = 1
	entryELF = 2
)

// Flags of entries.
const (
	flag64Bit  = 0x1
	flagLZ4    = 0x2000
	flagZstd   = 0x8000 // the default since CUDA 12.8
	flagAccel  = 0x100000
	flagFamily = 0x200000
)

// entry is the header of an image. Offsets: 0 kind (16 bits), 2 version (16), 4 size of this header (32), 8 size of the
// payload with padding (64), 16 size of the compressed payload (32), 24 minor and 26 major version of PTX or of the
// code (16 each), 28 architecture (32), 40 flags (64), 56 size when unpacked (64).
type entry struct {
	kind         int
	offset       int // of the payload in the file
	payload      []byte
	packedSize   uint32
	major, minor uint16
	arch         uint32
	flags        uint64
	size         uint64 // when unpacked
}

// fatbinReader collects the images of all fatbins of a file.
type fatbinReader struct {
	src      source
	file     *File
	unpacked int           // bytes so far
	zstd     *zstd.Decoder // made when first needed
}

// close frees the decoder.
func (r *fatbinReader) close() {
	if r.zstd != nil {
		r.zstd.Close()
	}
}

// readAll reads the fatbins in data, which lies at offset base of the file: linkers put several into one section, each
// at a multiple of 8 bytes.
func (r *fatbinReader) readAll(data []byte, base int) error {
	r.src.base = base
	for at := 0; at < len(data); {
		rest := data[at:]
		if rest[0] == 0 {
			at++ // padding
			continue
		}
		if len(rest) < fatbinHeader || binary.LittleEndian.Uint32(rest) != fatbinMagic {
			return r.src.malformed(BadFatbin, at, "a fatbin should start here, and does not")
		}
		size, err := r.readFatbin(rest, at)
		if err != nil {
			return err
		}
		at += size
	}
	return nil
}

// readFatbin reads the fatbin at the start of data and returns its size.
func (r *fatbinReader) readFatbin(data []byte, at int) (int, error) {
	le := binary.LittleEndian
	version, header, size := le.Uint16(data[4:]), int(le.Uint16(data[6:])), le.Uint64(data[8:])
	if version != 1 || header < fatbinHeader || header > len(data) {
		return 0, r.src.malformed(BadFatbin, at,
			"the fatbin has version %d with a header of %d bytes, want version 1 with %d", version, header, fatbinHeader)
	}
	if size > uint64(len(data)-header) {
		return 0, r.src.malformed(BadFatbin, at, "the fatbin has %d bytes and only %d are left", size, len(data)-header)
	}
	end := header + int(size)
	for pos := header; pos < end; {
		e, next, err := r.readEntry(data[pos:end], at+pos)
		if err != nil {
			return 0, err
		}
		if err := r.addImage(e); err != nil {
			return 0, err
		}
		pos += next
	}
	return end, nil
}

// readEntry reads the header of the image at the start of data, and returns the distance to the next one.
func (r *fatbinReader) readEntry(data []byte, at int) (entry, int, error) {
	le := binary.LittleEndian
	if len(data) < entryHeader {
		return entry{}, 0, r.src.malformed(BadFatbin, at, "the header of an image is cut off after %d bytes", len(data))
	}
	header, size := uint64(le.Uint32(data[4:])), le.Uint64(data[8:])
	if header < entryHeader || header > uint64(len(data)) || size > uint64(len(data))-header {
		return entry{}, 0, r.src.malformed(BadFatbin, at, "an image of %d bytes with a header of %d leaves its fatbin",
			size, header)
	}
	e := entry{
		kind: int(le.Uint16(data)), offset: r.src.base + at + int(header), payload: data[header : header+size],
		packedSize: le.Uint32(data[16:]), minor: le.Uint16(data[24:]), major: le.Uint16(data[26:]),
		arch: le.Uint32(data[28:]), flags: le.Uint64(data[40:]), size: le.Uint64(data[56:]),
	}
	return e, int(header + size), nil
}

// addImage unpacks and reads an image.
func (r *fatbinReader) addImage(e entry) error {
	img := Image{
		Kind: Other, Arch: e.archText(), Bits: 32, Offset: e.offset, FatbinKind: e.kind,
		Compressed: e.flags&(flagLZ4|flagZstd) != 0,
	}
	if e.flags&flag64Bit != 0 {
		img.Bits = 64
	}
	src := source{name: r.src.name, base: e.offset, unpacked: img.Compressed}
	if e.kind == entryPTX || e.kind == entryELF {
		data, err := r.unpack(e, src)
		if err != nil {
			return err
		}
		if e.kind == entryPTX {
			img.Kind, img.Version = PTX, fmt.Sprintf("%d.%d", e.major, e.minor)
			img.PTX = strings.TrimRight(string(data), "\x00") // padding, or the end of a C string
			if target := ptxTarget(img.PTX); target != "" {
				img.Arch = target
			}
		} else {
			f, err := parseELF(src, data)
			if err != nil {
				return err
			}
			if f.machine != machineCUDA {
				return src.malformed(BadELF, 18, "the image is an ELF file for machine %d, not for CUDA", f.machine)
			}
			family := strings.HasSuffix(img.Arch, "f") // the ELF header does not say it
			if img, err = readImage(f); err != nil {
				return err
			}
			if family {
				img.Arch = strings.TrimSuffix(img.Arch, "a") + "f"
			}
			img.FatbinKind = e.kind
		}
	}
	r.file.Images = append(r.file.Images, img)
	return nil
}

// archText is the architecture as the entry has it.
func (e entry) archText() string {
	text := fmt.Sprintf("sm_%d", e.arch)
	switch {
	case e.flags&flagAccel != 0:
		text += "a"
	case e.flags&flagFamily != 0:
		text += "f"
	}
	return text
}

// ptxTarget finds the architecture in the .target line of PTX text, "" if there is none in sight.
func ptxTarget(text string) string {
	_, rest, found := strings.Cut(text[:min(len(text), 4096)], "\n.target ")
	if !found {
		return ""
	}
	end := strings.IndexAny(rest, ", \t\r\n/")
	if end < 0 || end > len("sm_1000a") || !strings.HasPrefix(rest, "sm_") {
		return ""
	}
	return rest[:end]
}

// unpack returns the payload of an image as the compiler wrote it.
func (r *fatbinReader) unpack(e entry, src source) ([]byte, error) {
	packing := e.flags & (flagLZ4 | flagZstd)
	if packing == 0 {
		return e.payload, nil
	}
	if uint64(e.packedSize) > uint64(len(e.payload)) {
		return nil, src.malformed(BadPacked, 0, "the image has %d compressed bytes in a payload of %d",
			e.packedSize, len(e.payload))
	}
	packed := e.payload[:e.packedSize]
	if e.size > maxImage || uint64(r.unpacked)+e.size > maxUnpacked {
		return nil, src.errorf(TooLarge, "unpack it with cuobjdump --extract-elf all, and give one cubin",
			"%s: the image unpacks to %d bytes; at most %d each and %d in all are read",
			src.at(0), e.size, maxImage, maxUnpacked)
	}
	r.unpacked += int(e.size)
	switch packing {
	case flagLZ4:
		data, err := unpackLZ4(packed, int(e.size))
		if err != nil {
			return nil, src.malformed(BadPacked, 0, "LZ4: %v", err)
		}
		return data, nil
	case flagZstd:
		data, err := r.unpackZstd(packed, e.size)
		if err != nil {
			return nil, src.malformed(BadPacked, 0, "Zstandard: %v", err)
		}
		return data, nil
	}
	return nil, src.malformed(BadPacked, 0, "the image says that it is compressed in two ways at once")
}

// unpackZstd decodes a Zstandard frame of the given size.
func (r *fatbinReader) unpackZstd(packed []byte, size uint64) ([]byte, error) {
	var header zstd.Header
	if err := header.Decode(packed); err != nil {
		return nil, err
	}
	if !header.HasFCS || header.FrameContentSize != size {
		return nil, fmt.Errorf("the frame unpacks to %d bytes and should unpack to %d", header.FrameContentSize, size)
	}
	// A block has at least 4 bytes and makes at most 128 KiB (RFC 8878, 3.1.1.2): what claims more is not worth the
	// memory.
	if size > uint64(len(packed))<<15 {
		return nil, fmt.Errorf("%d bytes cannot unpack to %d", len(packed), size)
	}
	if r.zstd == nil {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxImage), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		r.zstd = decoder
	}
	data, err := r.zstd.DecodeAll(packed, make([]byte, 0, size))
	if err == nil && uint64(len(data)) != size {
		err = fmt.Errorf("%d bytes came out and should be %d", len(data), size)
	}
	return data, err
}
