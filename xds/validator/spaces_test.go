package validator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// space returns the name of a process's namespace of a kind.
func space(t *testing.T, pid any, kind string) string {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/%v/ns/%s", pid, kind))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// elsewhere runs one test of this program in another process and fails with it. why is what it takes, for a machine that forbids it.
func elsewhere(t *testing.T, why string, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(cmd.Env, "CHANCERY_ENVOY="+findEnvoy(t), "CHANCERY_TEST_ELSEWHERE=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		if !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("it did not run:\n%s", out)
		}
	case !strings.Contains(string(out), "--- FAIL") && os.Getenv("CI") == "":
		t.Skipf("%s: %v: %s", why, err, out)
	default:
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestNamespaces: the child has a user and a network namespace of its own by clone flags, for root and for others; in the network
// there is nothing but loopback, and that is down.
func TestNamespaces(t *testing.T) {
	check := func(t *testing.T) {
		all := suspects(t)
		v := open(t, nil)
		compare(t, all, judge(t, v, unitsOf(all)...))
		s := v.Status()
		if !s.Confined || v.child.own != ownUser {
			t.Fatalf("the child has %s: %s", v.child.own, s.Problem)
		}
		for _, kind := range []string{"user", "net"} {
			if own, ours := space(t, s.PID, kind), space(t, "self", kind); own == ours {
				t.Errorf("the child is in our %s namespace %s", kind, ours)
			}
		}
		devices, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", s.PID))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(devices)), "\n")[2:] {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch name {
			case "lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0": // the kernel's own, down
			default:
				t.Errorf("the child has the interface %s", name)
			}
		}
		routes, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/route", s.PID))
		if err != nil || strings.Count(strings.TrimSpace(string(routes)), "\n") > 0 {
			t.Errorf("the child has routes: %s, %v", routes, err)
		}
	}
	if os.Getenv("CHANCERY_TEST_ELSEWHERE") != "" {
		check(t)
		return
	}
	t.Run("as we are", check)
	t.Run("as somebody", func(t *testing.T) {
		if os.Geteuid() != 0 {
			return // that is what we are
		}
		// The program and its Envoy are copied to where everybody may read them.
		dir, err := os.MkdirTemp("", "v")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		copied := func(from, name string) string {
			data, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, name)
			if err := os.WriteFile(to, data, 0o755); err != nil {
				t.Fatal(err)
			}
			return to
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(copied(os.Args[0], "test"), "-test.run", "^TestNamespaces$", "-test.v")
		cmd.Dir = dir
		cmd.Env = []string{"TMPDIR=" + dir, "CI=" + os.Getenv("CI")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		t.Setenv("CHANCERY_ENVOY", copied(findEnvoy(t), "envoy"))
		elsewhere(t, "no user namespace for others than root", cmd)
	})
}

// TestForbiddenNamespaces runs the verdicts where the kernel grants no network namespace, and no user namespace: inside a user
// namespace whose limit is zero.
func TestForbiddenNamespaces(t *testing.T) {
	if os.Getenv("CHANCERY_TEST_ELSEWHERE") != "" {
		all := suspects(t)
		v := open(t, nil)
		compare(t, all, judge(t, v, unitsOf(all)...))
		want := noSpaces
		if os.Getenv("CHANCERY_TEST_WANT") == "network" {
			want = ownNetwork
		}
		if v.child.own != want || v.Status().Confined != (want != noSpaces) {
			t.Errorf("the child has %s", v.child.own)
		}
		return
	}
	findEnvoy(t)
	for limits, want := range map[string]string{"net": "none", "net user": "none", "user": "network"} {
		t.Run(limits, func(t *testing.T) {
			script := ""
			for _, l := range strings.Fields(limits) {
				script += "echo 0 > /proc/sys/user/max_" + l + "_namespaces && "
			}
			cmd := exec.Command("unshare", "--user", "--map-root-user", "sh", "-c", script+`exec "$0" -test.run '^TestForbiddenNamespaces$' -test.v`, os.Args[0])
			cmd.Env = append(os.Environ(), "CHANCERY_TEST_WANT="+want)
			elsewhere(t, "no user namespace to try this in", cmd)
		})
	}
}
