package mcpidem

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/txonce/txonce/internal/canonjson"
)

// plainIntegers writes whole numbers without a point or an exponent, exactly: for JSON Schema 1050.0 and 1.05e3 are
// integers, for encoding/json they are not, and a model's retry may be the first call that arrives. Everything else
// keeps its spelling. The arguments are valid JSON.
func plainIntegers(args json.RawMessage) json.RawMessage {
	var out []byte
	copied := 0
	for i := 0; i < len(args); {
		switch c := args[i]; {
		case c == '"':
			i = afterString(args, i)
		case c == '-' || '0' <= c && c <= '9':
			end := afterNumber(args, i)
			if number := args[i:end]; bytes.ContainsAny(number, ".eE") {
				out = append(out, args[copied:i]...)
				out = append(out, plainInteger(string(number))...)
				copied = end
			}
			i = end
		default:
			i++
		}
	}
	if copied == 0 {
		return args
	}
	return append(out, args[copied:]...)
}

func afterString(args []byte, i int) int {
	i++
	if end := bytes.IndexByte(args[i:], '"'); end >= 0 && bytes.IndexByte(args[i:i+end], '\\') < 0 {
		return i + end + 1 // most strings
	}
	for ; i < len(args) && args[i] != '"'; i++ {
		if args[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func afterNumber(args []byte, i int) int {
	for ; i < len(args); i++ {
		switch c := args[i]; {
		case '0' <= c && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return i
		}
	}
	return i
}

// longestInteger is the number of digits of the largest uint64.
const longestInteger = 20

func plainInteger(number string) string {
	if _, fraction, _ := strings.Cut(number, "."); strings.Trim(fraction, "0") != "" && !strings.ContainsAny(number, "eE") {
		return number // most numbers with a point
	}
	canonical, err := canonjson.Canonical(canonjson.Version, []byte(number), nil)
	if err != nil {
		return number
	}
	digits, exponent, _ := strings.Cut(string(canonical), "e")
	zeros := 0
	if exponent != "" {
		zeros, err = strconv.Atoi(exponent)
	}
	if err != nil || zeros < 0 || len(strings.TrimPrefix(digits, "-"))+zeros > longestInteger {
		return number
	}
	return digits + strings.Repeat("0", zeros)
}
