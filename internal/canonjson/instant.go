package canonjson

import "time"

// appendInstant appends the quoted RFC 3339 timestamp rounded down to a multiple of every since year 1, in UTC, so
// that equal instants are equal whatever their zone. It reports false for any other string.
func appendInstant(dst, quoted []byte, every time.Duration) ([]byte, bool) {
	text := string(quoted[1 : len(quoted)-1])
	if !isTimestamp(text) {
		return dst, false
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return dst, false
	}
	t = t.UTC().Truncate(every)
	if t.Year() < 0 || t.Year() > 9999 {
		return dst, false // has no RFC 3339 spelling
	}
	return append(t.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"'), true
}

// isTimestamp holds text to the grammar of RFC 3339. Package time also takes a decimal comma, hours of one digit and
// zones of 24 hours, and means to stop doing so (go.dev/issue/54580): our bytes must not change on that day. The
// ranges of the rest it has always checked.
func isTimestamp(text string) bool {
	const date = "0000-00-00T00:00:00"
	if len(text) < len(date) || !matches(text[:len(date)], date) {
		return false
	}
	zone := text[len(date):]
	if zone != "" && zone[0] == '.' {
		end := 1
		for end < len(zone) && digit(zone[end]) {
			end++
		}
		if end == 1 {
			return false
		}
		zone = zone[end:]
	}
	if zone == "Z" {
		return true
	}
	return (matches(zone, "+00:00") || matches(zone, "-00:00")) && zone[1:3] <= "23" && zone[4:] <= "59"
}

// matches reports whether text is the pattern, in which 0 stands for any digit.
func matches(text, pattern string) bool {
	if len(text) != len(pattern) {
		return false
	}
	for i := range len(text) {
		if text[i] != pattern[i] && !(pattern[i] == '0' && digit(text[i])) {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
