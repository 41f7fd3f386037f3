package validator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// child is one Envoy and the stream to it. It holds nothing of one verdict when it gives the next, so one that died is simply
// replaced. Probes are sent by one goroutine.
type child struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	good     *good
	own      spaces
	confined bool // by namespaces
	pid      int
	dir      string
	server   *grpc.Server

	ready chan struct{}
	// dead is closed when the process is gone; hung says that we ended it because it did not answer.
	dead chan struct{}
	exit string
	hung atomic.Bool

	sending sync.Mutex
	stream  discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer

	mu       sync.Mutex
	wake     chan struct{} // tells the watchdog that something waits
	waiting  []*probe      // in the order of sending
	asked    map[string]bool
	nonce    uint64
	became   bool
	serial   uint64
	clusters []string
	standIns map[string]bool
	// listening is the listener that is loaded, "" for none.
	listening string
}

// adsSocket is the socket of the stream, in the child's folder.
const adsSocket = "ads.sock"

// startTime bounds the time from exec to the first subscription.
const startTime = 20 * time.Second

// startChild starts an Envoy and waits until it takes probes.
func startChild(ctx context.Context, o *Options, good *good, own spaces) (c *child, err error) {
	c = &child{good: good, own: own, confined: own != noSpaces, ready: make(chan struct{}), dead: make(chan struct{}), wake: make(chan struct{}, 1),
		asked: map[string]bool{}}
	if c.dir, err = os.MkdirTemp("", folderPrefix); err != nil { // short: paths of sockets have 107 bytes
		return nil, err
	}
	l, err := listen(c.dir)
	if err != nil {
		os.RemoveAll(c.dir)
		return nil, err
	}
	c.server = grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(c.server, c)
	go c.server.Serve(l) // ends with the server
	text, err := bootstrap(filepath.Join(c.dir, adsSocket), filepath.Join(c.dir, "admin.sock"), o.Runtime, c.confined)
	file := filepath.Join(c.dir, "bootstrap.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err == nil {
		err = c.launch(o.Envoy, file)
	}
	if err != nil {
		c.server.Stop()
		os.RemoveAll(c.dir)
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case <-c.ready:
		go c.watch()
		return c, nil
	case <-c.dead:
		return nil, fmt.Errorf("the validating Envoy does not start: %s", c.exit)
	case <-bounded.Done():
		c.kill()
		<-c.dead
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("the validating Envoy does not ask for configuration within %s", startTime)
	}
}

// listen opens the socket of a folder, which has its name only once it is answered: one that is not looks abandoned.
func listen(dir string) (net.Listener, error) {
	begun := filepath.Join(dir, "ads.new")
	l, err := net.Listen("unix", begun)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(begun, filepath.Join(dir, adsSocket)); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// launch runs the binary in the namespaces.
func (c *child) launch(envoy, file string) error {
	cmd := exec.Command(envoy, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "error", "--log-format", "%v", "--drain-time-s", "1",
		"--ignore-unknown-dynamic-fields") // as the traffic's Envoy has it, for it decides about verdicts
	output := &tail{}
	cmd.Stderr = output
	cmd.WaitDelay = time.Second
	attr, err := c.own.attributes()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = attr
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that forked ends, so this thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		c.exit = "exit status 0"
		if err != nil {
			c.exit = err.Error()
		}
		if text := output.String(); text != "" {
			c.exit += ": " + text
		}
		c.server.Stop()
		os.RemoveAll(c.dir)
		close(c.dead)
	}()
	if err := <-started; err != nil {
		return err
	}
	c.pid = cmd.Process.Pid
	// Best effort: what a unit does to its validator's memory must not cost anything else on the machine.
	os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", c.pid), []byte("1000"), 0o600)
	return nil
}

// forbidden tells of errors that mean that namespaces cannot be had.
func forbidden(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)
}

// tail keeps the end of the child's output.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write takes any part of the output; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - 500; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(t.b), "")), " ")
}

func (c *child) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// kill ends the process at once.
func (c *child) kill() {
	if c.alive() {
		syscall.Kill(-c.pid, syscall.SIGKILL) // fails only when it is gone already
	}
}

// DeltaAggregatedResources is Envoy's stream.
func (c *child) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	c.sending.Lock()
	again := c.stream != nil
	c.stream = g
	c.sending.Unlock()
	if again {
		c.kill() // answers may have been lost
		return errors.New("a second stream")
	}
	for {
		q, err := g.Recv()
		if errors.Is(err, io.EOF) || err != nil {
			return err
		}
		if q.ResponseNonce != "" {
			refusal := ""
			if q.ErrorDetail != nil {
				refusal = bare(q.ErrorDetail.Message)
			}
			c.answer(q.ResponseNonce, refusal)
		}
		if r := c.reply(q); r != nil {
			if err := c.send(r, nil); err != nil {
				return err
			}
		}
		c.checkReady()
	}
}

// reply answers a subscription: with something good for the probe names, with nothing for wildcards, and with no endpoints for
// clusters, which wait for them. Listeners do not hold up their answer for the routes that they ask for, so they get none.
func (c *child) reply(q *discovery.DeltaDiscoveryRequest) *discovery.DeltaDiscoveryResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &discovery.DeltaDiscoveryResponse{TypeUrl: q.TypeUrl}
	switch q.TypeUrl {
	case ir.TypeCluster, ir.TypeListener:
		if c.asked[q.TypeUrl] {
			return nil
		}
		c.asked[q.TypeUrl] = true
		return r
	}
	for _, name := range q.ResourceNamesSubscribe {
		switch {
		case q.TypeUrl == ir.TypeEndpoint:
			r.Resources = append(r.Resources, emptyEndpoints(name))
			c.asked[probeEndpoints] = c.asked[probeEndpoints] || name == probeEndpoints
			continue
		case q.TypeUrl == ir.TypeRouteConfig && name == probeRoutes:
			r.Resources = append(r.Resources, resource(q.TypeUrl, name, named(nil, name)))
		case q.TypeUrl == ir.TypeExtension && name == probeExtension:
			r.Resources = append(r.Resources, resource(q.TypeUrl, name, named(c.good.extension, name)))
		case q.TypeUrl == ir.TypeSecret && name == probeCertificate:
			r.Resources = append(r.Resources, resource(q.TypeUrl, name, named(c.good.certificate, name)))
		case q.TypeUrl == ir.TypeSecret && name == probeAnchors:
			r.Resources = append(r.Resources, resource(q.TypeUrl, name, named(c.good.anchors, name)))
		default:
			continue
		}
		c.asked[name] = true
	}
	if len(r.Resources) == 0 {
		return nil
	}
	return r
}

// checkReady notes that everything that can be probed has been asked for and answered.
func (c *child) checkReady() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range []string{ir.TypeCluster, ir.TypeListener, probeEndpoints, probeRoutes, probeExtension, probeCertificate, probeAnchors} {
		if !c.asked[what] {
			return
		}
	}
	if !c.became {
		c.became = true
		close(c.ready)
	}
}

// send sends a response. A probe, which may be nil, is answered with Envoy's verdict over it.
func (c *child) send(r *discovery.DeltaDiscoveryResponse, p *probe) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	c.nonce++
	r.Nonce = strconv.FormatUint(c.nonce, 10)
	r.SystemVersionInfo = r.Nonce
	if p != nil {
		p.nonce = r.Nonce
		c.waiting = append(c.waiting, p)
	}
	c.mu.Unlock()
	if p != nil {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return c.stream.Send(r)
}

func (c *child) answer(nonce, refusal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.waiting {
		if p.nonce == nonce {
			p.refusal = refusal
			close(p.answered)
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			return
		}
	}
}

// watch ends a child whose oldest probe gets no answer in its time. On a busy machine the child may not have had that time: the
// clock alone counts only after ten times as long, until then it must have been computing.
func (c *child) watch() {
	const tick = 25 * time.Millisecond
	for {
		select {
		case <-c.dead:
			return
		case <-c.wake:
		}
		var oldest *probe
		var since time.Time
		var used time.Duration
		for {
			c.mu.Lock()
			var head *probe
			if len(c.waiting) > 0 {
				head = c.waiting[0]
			}
			c.mu.Unlock()
			if head == nil {
				break
			}
			if head != oldest {
				oldest, since, used = head, time.Now(), processorTime(c.pid)
			} else if took := time.Since(since); took > 10*head.budget || took > head.budget && processorTime(c.pid)-used > head.budget {
				c.hung.Store(true)
				c.kill()
				return
			}
			select {
			case <-c.dead:
				return
			case <-time.After(tick):
			}
		}
	}
}

// processorTime is the time that a process has been computing (proc(5): stat, utime and stime in clock ticks of 1/100 s).
func processorTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11]) // the kernel's own digits
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// submit sends the response of the candidates and what belongs behind it.
func (c *child) submit(cs []*candidate, budget time.Duration) (*probe, error) {
	c.serial++
	if r := c.standFor(cs); r != nil {
		if err := c.send(r, nil); err != nil {
			return &probe{candidates: cs, answered: make(chan struct{})}, err
		}
	}
	verdict, after := c.responses(cs, c.serial)
	p := &probe{candidates: cs, answered: make(chan struct{}), budget: budget}
	if err := c.send(verdict, p); err != nil {
		return p, err
	}
	if after != nil {
		return p, c.send(after, nil)
	}
	return p, nil
}

// wait returns false when the child ended before it answered.
func (c *child) wait(p *probe) bool {
	select {
	case <-p.answered:
		return true
	default:
	}
	select {
	case <-p.answered:
		return true
	case <-c.dead:
		return false
	}
}
