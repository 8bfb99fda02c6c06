package mcpidem

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/txonce/txonce/internal/canonjson"
)

// plainIntegers writes whole numbers without a point or an exponent, exactly: for JSON Schema 1050.0 and 1.05e3 are
// integers, for encoding/json they are not, and a model's retry may be the first call that arrives. Everything else
// keeps its value and its spelling.
func plainIntegers(args json.RawMessage) (json.RawMessage, error) {
	if !bytes.ContainsAny(args, ".eE") { // most arguments; a letter in a string costs a copy, no more
		return args, nil
	}
	var out bytes.Buffer
	decoder := jsontext.NewDecoder(bytes.NewBuffer(args))
	encoder := jsontext.NewEncoder(&out, jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) { // the end; in the middle of a value it is io.ErrUnexpectedEOF
			return bytes.TrimRight(out.Bytes(), "\n"), nil
		}
		if err != nil {
			return nil, err
		}
		if token.Kind() == '0' {
			err = encoder.WriteValue(plainInteger(token.String()))
		} else {
			err = encoder.WriteToken(token)
		}
		if err != nil {
			return nil, err
		}
	}
}

// longestInteger is the number of digits of the largest uint64.
const longestInteger = 20

func plainInteger(number string) jsontext.Value {
	if !strings.ContainsAny(number, ".eE") {
		return jsontext.Value(number)
	}
	canonical, err := canonjson.Canonical(canonjson.Version, []byte(number), nil)
	if err != nil {
		return jsontext.Value(number)
	}
	digits, exponent, _ := strings.Cut(string(canonical), "e")
	zeros := 0
	if exponent != "" {
		zeros, err = strconv.Atoi(exponent)
	}
	if err != nil || zeros < 0 || len(strings.TrimPrefix(digits, "-"))+zeros > longestInteger {
		return jsontext.Value(number)
	}
	return jsontext.Value(digits + strings.Repeat("0", zeros))
}
