package command

import (
	"errors"
	"io/fs"
	"os"

	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/watt"
	"github.com/chancery-gateway/chancery/snapshot/files"
	"github.com/chancery-gateway/chancery/snapshot/istio"
	"github.com/chancery-gateway/chancery/snapshot/join"
)

// initConfigDir is where an image may have manifests of its own (Emissary's fixed path).
const initConfigDir = "/ambassador/init-config"

// configDirs returns the folders of manifests that are there.
func (a *app) configDirs() (dirs []string) {
	for _, dir := range []string{a.settings.ConfigDir, initConfigDir} {
		if _, err := os.Stat(dir); dir != "" && !errors.Is(err, fs.ErrNotExist) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// joined adds to the gateway's source what else the settings name: folders of manifests beside a cluster, Istio's
// certificate, and what programs of this machine hand in.
func (a *app) joined(o *gateway.Options) (gateway.Source, error) {
	s := a.settings
	var parts []join.Part
	if s.IstioDir != "" {
		parts = append(parts, join.Part{Source: istio.New(istio.Options{Dir: s.IstioDir, Namespace: s.Namespace, Logger: o.Log}), Name: "Istio", Overrides: true})
	}
	main := join.Part{Source: o.Source, Name: "the files"}
	if o.Snapshots { // a cluster
		main.Name = "the cluster"
	}
	parts = append(parts, main)
	if o.Snapshots {
		if dirs := a.configDirs(); len(dirs) > 0 {
			source, err := files.New(dirs, files.Options{MaxDelay: s.ReconfigMaxDelay, Logger: o.Log})
			if err != nil {
				return nil, &status{exitUsage, err}
			}
			parts = append(parts, join.Part{Source: source, Name: "the folder of manifests"})
		}
	}
	if s.AcceptSnapshots {
		posted := watt.NewSource()
		o.Posted = posted
		parts = append(parts, join.Part{Source: posted, Name: "the snapshot that was handed in"})
	}
	return join.New(parts...), nil
}
