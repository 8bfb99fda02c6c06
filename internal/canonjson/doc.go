// Package canonjson gives JSON arguments an exact fingerprint: the same value always has the same bytes, and two
// different values never have.
//
// Two functions do most of the work. [Sum] hashes the arguments that count; [Diff] names the paths at which other
// arguments differ from the ones whose [Fields] were stored. [Compile] and [RulesFor] say what counts, [TakeString]
// strips a reserved argument.
//
// # The canonical form, version 1
//
// The text of a value, without white space, in UTF-8, where
//
//   - an object's members are sorted by their names' code points, at every depth, compared after unescaping;
//   - a string is spelled as in RFC 8785, section 3.2.2.2: only the quote, the backslash and U+0000 to U+001F are
//     escaped, as \b \t \n \f \r where there is such a form and as \u00xx otherwise. There is no Unicode
//     normalisation: NFC and NFD are two values;
//   - a number is an optional minus sign, its significant digits without leading or trailing zeros, and, unless it is
//     zero, the letter e and the decimal exponent of the last digit: 1, -15e-1 for -1.50, 1e2 for 100, 0 for -0.00. Two
//     numbers have one spelling exactly when they are numerically equal; no float takes part;
//   - null, true and false are themselves, and null is not the same as an absent member.
//
// The form is frozen. Whatever changes one byte of it is a new version beside the old one, since records outlive an
// upgrade and each is judged by the version that is stored with it (K09).
//
// Refused, each with an error of its own: empty input, anything after the value, invalid UTF-8, a member name that
// occurs twice (after unescaping), and half a surrogate pair (\ud800), which the JSON grammar allows but which stands
// for no character, so that two parsers may read two different strings.
//
// # Limits
//
//   - [MaxSize]: 4 MiB of input.
//   - [MaxDepth]: 64 objects and arrays inside one another.
//   - [MaxDigits]: 1024 significant digits in a number.
//   - [MaxExponent]: the canonical exponent lies between -9999 and 9999, so 1e400000000 is refused by looking at its
//     text. Zero may be written with any exponent.
//
// They hold for ignored members as well: whether arguments are acceptable does not depend on the rules. They are
// constants, so that two processes never disagree about one call. Time and memory are linear in the input, apart
// from sorting the members of an object, which copies them once more for each level that is out of order.
//
// # Paths
//
// A path is a JSON Pointer (RFC 6901): each token is preceded by a slash, and "/a/b" is member b of member a. A token
// that consists of a single asterisk stands for every member or element: "/lines/*/memo". Inside a token, ~0 is a
// tilde, ~1 is a slash and ~2 is an asterisk, so "/~2" is the member whose name is an asterisk. A token that is a
// number without leading zeros also stands for that array element, counted from 0. Names are compared exactly, also
// where a decoder would accept another case. Paths that are reported, by errors and by Diff, are spelled the same way,
// without wildcards: a reported path can be used in a rule as it is.
package canonjson
