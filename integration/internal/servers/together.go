package servers

import (
	"net/url"
	"strings"
)

// Together is the URL of all the servers, of one place: clients that have it find the one that takes writes, wherever that is by
// then.
func Together(all ...*Server) (string, error) {
	var hosts, sockets, ports []string
	var first *url.URL
	for _, s := range all {
		u, err := url.Parse(s.url)
		if err != nil {
			return "", err
		}
		if first == nil {
			first = u
		}
		hosts = append(hosts, u.Host)
		sockets = append(sockets, u.Query().Get("host"))
		ports = append(ports, u.Query().Get("port"))
	}
	query := first.Query()
	if query.Has("host") {
		query.Set("host", strings.Join(sockets, ","))
		query.Set("port", strings.Join(ports, ","))
	} else {
		first.Host = strings.Join(hosts, ",")
	}
	query.Set("target_session_attrs", "read-write")
	query.Set("connect_timeout", "5") // seconds, of each of them: one that is frozen takes connections and says nothing
	first.RawQuery = query.Encode()
	return first.String(), nil
}
