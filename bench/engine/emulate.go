// This file implements the row of a launch in the emulator: a kernel that the daemon knows.

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"gpuemu/internal/wire"
)

// smallKernel stores the index of each of 1,024 threads.
const smallKernel = `.version 8.0
.target sm_80
.address_size 64
.visible .entry small(.param .u64 out)
{
	.reg .b32 %r<4>; .reg .b64 %rd<3>;
	ld.param.u64 %rd0, [out];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %ctaid.x;
	mad.lo.u32 %r2, %r1, 256, %r0;
	mul.wide.u32 %rd1, %r2, 4;
	add.u64 %rd2, %rd0, %rd1;
	st.global.u32 [%rd2], %r2;
	ret;
}
`

func emulateRows() []row {
	return []row{{name: "daemon, warm launch of a small kernel, median", goal: goal{atMost: 1},
		note: "A client in Go asks the daemon to execute a kernel of 4 blocks and 256 threads with all checks, and reads " +
			"the document and the output. The daemon has the kernel from the launch before.",
		measure: (*bench).launches}}
}

// launches measures the median of launches: the best of several such medians counts.
func (b *bench) launches() (*result, error) {
	text := smallKernel
	header, err := json.Marshal(&wire.EmulateHeader{PTX: &text, Entry: "small", Grid: []int{4}, Block: []int{256},
		Args: []wire.EmulateArg{{Kind: "tensor", Name: "out", DType: "int32", Role: "out", Shape: []int64{1024}}}})
	if err != nil {
		return nil, err
	}
	body := append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...)
	body = binary.LittleEndian.AppendUint64(body, 0)
	var medians series
	err = b.withDaemon(relu1, false, func(s *session) error {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
		}
		client := &http.Client{Transport: &http.Transport{DialContext: dial}}
		for range b.rounds {
			var list series
			for i := range roundTrips + 3 { // a few that warm up
				took, err := launch(client, body)
				if err != nil {
					return err
				}
				if i >= 3 {
					list = append(list, took)
				}
			}
			medians = append(medians, list.median())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	best := medians.best()
	return &result{ours: short(best), figure: best.Seconds() * 1e3, unit: " ms", noise: medians.noise()}, nil
}

// launch asks for one launch and reads the whole answer.
func launch(client *http.Client, body []byte) (time.Duration, error) {
	start := time.Now()
	resp, err := client.Post("http://daemon/v1/emulate", "application/vnd.gpuemu.launch", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	took := time.Since(start)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"passed"`))) {
		err = fmt.Errorf("launch: %s: %s", resp.Status, answer)
	}
	return took, err
}
