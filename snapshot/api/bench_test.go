package api_test

import (
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

var samples = map[string]string{
	"Mapping":       `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"quote-backend-17","namespace":"shop","generation":3,"uid":"6f9619ff-8b86-d011-b42d-00cf4fc964ff","creationTimestamp":"2025-03-01T10:00:00Z","labels":{"app":"quote","team":"shop"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"getambassador.io/v3alpha1\",\"kind\":\"Mapping\"}\n"}},"spec":{"hostname":"shop-17.example.com","prefix":"/backend-api/17/","service":"http://quote.shop:8080","timeout_ms":5000,"add_request_headers":{"x-shop":{"value":"17"}},"retry_policy":{"retry_on":"5xx","num_retries":3},"weight":20,"labels":{"ambassador":[{"group":[{"request_headers":{"key":"user","header_name":"x-user"}}]}]}}}`,
	"Service":       `{"apiVersion":"v1","kind":"Service","metadata":{"name":"quote","namespace":"shop","uid":"6f9619ff-8b86-d011-b42d-00cf4fc964ff","resourceVersion":"12345","creationTimestamp":"2025-03-01T10:00:00Z","labels":{"app":"quote"}},"spec":{"type":"ClusterIP","clusterIP":"10.0.0.17","clusterIPs":["10.0.0.17"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster","ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080},{"name":"metrics","port":9090,"protocol":"TCP","targetPort":"metrics"}],"selector":{"app":"quote"},"sessionAffinity":"None"},"status":{"loadBalancer":{}}}`,
	"EndpointSlice": `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"quote-x7k2p","namespace":"shop","labels":{"kubernetes.io/service-name":"quote","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io"}},"addressType":"IPv4","endpoints":[{"addresses":["10.1.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":"node-1","zone":"eu-1a","targetRef":{"kind":"Pod","name":"quote-1","namespace":"shop","uid":"1"}},{"addresses":["10.1.0.2"],"conditions":{"ready":false,"serving":true,"terminating":true},"nodeName":"node-2","zone":"eu-1b","targetRef":{"kind":"Pod","name":"quote-2","namespace":"shop","uid":"2"}},{"addresses":["10.1.0.3"],"conditions":{"ready":true},"nodeName":"node-2","zone":"eu-1b"}],"ports":[{"name":"http","port":8080,"protocol":"TCP"}]}`,
	"Secret":        `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls","namespace":"shop"},"type":"kubernetes.io/tls","data":{"tls.crt":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUI=","tls.key":"LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUI="}}`,
	"MappingV2":     `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"quote","namespace":"shop"},"spec":{"host":"shop.example.com","prefix":"/api/","service":"quote:8080","tls":true,"headers":{"x-a":true},"add_request_headers":{"x-shop":"17"},"ambassador_id":"edge"}}`,
}

// BenchmarkDecode measures one object of each of the kinds of which a cluster has thousands.
func BenchmarkDecode(b *testing.B) {
	for _, kind := range []string{"Mapping", "Service", "EndpointSlice", "Secret", "MappingV2"} {
		doc := []byte(samples[kind])
		b.Run(kind, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if o, found := api.Decode(doc, snapshot.Source{}, nil); o == nil || len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
	}
}
