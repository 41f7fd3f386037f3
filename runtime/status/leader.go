package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseName is the name of the lease of an installation: names of objects are lower-case letters, digits, '-' and '.'.
func LeaseName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(id))
	return "chancery-" + name + "-leader"
}

// Run stands for election, writes while it is the leader, and stands again when it no longer is, until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, logr.Discard()) // what matters is told below
	config := rest.CopyConfig(w.options.Config)
	config.Timeout = w.options.Lease / 3
	leases, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: LeaseName(w.options.ID), Namespace: w.options.Namespace},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: w.options.Identity},
	}
	if _, err := leases.Leases(lock.LeaseMeta.Namespace).Get(ctx, lock.LeaseMeta.Name, metav1.GetOptions{}); apierrors.IsForbidden(err) {
		w.options.Log.Warn("no status is written until the lease may be read and written", "lease", lock.LeaseMeta.Namespace+"/"+lock.LeaseMeta.Name, "error", err)
	}
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			// Whoever waits looks once in a retry period, or in as much as 2.2 of them, notes a renewal as late as that, and takes
			// over as late as that after LeaseDuration: all in all within Lease of the leader's death.
			Lock: lock, LeaseDuration: w.options.Lease * 2 / 3, RenewDeadline: w.options.Lease * 2 / 5, RetryPeriod: w.options.Lease / 15, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					w.options.Log.Info("this replica writes statuses from now on", "identity", w.options.Identity)
					w.lead(ctx)
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return fmt.Errorf("election of the replica that writes statuses: %w", err)
		}
		elector.Run(ctx)
		sleep(ctx, time.Second)
	}
	return nil
}
