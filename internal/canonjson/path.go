package canonjson

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPath is how many bytes of a path are shown: member names are as long as the sender likes.
const maxPath = 256

// token is one step of a rule's path: a name, or any.
type token struct {
	name string
	any  bool
}

// parsePath reads a rule's path; the syntax is in the package documentation.
func parsePath(path string) ([]token, error) {
	switch {
	case path == "":
		return nil, errors.New("the empty path is the whole document: name a member, such as /memo")
	case path[0] != '/':
		return nil, errors.New("a path begins with a slash, such as /memo")
	case !utf8.ValidString(path):
		return nil, errors.New("a path is UTF-8")
	}
	parts := strings.Split(path[1:], "/")
	if len(parts) > MaxDepth {
		return nil, fmt.Errorf("a path has at most %d tokens", MaxDepth)
	}
	tokens := make([]token, len(parts))
	for i, part := range parts {
		if part == "*" {
			tokens[i].any = true
			continue
		}
		name, err := unescapeToken(part)
		if err != nil {
			return nil, err
		}
		tokens[i].name = name
	}
	return tokens, nil
}

func unescapeToken(part string) (string, error) {
	var name strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '~' {
			name.WriteByte(part[i])
			continue
		}
		i++
		if i == len(part) || part[i] < '0' || part[i] > '2' {
			return "", errors.New("a tilde is written ~0 (and ~1 is a slash, ~2 an asterisk)")
		}
		name.WriteByte("~/*"[part[i]-'0'])
	}
	return name.String(), nil
}

// appendToken appends a slash and the name, escaped so that parsePath reads the same name.
func appendToken(dst, name []byte) []byte {
	dst = append(dst, '/')
	if string(name) == "*" {
		return append(dst, "~2"...)
	}
	for _, c := range name {
		switch c {
		case '~':
			dst = append(dst, "~0"...)
		case '/':
			dst = append(dst, "~1"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// shortPath cuts a path that is too long to show.
func shortPath(path string) string {
	if len(path) <= maxPath {
		return path
	}
	end := maxPath
	for end > 0 && !utf8.RuneStart(path[end]) {
		end--
	}
	return path[:end] + "…"
}
