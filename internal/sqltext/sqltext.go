// Package sqltext reads SQL as far as it takes to tell statements and words apart: what stands in comments, strings, quoted
// names and dollar quotes is neither.
//
// [Statements] splits, [Words] lists, [Leading] tells what a statement is. All take any text and never fail: what is left open ends with the text. It is no parser:
// strings are read with standard_conforming_strings on, the default since PostgreSQL 9.1.
//
// It may import the standard library only.
package sqltext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Statements splits SQL at its semicolons. Parts without a word or any other sign, such as comments, are left out.
func Statements(sql string) []string {
	var out []string
	start, empty := 0, true
	for at := 0; at < len(sql); {
		kind, n := token(sql[at:])
		switch {
		case kind == semicolon:
			if !empty {
				out = append(out, sql[start:at])
			}
			start, empty = at+n, true
		case kind != space:
			empty = false
		}
		at += n
	}
	if !empty {
		out = append(out, sql[start:])
	}
	return out
}

// Leading returns the first two words of SQL in lower case, or nothing. It reads no further: most statements are told by their
// verb.
func Leading(sql string) (verb, object string) {
	for at := 0; at < len(sql); {
		kind, n := token(sql[at:])
		if kind == word {
			text := strings.ToLower(sql[at : at+n])
			if verb != "" {
				return verb, text
			}
			verb = text
		}
		at += n
	}
	return verb, ""
}

// Words returns the words of SQL in lower case, and each semicolon.
func Words(sql string) []string {
	var out []string
	for at := 0; at < len(sql); {
		kind, n := token(sql[at:])
		if kind == word || kind == semicolon {
			out = append(out, strings.ToLower(sql[at:at+n]))
		}
		at += n
	}
	return out
}

// kind is what a token is.
type kind int

const (
	space     kind = iota // white space and comments
	word                  // a keyword, a name without quotes, a number
	quoted                // a string, a quoted name, a dollar quote
	semicolon             // between statements
	other                 // everything else
)

// token returns the kind and the size of what sql, which is not empty, begins with.
func token(sql string) (kind, int) {
	if n := gap(sql); n > 0 {
		return space, n
	}
	switch {
	case sql[0] == '\'' || sql[0] == '"':
		return quoted, quote(sql, false)
	case sql[0] == ';':
		return semicolon, 1
	case sql[0] == '$':
		if tag := dollarTag(sql); tag != "" {
			return quoted, len(tag) + through(sql[len(tag):], tag)
		}
		return other, 1
	}
	n := strings.IndexFunc(sql, func(r rune) bool { return !inWord(r) && r != '$' }) // a name may hold a $, behind its first letter
	switch {
	case n < 0:
		return word, len(sql)
	case n == 0:
		return other, 1
	case sql[n] == '\'' && strings.EqualFold(sql[:n], "e"):
		return quoted, n + escaped(sql[n:])
	}
	return word, n
}

// inWord follows the server, for which any sign beyond ASCII is a letter.
func inWord(r rune) bool {
	return r == '_' || r >= utf8.RuneSelf || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// through returns the size of what ends with the end, or of all of it.
func through(sql, end string) int {
	if i := strings.Index(sql, end); i >= 0 {
		return i + len(end)
	}
	return len(sql)
}

// lineComment returns the size of a comment up to the end of its line, which a carriage return is as well.
func lineComment(sql string) int {
	if i := strings.IndexAny(sql, "\r\n"); i >= 0 {
		return i + 1
	}
	return len(sql)
}

// comment returns the size of a comment, which may hold others.
func comment(sql string) int {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(sql)
}

// quote returns the size of a string or a quoted name. A doubled quote does not end it.
func quote(sql string, escapes bool) int {
	end := sql[0]
	for i := 1; i < len(sql); i++ {
		switch {
		case escapes && sql[i] == '\\':
			i++
		case sql[i] == end && i+1 < len(sql) && sql[i+1] == end:
			i++
		case sql[i] == end:
			return i + 1
		}
	}
	return len(sql)
}

// escaped returns the size of a string with escapes. It goes on, with escapes, in what is quoted on the next line.
func escaped(sql string) int {
	end := quote(sql, true)
	for at := end; at < len(sql); {
		if sql[at] == '\'' {
			at += quote(sql[at:], true)
			end = at
			continue
		}
		n := gap(sql[at:])
		if n == 0 {
			break
		}
		at += n
	}
	return end
}

// gap returns the size of the comment or the space that sql begins with, or 0.
func gap(sql string) int {
	switch {
	case strings.HasPrefix(sql, "--"):
		return lineComment(sql)
	case strings.HasPrefix(sql, "/*"):
		return comment(sql)
	case unicode.IsSpace(rune(sql[0])) && sql[0] < utf8.RuneSelf:
		return 1
	}
	return 0
}

// dollarTag returns the $tag$ that sql begins with, or nothing.
func dollarTag(sql string) string {
	end := strings.IndexByte(sql[1:], '$')
	if end < 0 || strings.ContainsFunc(sql[1:1+end], func(r rune) bool { return !inWord(r) }) || end > 0 && unicode.IsDigit(rune(sql[1])) {
		return ""
	}
	return sql[:end+2]
}
