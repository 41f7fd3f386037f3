package kubetest

import (
	"os/exec"
	"syscall"
)

// tie lets the child end with the test binary, however that ends.
func tie(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
