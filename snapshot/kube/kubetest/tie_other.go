//go:build !linux

package kubetest

import "os/exec"

func tie(*exec.Cmd) {}
