package ptxvm

// This file implements barrier.cluster (PTX ISA 9.7.13.4). Launches have clusters of one block, so it is one more
// barrier of the block, at which threads arrive and wait by two instructions. What a thread does between the two is not
// ordered by it, nor is anything before an arrival that is .relaxed.

// clusterBarrier is the place of the barrier among those of the block.
const clusterBarrier = 16

// clusterState is what has become of the barrier beside barrierState, which has those who wait.
type clusterState struct {
	here   [warpSize]uint32 // lanes that have arrived, by warp
	passed [warpSize]uint32 // lanes that have arrived at a barrier that is complete, and have not waited
	done   arrival          // what threads brought to the barrier that was completed last
}

// buildClusterBarrier makes barrier.cluster.arrive and barrier.cluster.wait, which have no operands.
func buildClusterBarrier(b *builder) {
	b.args(0)
	b.out.kind, b.out.a, b.out.b, b.out.c, b.out.d = barrier, noRef, noRef, noRef, noRef
	b.out.bar = &barrierUse{aligned: b.in.Has("aligned"), goesOn: b.in.Has("arrive"), cluster: true,
		relaxed: b.in.Has("relaxed")}
	if !b.out.bar.aligned && b.in.Guard != nil {
		b.skip(1)
	}
}

// atCluster lets lanes arrive at the barrier of the cluster, or wait there. It reports whether the path goes on at
// once.
func (w *warp) atCluster(i int, in *ins, mask uint32) bool {
	c, b := w.cta, &w.cta.barriers[clusterBarrier]
	s := &c.cluster
	here, passed := &s.here[w.index], &s.passed[w.index]
	switch {
	case in.bar.aligned && mask != w.alive:
		w.diverges(in, mask, w.elsewhere(mask, in))
	case in.bar.goesOn && (*here|*passed)&mask != 0:
		w.stop(in, firstLane((*here|*passed)&mask), BarrierDivergence,
			"arrives at the barrier of the cluster again, without having waited there")
	case in.bar.goesOn:
		*here |= mask
		b.arrived += countLanes(mask)
		if !in.bar.relaxed {
			c.shadow.leaves(b, w, mask)
		}
		c.settleCluster()
	case *passed&mask == mask:
		*passed &^= mask
		c.shadow.learns(&s.done, w, mask)
		return true
	case *here&mask == mask:
		b.waiting = append(b.waiting, waiting{warp: w, path: i, mask: mask, in: in, live: w.alive})
		w.ready = w.ready[:len(w.ready)-1]
	default:
		w.stop(in, firstLane(mask&^*here), BarrierDivergence,
			"waits at the barrier of the cluster, where it has not arrived")
	}
	return false
}

// settleCluster completes the barrier of the cluster if all threads that are left have arrived.
func (c *cta) settleCluster() {
	s, b := &c.cluster, &c.barriers[clusterBarrier]
	for _, w := range c.warps {
		if w.alive&^s.here[w.index] != 0 {
			return
		}
	}
	for i := range s.here {
		s.passed[i] |= s.here[i]
	}
	s.here, s.done = [warpSize]uint32{}, b.left
	for _, x := range b.waiting {
		s.passed[x.warp.index] &^= x.mask
		c.shadow.learns(&s.done, x.warp, x.mask)
		x.warp.ready = append(x.warp.ready, x.path)
	}
	*b = barrierState{waiting: b.waiting[:0]}
}

// learns orders what threads did before they arrived somewhere before what lanes do from now on.
func (b *blockShadow) learns(at *arrival, w *warp, lanes uint32) {
	if b == nil {
		return
	}
	b.proxy.sync()
	if !b.worker.race {
		return
	}
	r, i := &b.racing, w.index
	known := at.known
	switch {
	case at.rows == nil: // nobody has released anything
	case lanes == w.alive:
		r.rows[i] = r.row(r.rows[i])
		for j, stamp := range at.rows {
			r.rows[i][j] = max(r.rows[i][j], stamp)
		}
		r.refresh(i)
	default:
		known.acquired = r.worker.join(known.acquired, r.worker.newClock(clock{block: r.block, rows: at.rows}))
	}
	r.teach(i, lanes, &known)
	r.worker.tick()
}
