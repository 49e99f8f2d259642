// Command goworker is a worker for gpuemu in Go: it computes max(x, 0) of float32 tensors of any layout. It is the
// example of docs/formats/worker-v1.md and uses nothing but the standard library.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

type request struct {
	Type   string
	ID     uint64
	Inputs []struct {
		Name, DType    string
		Shape, Strides []int
		Offset         int
		Bytes          [2]int64
	}
}

func main() {
	requests, replies := os.NewFile(3, "requests"), os.NewFile(4, "replies")
	for {
		var size [4]byte
		if _, err := io.ReadFull(requests, size[:]); err != nil {
			return // gpuemu has no more work
		}
		header := make([]byte, binary.LittleEndian.Uint32(size[:]))
		if _, err := io.ReadFull(requests, header); err != nil {
			return
		}
		var req request
		reply := map[string]any{"ok": true, "version": 1}
		if err := json.Unmarshal(header, &req); err != nil {
			os.Exit(1)
		}
		if req.Type == "call" {
			reply = relu(&req)
		}
		reply["id"] = req.ID
		text, _ := json.Marshal(reply)
		replies.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
}

func relu(req *request) map[string]any {
	in, out := os.NewFile(5, "input image"), os.NewFile(6, "output image")
	x := req.Inputs[0]
	if x.DType != "float32" {
		return map[string]any{"ok": false, "reason": "unsupported", "message": "goworker knows float32 only"}
	}
	storage := make([]byte, x.Bytes[1]-x.Bytes[0])
	if _, err := in.ReadAt(storage, x.Bytes[0]); err != nil {
		return map[string]any{"ok": false, "reason": "not_started", "message": err.Error()}
	}
	data := walk(nil, storage, x.Shape, x.Strides, x.Offset)
	shape, _ := json.Marshal(append([]int{}, x.Shape...))
	header := fmt.Sprintf(`{"y":{"dtype":"F32","shape":%s,"data_offsets":[0,%d]}}`, shape, len(data))
	image := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	image = append(append(image, header...), data...)
	out.WriteAt(image, 0)
	return map[string]any{"ok": true, "image": len(image)}
}

// walk appends the results in row-major order: element (i, j, …) lies at offset + i*strides[0] + j*strides[1] + ….
func walk(data, storage []byte, shape, strides []int, at int) []byte {
	if len(shape) == 0 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(storage[4*at:]))
		return binary.LittleEndian.AppendUint32(data, math.Float32bits(max(v, 0)))
	}
	for i := range shape[0] {
		data = walk(data, storage, shape[1:], strides[1:], at+i*strides[0])
	}
	return data
}
