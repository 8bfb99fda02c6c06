package httpidem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// response is what is recorded. Its JSON is stored: change it only so that older records can be read.
type response struct {
	Status int                 `json:"status"`
	Header map[string][]octets `json:"header,omitempty"` // the kept ones that the handler has set; an empty list deletes
	Body   octets              `json:"body,omitempty"`

	all      http.Header // all headers, for the first response
	recorded bool        // by the handler's word, whatever the status
}

// newResponse keeps of the headers those in kept, in whatever spelling, that the handler has changed: what middleware in
// front sets, it sets on each request anew.
func newResponse(status int, header, before http.Header, kept []string, body string) *response {
	resp := &response{Status: status, all: header, Body: octets(body)}
	for _, name := range namesOf(header, before) {
		_, set := header[name]
		if _, was := before[name]; set == was && slices.Equal(header[name], before[name]) || !slices.Contains(kept, http.CanonicalHeaderKey(name)) {
			continue
		}
		values := make([]octets, len(header[name]))
		for i, v := range header[name] {
			values[i] = octets(v)
		}
		if resp.Header == nil {
			resp.Header = make(map[string][]octets)
		}
		resp.Header[name] = values
	}
	return resp
}

// namesOf returns the names in the two, as they are spelled: handlers write w.Header()["ETag"] where the spelling matters to them.
func namesOf(header, before http.Header) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(header)), maps.Keys(before))
	slices.Sort(names)
	return slices.Compact(names)
}

// send writes the response to a client that it is new to.
func (resp *response) send(w http.ResponseWriter, method string) {
	h := w.Header()
	clear(h)
	maps.Copy(h, resp.all)
	resp.write(w, method)
}

// replay writes a recorded response.
func (resp *response) replay(w http.ResponseWriter, method string) {
	h := w.Header()
	for name, values := range resp.Header {
		h[name] = make([]string, len(values)) // an empty one keeps net/http from guessing the type
		for i, v := range values {
			h[name][i] = string(v)
		}
	}
	h.Set(HeaderReplayed, "true")
	resp.write(w, method)
}

// write ends the response. An error means that the client has left: what was recorded waits for its next try.
func (resp *response) write(w http.ResponseWriter, method string) {
	if h := w.Header(); method != http.MethodHead {
		h.Del("Content-Length")
		if hasBody(resp.Status) {
			h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
		}
	}
	w.WriteHeader(resp.Status)
	if len(resp.Body) > 0 {
		_, _ = io.WriteString(w, string(resp.Body))
	}
}

// codePrefix begins the code of a failure that carries a response in its message.
const codePrefix = "http_"

// failure makes of a 4xx what the core records in place of an answer: what the handler wrote is rolled back (H02).
func (resp *response) failure() error {
	return txidem.Fail(codePrefix+strconv.Itoa(resp.Status), string(marshal(resp)))
}

// responseIn returns the response in a failure that failure made.
func responseIn(f *toolcall.Failure) (*response, error) {
	if !strings.HasPrefix(f.Code, codePrefix) {
		return nil, fmt.Errorf("%w: the failure %q carries no response", txidem.ErrRecord, f.Code)
	}
	return decodeResponse([]byte(f.Message))
}

func decodeResponse(raw []byte) (*response, error) {
	resp := &response{}
	if err := json.Unmarshal(raw, resp); err != nil {
		return nil, fmt.Errorf("%w: its answer is no response: %w", txidem.ErrRecord, err)
	}
	if resp.Status < 200 || resp.Status > 999 {
		return nil, fmt.Errorf("%w: its answer is no response", txidem.ErrRecord)
	}
	return resp, nil
}

// octets are bytes that come through JSON as they were: as a string where they are UTF-8, else in base64.
type octets string

type inBase64 struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON is for encoding/json.
func (o octets) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(o)) {
		return marshal(string(o)), nil
	}
	return marshal(inBase64{[]byte(o)}), nil
}

// UnmarshalJSON is for encoding/json.
func (o *octets) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		var b inBase64
		err := json.Unmarshal(raw, &b)
		*o = octets(b.Base64)
		return err
	}
	return json.Unmarshal(raw, (*string)(o))
}

// marshal is json.Marshal without the escapes that are for HTML. It is for values that cannot fail.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only by a mistake in this package
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
