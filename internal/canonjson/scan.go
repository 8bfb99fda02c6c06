package canonjson

import "bytes"

// The functions of this file find their way in text that jsontext has accepted and spelled without white space. They
// check nothing.

// stringEnd returns the position behind the string that begins at pos.
func stringEnd(text []byte, pos int) int {
	pos++
	quote := bytes.IndexByte(text[pos:], '"')
	if bytes.IndexByte(text[pos:pos+quote], '\\') < 0 {
		return pos + quote + 1
	}
	for text[pos] != '"' {
		if text[pos] == '\\' {
			pos++
		}
		pos++
	}
	return pos + 1
}

// numberEnd returns the position behind the number, or the literal, that begins at pos.
func numberEnd(text []byte, pos int) int {
	for pos < len(text) && text[pos] != ',' && text[pos] != '}' && text[pos] != ']' {
		pos++
	}
	return pos
}

// valueEnd returns the position behind the value that begins at pos.
func valueEnd(text []byte, pos int) int {
	for depth := 0; ; {
		switch text[pos] {
		case '{', '[':
			depth++
			pos++
		case '}', ']':
			depth--
			pos++
		case ',', ':':
			pos++
		case '"':
			pos = stringEnd(text, pos)
		default:
			pos = numberEnd(text, pos)
		}
		if depth == 0 {
			return pos
		}
	}
}
