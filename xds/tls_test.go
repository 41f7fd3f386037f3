package xds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestMutualTLS: over a network address only clients whose certificate is trusted are answered.
func TestMutualTLS(t *testing.T) {
	pair := func(name string) (tls.Certificate, *x509.CertPool) {
		cert, key := keyPair(t, name)
		c, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(cert)
		return c, pool
	}
	serverCert, serverPool := pair("xds.example.com")
	envoyCert, envoyPool := pair("envoy.example.com")
	strangerCert, _ := pair("stranger.example.com")

	s := newServer(Options{})
	s.Publish(small())
	l := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{serverCert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: envoyPool})
	}()
	for _, tt := range []struct {
		name  string
		certs []tls.Certificate
		want  bool
	}{
		{"known", []tls.Certificate{envoyCert}, true},
		{"stranger", []tls.Certificate{strangerCert}, false},
		{"anonymous", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///xds",
				grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{Certificates: tt.certs, RootCAs: serverPool, ServerName: "xds.example.com"})),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
			if err == nil {
				if err = stream.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster}); err == nil {
					_, err = stream.Recv()
				}
			}
			if got := err == nil; got != tt.want {
				t.Errorf("answered: %v (%v)", got, err)
			}
		})
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("Serve did not return")
	}
}
