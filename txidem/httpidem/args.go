package httpidem

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/txonce/txonce/internal/canonjson"
)

// args are what a request asks for, as the arguments of a call.
type args struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Query  any             `json:"query,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Hash   string          `json:"body_sha256,omitempty"`
}

// argsOf makes the document that is compared. A body of JSON is a part of it, so that its spelling does not count and a
// mismatch can name what differs; where it is none, or none that has one meaning, it counts by its bytes.
func argsOf(r *http.Request, body []byte) json.RawMessage {
	doc := args{Method: r.Method, Path: pathOf(r), Query: queryOf(r.URL.RawQuery)}
	if len(body) == 0 {
		return marshal(doc)
	}
	if isJSON(r.Header.Get("Content-Type")) && json.Valid(body) {
		doc.Body = body
		raw := marshal(doc)
		if _, err := canonjson.Canonical(canonjson.Version, raw, nil); err == nil {
			return raw
		}
		doc.Body = nil
	}
	sum := sha256.Sum256(body)
	doc.Hash = hex.EncodeToString(sum[:])
	return marshal(doc)
}

// pathOf is the path as the client sent it: what a router strips from it tells requests apart as well.
func pathOf(r *http.Request) string {
	if sent, err := url.ParseRequestURI(r.RequestURI); err == nil && sent.Path != "" {
		return sent.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// queryOf is the query as a map, in which the order of different names does not count. Where that would lose something, it is
// the query's text, escaped so that no two bytes are one.
func queryOf(raw string) any {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return url.QueryEscape(raw)
	}
	for name, list := range values {
		if !utf8.ValidString(name + strings.Join(list, "")) {
			return url.QueryEscape(raw)
		}
	}
	return values
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// operationOf is the default of Config.Operation.
func operationOf(r *http.Request) string {
	route := r.Pattern
	if route == "" {
		route = r.URL.EscapedPath()
	}
	if !strings.Contains(route, " ") { // patterns of http.ServeMux may have the method in them
		route = r.Method + " " + route
	}
	if !isName(route) {
		sum := sha256.Sum256([]byte(route))
		route = "sha256:" + hex.EncodeToString(sum[:])
	}
	return route
}

// isName reports whether the core takes the text for a scope or a tool.
func isName(text string) bool {
	return text != "" && len(text) <= 255 && utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}
