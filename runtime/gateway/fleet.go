package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
)

// FleetFault is the error of a setting for Envoys elsewhere.
type FleetFault struct {
	Setting string
	Err     error
}

// Error names the setting.
func (f *FleetFault) Error() string { return fmt.Sprintf("--%s: %v", f.Setting, f.Err) }

// Unwrap returns the reason.
func (f *FleetFault) Unwrap() error { return f.Err }

// listenFleet takes the address on which Envoys elsewhere are served, with the security that they are held to; nil where none is set.
func (g *Gateway) listenFleet() (net.Listener, *tls.Config, error) {
	s := g.settings
	if s.FleetAddress == "" {
		return nil, nil, nil
	}
	for setting, file := range map[string]string{"fleet-certificate": s.FleetCertificate, "fleet-key": s.FleetKey, "fleet-ca": s.FleetCA} {
		if file == "" {
			return nil, nil, &FleetFault{setting, fmt.Errorf("is not set, and --fleet-address is: what is served holds private keys, so it goes to Envoys with a trusted certificate only")}
		}
	}
	if _, err := g.fleetTLS(); err != nil {
		return nil, nil, err
	}
	l, err := listen("tcp", s.FleetAddress, "the fleet's xDS address", "fleet-address")
	if err != nil {
		return nil, nil, err
	}
	// The files are read at each handshake, so that a renewed certificate counts without a restart.
	return l, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := g.fleetTLS()
		if err != nil {
			g.log.Error("Envoys elsewhere cannot connect", "error", err)
		}
		return c, err
	}}, nil
}

// fleetTLS reads the files that say who may connect, and as whom we answer.
func (g *Gateway) fleetTLS() (*tls.Config, error) {
	s := g.settings
	pair, err := tls.LoadX509KeyPair(s.FleetCertificate, s.FleetKey)
	if err != nil {
		return nil, &FleetFault{"fleet-certificate", fmt.Errorf("%s and --fleet-key %s: %w", s.FleetCertificate, s.FleetKey, err)}
	}
	text, err := os.ReadFile(s.FleetCA)
	if err != nil {
		return nil, &FleetFault{"fleet-ca", err}
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return nil, &FleetFault{"fleet-ca", fmt.Errorf("%s holds no certificate in PEM", s.FleetCA)}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	}, nil
}

// serveFleet serves Envoys elsewhere until ctx ends.
func (g *Gateway) serveFleet(ctx context.Context, l net.Listener, security *tls.Config) error {
	g.log.Info("Envoys elsewhere are served", "address", l.Addr())
	return g.server.Serve(ctx, l, security)
}
